package auth

import (
	"math"
	"time"
)

// Mutations is what one request may use of its client's quota for partitions made and deleted. The zero value bounds
// nothing. It is not safe for concurrent use.
//
// A strict one refuses when the client owes something already, and may make it owe; one that is not strict refuses
// nothing, and only the client's rest tells of it. Kafka: StrictControllerMutationQuota, PermissiveControllerMutationQuota
// (KIP-599).
type Mutations struct {
	q      *Quotas // nil when nothing is bounded
	key    meterKey
	bound  float64
	strict bool

	wait int64 // milliseconds from at, when something was over the quota
	at   int64
}

// Mutations returns what a request of a client may use.
func (q *Quotas) Mutations(user, clientID string, strict bool) Mutations {
	l := q.limits[MutationQuota].Load()
	if l == nil {
		return Mutations{}
	}
	key, bound, ok := l.find(user, clientID)
	if !ok || math.IsInf(bound, 1) { // endless times no time is no number of tokens
		return Mutations{}
	}
	return Mutations{q: q, key: key, bound: bound, strict: strict}
}

// Take counts so many partitions; false says that they are refused, and not counted.
func (m *Mutations) Take(partitions int, now time.Time) bool {
	if m.q == nil {
		return true
	}
	w, u, ms := m.q.windows[MutationQuota], &m.q.used[MutationQuota], now.UnixMilli()
	u.mu.Lock()
	defer u.mu.Unlock()
	b := &u.meter(m.key, w, ms).bucket
	if m.strict {
		if wait, owes := b.throttle(w, m.bound, ms); owes {
			m.wait, m.at = wait, ms
			return false
		}
	}
	b.take(w, m.bound, float64(partitions), ms)
	if !m.strict {
		if wait, owes := b.throttle(w, m.bound, ms); owes {
			m.wait, m.at = wait, ms
		}
	}
	return true
}

// Throttle returns for how long the client must rest.
func (m *Mutations) Throttle(now time.Time) time.Duration {
	return time.Duration(max(0, m.wait-(now.UnixMilli()-m.at))) * time.Millisecond
}
