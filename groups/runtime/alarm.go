package runtime

import (
	"context"
	"sync"
	"time"
)

// Alarm is a coordinator's one timer: it wakes Run when something may be due. The
// coordinator's clock decides whether it is. Its methods may be called from any
// goroutine, and under locks: they do not block.
type Alarm struct {
	mu   sync.Mutex
	at   time.Time     // guarded by mu; zero for never
	poke chan struct{} // holds one when at has come nearer
}

// NewAlarm returns an alarm that is not set.
func NewAlarm() *Alarm { return &Alarm{poke: make(chan struct{}, 1)} }

// Set makes the alarm ring at t, if it would not before.
func (a *Alarm) Set(t time.Time) {
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
func (a *Alarm) take() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := a.at
	a.at = time.Time{}
	return at
}

// Run calls tick whenever the alarm rings, until ctx ends. When it rings is now's to say,
// at the time when it is set: a tick that comes too early must set the alarm again.
func (a *Alarm) Run(ctx context.Context, now func() time.Time, tick func()) {
	timer := time.NewTimer(0)
	timer.Stop()
	defer timer.Stop()
	var at time.Time // when the timer is to ring; zero for never
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			at = time.Time{}
			tick()
		case <-a.poke:
		}
		if next := a.take(); !next.IsZero() && (at.IsZero() || next.Before(at)) {
			at = next
		}
		if !at.IsZero() {
			timer.Reset(max(at.Sub(now()), time.Millisecond))
		}
	}
}
