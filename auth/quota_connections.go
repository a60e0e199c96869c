package auth

import (
	"math"
	"net/netip"
	"sync/atomic"
	"time"
)

// ConnectionQuotas are the quotas for connections from one address, connection_creation_rate, and what addresses have
// used of them. Methods may be called by many at once.
//
// Kafka: ConnectionQuotas.recordIpConnectionMaybeThrottle (KIP-612).
type ConnectionQuotas struct {
	windows QuotaWindows
	limits  atomic.Pointer[connectionLimits] // nil when there are none
	used    usage
}

// connectionLimits are connections a second. They are immutable.
type connectionLimits struct {
	byAddress map[netip.Addr]int32
	others    int32 // unboundedRate for none
}

const unboundedRate = math.MaxInt32

// NewConnectionQuotas returns quotas that bound nothing.
func NewConnectionQuotas(w QuotaWindows) *ConnectionQuotas { return &ConnectionQuotas{windows: w} }

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
	w, ms := q.windows, now.UnixMilli()
	q.used.mu.Lock()
	defer q.used.mu.Unlock()
	r := &q.used.meter(meterKey{user: from.String()}, w, ms).rate
	r.add(w, 1, ms)
	wait := min(r.throttle(w, float64(bound), ms), w.sizeMs())
	if wait > 0 {
		r.add(w, -1, ms)
	}
	return time.Duration(wait) * time.Millisecond
}
