package share

import (
	"bytes"
	"errors"
	"log/slog"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage/vfs"
)

// A log that cannot be read is not read for every call that comes, and what is wrong
// with it is said once.
func TestALogThatCannotBeReadIsLeftAloneForAWhile(t *testing.T) {
	var broken atomic.Pointer[error] // what reads of the state fail with
	var reads atomic.Int64
	mem := vfs.NewMem(vfs.MemOptions{})
	first := open(t, mem, Config{})
	first.initialize(0, 7)
	if err := first.store.Close(); err != nil {
		t.Fatal(err)
	}
	w := open(t, vfs.Inject(mem, func(op vfs.Op) error {
		err := broken.Load()
		if err == nil || op.Kind != vfs.OpReadAt || !strings.HasPrefix(path.Base(path.Dir(op.Name)), StateTopic) {
			return nil
		}
		reads.Add(1)
		return *err
	}), Config{})
	var lines bytes.Buffer
	w.st.o.Logger = slog.New(slog.NewTextHandler(&lines, nil))
	if _, err := w.st.shardOf(w.key(0)).log.Offsets(); err != nil { // it has recovered
		t.Fatal(err)
	}
	said := func() int { return strings.Count(lines.String(), "was not loaded") }
	breaks := func(err error) { broken.Store(&err) }

	breaks(errors.New("disk on fire"))
	for range 5 {
		w.want("summary", w.summary(0), "-1 -1 false")
	}
	if err := w.st.Initialize(t.Context(), w.key(0), 0); !errors.Is(err, ErrNotAvailable) {
		t.Errorf("initialize: got %v, want %v", err, ErrNotAvailable)
	}
	if reads.Load() != 1 || said() != 1 {
		t.Errorf("the log was read %d times, and %d lines say that it cannot be; want 1 and 1", reads.Load(), said())
	}
	w.now = w.now.Add(retryAfter)
	w.want("summary after a while", w.summary(0), "-1 -1 false")
	if reads.Load() != 2 || said() != 1 {
		t.Errorf("after a while the log was read %d times, and %d lines say that it cannot be; want 2 and 1", reads.Load(), said())
	}
	w.now = w.now.Add(retryAfter)
	breaks(errors.New("disk gone"))
	w.want("summary of another failure", w.summary(0), "-1 -1 false")
	if said() != 2 {
		t.Errorf("%d lines say that the log cannot be read, want one more for another reason", said())
	}
	broken.Store(nil)
	w.want("summary too early", w.summary(0), "-1 -1 false")
	w.now = w.now.Add(-time.Hour)
	w.want("summary when the clock was set back", w.summary(0), "7 0 true")
}
