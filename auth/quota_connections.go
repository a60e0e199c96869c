package auth

import (
	"math"
	"net/netip"
	"sync/atomic"
	"time"
)

// ConnectionQuotas are the quotas for connections from one address, connection_creation_rate, and what addresses have
// used of them, and all together. Methods may be called by many at once.
//
// Kafka: ConnectionQuotas (KIP-612).
type ConnectionQuotas struct {
	windows QuotaWindows
	limits  atomic.Pointer[connectionLimits] // nil when there are none
	used    usage
	all     usage // of one meter
}

// connectionLimits are connections a second. They are immutable.
type connectionLimits struct {
	byAddress map[netip.Addr]int32
	others    int32 // unboundedRate for none
}

const unboundedRate = math.MaxInt32

// NewConnectionQuotas returns quotas that bound nothing.
func NewConnectionQuotas(w QuotaWindows) *ConnectionQuotas {
	return &ConnectionQuotas{windows: w.bounded()}
}

// Set replaces all quotas: connections a second for each address, and for those that are not named; below 1 is none. The
// map is the callee's from now on.
func (q *ConnectionQuotas) Set(byAddress map[netip.Addr]int32, others int32) {
	if others < 1 {
		others = unboundedRate
	}
	if len(byAddress) == 0 && others == unboundedRate {
		q.limits.Store(nil)
		q.used.reset()
		return
	}
	q.limits.Store(&connectionLimits{byAddress, others})
}

// Any reports whether there is any quota.
func (q *ConnectionQuotas) Any() bool { return q.limits.Load() != nil }

// AcceptAny counts a connection, of which bound may come in a second, max.connection.creation.rate, and returns for how
// long it is to be kept waiting.
func (q *ConnectionQuotas) AcceptAny(bound int64, now time.Time) time.Duration {
	if bound >= unboundedRate {
		return 0
	}
	return q.all.connection(meterKey{}, q.windows, float64(bound), now)
}

// TurnAway takes back what AcceptAny counted, of a connection that was not accepted after all.
func (q *ConnectionQuotas) TurnAway(now time.Time) {
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	if m := q.all.meters[meterKey{}]; m != nil {
		m.rate.add(q.windows, -1, now.UnixMilli())
	}
}

// Accept counts a connection from an address. When that is one too many it is not counted, and the time is returned
// for which the peer is to be kept waiting before it is turned away.
func (q *ConnectionQuotas) Accept(from netip.Addr, now time.Time) time.Duration {
	l := q.limits.Load()
	if l == nil {
		return 0
	}
	from = from.Unmap().WithZone("")
	bound, ok := l.byAddress[from]
	if !ok {
		bound = l.others
	}
	if bound == unboundedRate {
		return 0
	}
	k := meterKey{user: from.String()}
	wait := q.used.connection(k, q.windows, float64(bound), now)
	if wait > 0 {
		q.used.mu.Lock()
		defer q.used.mu.Unlock()
		q.used.meter(k, q.windows, now.UnixMilli()).rate.add(q.windows, -1, now.UnixMilli())
	}
	return wait
}

// connection counts a connection and returns for how long its peer is to be kept waiting, a window at most.
func (u *usage) connection(k meterKey, w QuotaWindows, bound float64, now time.Time) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	ms := now.UnixMilli()
	r := &u.meter(k, w, ms).rate
	r.add(w, 1, ms)
	return time.Duration(min(r.throttle(w, bound, ms), w.sizeMs())) * time.Millisecond
}
