package storage

import (
	"context"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kaen-log/gateway/storage/vfs"
)

func TestRunTriesAgainToReadTheDataDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failing atomic.Int32
		fsys := vfs.Inject(vfs.NewMem(vfs.MemOptions{Now: time.Now}), func(op vfs.Op) error {
			if op.Kind == vfs.OpList && strings.HasSuffix(op.Name, testDir) && failing.Add(-1) >= 0 {
				return syscall.EIO
			}
			return nil
		})
		s, err := Open(testDir, Options{FS: fsys, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		failing.Store(2)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		synctest.Wait()
		if s.Stats().Recovered {
			t.Error("recovered although the directory cannot be read")
		}
		time.Sleep(2*housekeepingInterval + time.Second)
		synctest.Wait()
		if !s.Stats().Recovered {
			t.Errorf("not recovered, with %d failures left", failing.Load())
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run ended with %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
