package groups

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// retryAfter is how long no deadline of a group is looked at after the disk refused
// what one wanted to write.
const retryAfter = time.Second

// wakes are the groups of a shard that have a deadline, the earliest first.
type wakes []*entry

func (h wakes) Len() int           { return len(h) }
func (h wakes) Less(i, j int) bool { return h[i].wake.Before(h[j].wake) }
func (h wakes) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push appends an *entry.
func (h *wakes) Push(x any) {
	e := x.(*entry)
	e.place = len(*h)
	*h = append(*h, e)
}

// Pop removes the last.
func (h *wakes) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	e.place = notThere
	return e
}

// notThere is the place of an entry without a deadline.
const notThere = -1

// schedule sees to it that the owner looks at e when its machine wants it to. A
// deadline that has moved later is found when the earlier one comes. Caller holds mu.
func (w *owner) schedule(e *entry) {
	var next time.Time
	if e.machine != nil {
		next = e.machine.next()
	}
	if !next.IsZero() && next.Before(e.failed) {
		next = e.failed
	}
	switch {
	case next.IsZero():
		if e.place != notThere {
			heap.Remove(&w.wakes, e.place)
		}
		return
	case e.place == notThere:
		e.wake = next
		heap.Push(&w.wakes, e)
	case next.Before(e.wake):
		e.wake = next
		heap.Fix(&w.wakes, e.place)
	default:
		return
	}
	w.c.alarm.set(w.wakes[0].wake)
}

// tick runs the deadlines that are due; that of a busy group waits in its queue.
// Caller holds mu, and the shard is loaded.
func (w *owner) tick(now time.Time) {
	var due []*entry // each once, whatever it does
	for len(w.wakes) > 0 && !w.wakes[0].wake.After(now) {
		due = append(due, heap.Pop(&w.wakes).(*entry))
	}
	for _, e := range due {
		w.run(now, e, waiting{run: func(now time.Time, _ *shard, _ *entry) step { return e.tick(now) }})
	}
	w.settle()
	if len(w.wakes) > 0 {
		w.c.alarm.set(w.wakes[0].wake)
	}
}

// tick does what is due of a group. When it cannot be written, it is tried again
// after a while.
func (e *entry) tick(now time.Time) step {
	if e.machine == nil {
		return step{}
	}
	next := e.machine.next()
	if next.IsZero() || next.After(now) || now.Before(e.failed) {
		return step{}
	}
	st := e.machine.tick(now)
	if len(st.records) == 0 {
		return st
	}
	then := st
	st.then = func(now time.Time, err error) step {
		e.failed = time.Time{}
		if err != nil {
			e.failed = now.Add(retryAfter)
		}
		return then.finish(now, err)
	}
	return st
}

// alarm is the coordinator's one timer: it wakes Run when a deadline may be due.
// Options.Now decides whether it is.
type alarm struct {
	mu   sync.Mutex
	at   time.Time     // guarded by mu; zero for never
	poke chan struct{} // holds one when at has come nearer
}

// set makes the alarm ring at t, if it would not before.
func (a *alarm) set(t time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.at.IsZero() && !t.Before(a.at) {
		return
	}
	a.at = t
	select {
	case a.poke <- struct{}{}:
	default:
	}
}

// take returns when the alarm rings and stops it.
func (a *alarm) take() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := a.at
	a.at = time.Time{}
	return at
}

// keepTime calls Tick whenever something may be due, until ctx ends.
func (c *Coordinator) keepTime(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var at time.Time // when the timer is to ring; zero for never
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			at = time.Time{}
			c.Tick()
		case <-c.alarm.poke:
		}
		if next := c.alarm.take(); !next.IsZero() && (at.IsZero() || next.Before(at)) {
			at = next
		}
		if !at.IsZero() {
			timer.Reset(max(at.Sub(c.o.Now()), time.Millisecond))
		}
	}
}

// Tick does all that is due at Options.Now: it need not be called, but lets those
// who move the clock see what comes of it. It does not wait for the disk.
func (c *Coordinator) Tick() {
	now := c.o.Now()
	sweep := c.sweepDue(now)
	for _, w := range c.all() {
		w.mu.Lock()
		if _, err := w.ready(); err == nil {
			if sweep {
				w.expire(now)
			}
			w.tick(now)
		}
		w.mu.Unlock()
	}
}
