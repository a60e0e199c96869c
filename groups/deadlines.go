package groups

import (
	"container/heap"
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
	w.c.alarm.Set(w.wakes[0].wake)
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
	w.inFlight.Settle()
	if len(w.wakes) > 0 {
		w.c.alarm.Set(w.wakes[0].wake)
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

// Tick does all that is due at Options.Now: it need not be called, but lets those
// who move the clock see what comes of it. It does not wait for the disk.
func (c *Coordinator) Tick() {
	now := c.o.Now()
	sweep := c.sweep.Due(now)
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
