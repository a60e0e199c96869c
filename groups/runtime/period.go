package runtime

import (
	"sync"
	"time"
)

// Period is when something is due that a coordinator does every so often.
type Period struct {
	alarm *Alarm
	every time.Duration

	mu   sync.Mutex
	next time.Time // guarded by mu
}

// Every returns a period that is due first when d has passed since now, and sets the
// alarm for it.
func (a *Alarm) Every(d time.Duration, now time.Time) *Period {
	p := &Period{alarm: a, every: d, next: now.Add(d)}
	a.Set(p.next)
	return p
}

// Due reports whether the time has come, begins the next period when it has, and sets
// the alarm for the next time, so that a tick that asks is called again for it.
func (p *Period) Due(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	due := !now.Before(p.next)
	if due {
		p.next = now.Add(p.every)
	}
	p.alarm.Set(p.next)
	return due
}
