package wire

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// However many peers do not take their answers, or wait for what such ones keep, a stop takes hardly longer than for one.
// It is none that failed, and somebody who reads gets the answer all the same.
func TestStopWaitsForSlowPeersTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, metadata := slowServer(t)
		var log bytes.Buffer
		s.s.logger = slog.New(slog.NewTextHandler(&log, nil))
		var slow sync.WaitGroup
		for range 30 {
			c := s.dial(t)
			c.send(metadata)
			slow.Go(func() {
				for b := make([]byte, 4<<10); ; wait(time.Second) {
					if _, err := c.Read(b); err != nil {
						return
					}
				}
			})
		}
		synctest.Wait()
		reader := s.dial(t)
		reader.send(metadata)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began, stopped := time.Now(), make(chan error)
		go func() { stopped <- s.s.Shutdown(ctx) }()
		reader.receive(metadata, 1)
		if err := <-stopped; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if d := time.Since(began); d > stopPatience+2*latePatience {
			t.Errorf("Shutdown took %v, want at most %v", d, stopPatience+2*latePatience)
		}
		if st := s.s.Stats(); st.Connections != 0 || st.AnswerBytes != 0 {
			t.Errorf("%d connections and %d bytes of answers are left, want none", st.Connections, st.AnswerBytes)
		}
		slow.Wait()
		// Some of them were cut off because others waited for their memory.
		if line := "had to stop\" connections=30\n"; strings.Count(log.String(), line) != 1 {
			t.Errorf("the log has no line that ends with %q:\n%s", line, log.String())
		}
	})
}
