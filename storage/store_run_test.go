package storage

import (
	"context"
	"path/filepath"
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

// A recovery may take long. Files of other logs whose time has come are removed meanwhile.
func TestRecoveryHoldsUpNoHousekeeping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem(vfs.MemOptions{Now: time.Now})
		s, err := Open(testDir, Options{FS: mem, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		mustProduce(t, createTopic(t, s, "slow", 1), 0, "a")
		orders := createTopic(t, s, "orders", 1)
		mustProduce(t, orders, 0, "a")
		closeStore(t, s)

		release := make(chan struct{})
		s, err = Open(testDir, Options{RecoveryThreads: 2, Now: time.Now, FS: vfs.Inject(mem, func(op vfs.Op) error {
			if strings.Contains(op.Name, "slow-0") {
				<-release
			}
			return nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		stop := runStore(t, s)
		orders, _ = s.Topic("orders")
		l, _ := orders.Partition(0)
		if err := l.Roll(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.DeleteBefore(1); err != nil {
			t.Fatal(err)
		}
		deleted := func() bool {
			_, err := mem.Stat(segmentFile(testDir+"/orders-0", 0, logSuffix+deletedSuffix))
			return err == nil
		}
		if !deleted() {
			t.Error("no file waits to be removed")
		}
		time.Sleep(l.Config().fileDeleteDelay() + housekeepingInterval)
		synctest.Wait()
		if slow, _ := s.Topic("slow"); deleted() || !recovers(slow) {
			t.Errorf("the file is still there: %v, the other log recovers: %v", deleted(), recovers(slow))
		}
		close(release)
		stop()
		closeStore(t, s)
	})
}

func recovers(t *Topic) bool {
	l, ok := t.Partition(0)
	return ok && l.Status() == StatusRecovering
}

// A sync that fails in the stop itself takes the log offline when nobody looks any more; the stop is not a clean one.
func TestSyncThatFailsInTheStopIsNoCleanStop(t *testing.T) {
	for _, fail := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { testStop(t, fail) })
	}
}

func testStop(t *testing.T, fail bool) {
	mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
	var failing atomic.Bool
	s, err := Open(testDir, Options{Durability: Async, Now: time.Now, FS: vfs.Inject(mem, func(o vfs.Op) error {
		if failing.Load() && o.Kind == vfs.OpSync && o.Name == segmentFile(testDir+"/orders-0", 0, logSuffix) {
			return &vfs.LostSync{Err: errInjected}
		}
		return nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	stop := runStore(t, s)
	synctest.Wait()
	stop()
	topic := createTopic(t, s, "orders", 1)
	mustProduce(t, topic, 0, "a")
	failing.Store(fail)
	closeStore(t, s)
	if _, err := mem.Stat(filepath.Join(testDir, cleanShutdownFile)); fail != notExist(err) {
		t.Errorf("sync fails in the stop: %v; marker of a clean stop: %v", fail, err)
	}
	var want []string
	if !fail {
		want = []string{"a"}
	}
	s = openStore(t, mem.CrashClone(1, 0))
	checkValues(t, lookUp(t, s, "orders"), 0, want...)
	closeStore(t, s)
}
