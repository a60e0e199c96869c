package groups

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/vfs"
)

// fakeMachine is a membership that only counts: what the owner does with steps is
// seen in it.
type fakeMachine struct {
	value    int // raised by every step that became durable
	deadline time.Time
	ticks    []time.Duration // since start, when a deadline was met
	tickFor  time.Duration   // what a met deadline is moved by; zero for none
	writes   bool            // a met deadline writes a record
	parked   []func(int, error)
	refuse   error // checkDelete, checkOffsetDelete and checkCommit
	reads    string
	expiry   func(topic string, commitMs int64, retention time.Duration) (time.Time, bool)
	// asked and tries count the calls of next and tick.
	asked, tries int
}

// fakeRecord is a record of a type that nobody knows, so that a replay leaves it alone.
func fakeRecord(size int) logRecord { return logRecord{key: []byte{0, 99}, value: make([]byte, size)} }

func (m *fakeMachine) kind() Kind           { return KindClassic }
func (m *fakeMachine) state() string        { return "Stable" }
func (m *fakeMachine) protocolType() string { return "consumer" }

func (m *fakeMachine) next() time.Time {
	m.asked++
	return m.deadline
}

func (m *fakeMachine) tick(now time.Time) step {
	m.tries++
	met := func(now time.Time) {
		m.ticks = append(m.ticks, now.Sub(start))
		m.deadline = time.Time{}
		if m.tickFor > 0 {
			m.deadline = now.Add(m.tickFor)
		}
	}
	if !m.writes {
		met(now)
		return step{}
	}
	return step{records: []logRecord{fakeRecord(1)}, then: func(now time.Time, err error) step {
		if err == nil {
			met(now)
		}
		return step{}
	}}
}

func (m *fakeMachine) loaded(time.Time) step { return step{} }

func (m *fakeMachine) checkCommit(time.Time, *CommitRequest, []error) error { return m.refuse }
func (m *fakeMachine) checkFetch(*string, int32) error                      { return nil }
func (m *fakeMachine) checkOffsetDelete() error                             { return m.refuse }
func (m *fakeMachine) subscribed(topic string) bool                         { return topic == m.reads }
func (m *fakeMachine) checkDelete() error                                   { return m.refuse }
func (m *fakeMachine) tombstones() []logRecord                              { return []logRecord{{key: []byte{0, 99}}} }

func (m *fakeMachine) expires(topic string, commitMs int64, retention time.Duration) (time.Time, bool) {
	if m.expiry != nil {
		return m.expiry(topic, commitMs, retention)
	}
	return time.UnixMilli(commitMs).Add(retention), true
}

// fake returns the group's machine, made when missing.
func fake(s *shard, group string) *fakeMachine {
	e := s.ensure(group)
	if e.machine == nil {
		e.machine = &fakeMachine{}
	}
	return e.machine.(*fakeMachine)
}

// raise asks a group to write a record and raise its value, which it answers.
func raise(ctx context.Context, c *Coordinator, group string) (int, error) {
	return raiseBy(ctx, c, group, 1)
}

func raiseBy(ctx context.Context, c *Coordinator, group string, size int) (int, error) {
	return call(ctx, c, group, func(_ time.Time, s *shard, _ *entry, reply func(int, error)) step {
		return step{records: []logRecord{fakeRecord(size)}, then: func(_ time.Time, err error) step {
			if err != nil {
				reply(0, err)
				return step{}
			}
			m := fake(s, group)
			m.value++
			reply(m.value, nil)
			return step{}
		}}
	})
}

// peek answers a group's value, in the order of calls and without a record.
func peek(ctx context.Context, c *Coordinator, group string) (int, error) {
	return call(ctx, c, group, func(_ time.Time, s *shard, e *entry, reply func(int, error)) step {
		if e == nil || e.machine == nil {
			reply(-1, nil)
		} else {
			reply(e.machine.(*fakeMachine).value, nil)
		}
		return step{}
	})
}

// park is a call that is not answered.
func park(ctx context.Context, c *Coordinator, group string) (int, error) {
	return call(ctx, c, group, func(_ time.Time, s *shard, _ *entry, reply func(int, error)) step {
		m := fake(s, group)
		m.parked = append(m.parked, reply)
		return step{}
	})
}

// disk is a memory file system whose syncs of __consumer_offsets can be held up or
// made to fail.
type disk struct {
	vfs.FS
	mem  *vfs.Mem
	hold chan chan struct{} // holds the gate while syncs wait at it
	fail chan error         // holds the error while syncs fail
}

var errMedium = errors.New("no medium")

func newDisk() *disk {
	d := &disk{mem: vfs.NewMem(vfs.MemOptions{Crashable: true}), hold: make(chan chan struct{}, 1), fail: make(chan error, 1)}
	d.FS = vfs.Inject(d.mem, func(op vfs.Op) error {
		if op.Kind != vfs.OpSync || !strings.Contains(op.Name, OffsetsTopic) || !strings.HasSuffix(op.Name, ".log") {
			return nil
		}
		select {
		case gate := <-d.hold:
			d.hold <- gate
			<-gate
		default:
		}
		select {
		case err := <-d.fail:
			d.fail <- err
			return err
		default:
			return nil
		}
	})
	return d
}

// close holds up every sync until the returned function is called.
func (d *disk) close() (open func()) {
	gate := make(chan struct{})
	d.hold <- gate
	return func() {
		<-d.hold
		close(gate)
	}
}

// breaks makes every sync fail until the returned function is called.
func (d *disk) breaks() (mend func()) {
	d.fail <- errMedium
	return func() { <-d.fail }
}

// coordinator opens a coordinator over d whose clock is package time's.
func coordinator(t *testing.T, fsys vfs.FS, config Config) (*storage.Store, *Coordinator) {
	t.Helper()
	return openAt(t, fsys, time.Now, config)
}

// outcome is what a call came to.
func outcome[R any](r R, err error) string {
	if err != nil {
		for _, kind := range []error{ErrLoading, ErrNotAvailable, ErrNotCoordinator, ErrCommitTooLarge, ErrGroupIDNotFound, ErrNonEmptyGroup} {
			if errors.Is(err, kind) {
				return kind.Error()
			}
		}
		return err.Error()
	}
	return fmt.Sprint(r)
}
