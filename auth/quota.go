package auth

import (
	"sync"
	"sync/atomic"
	"time"
)

// QuotaKind is what a quota of users and client ids bounds.
type QuotaKind uint8

const (
	ProduceQuota  QuotaKind = iota // producer_byte_rate, bytes a second of requests
	FetchQuota                     // consumer_byte_rate, bytes a second of answers
	RequestQuota                   // request_percentage, percent of one thread's time
	MutationQuota                  // controller_mutation_rate, partitions made or deleted a second
	quotaKinds
)

// QuotaScope is whom a quota is for: those of a user, of a client id, or of both. Each is by name or the default, which
// is for all that have no quota of their own.
type QuotaScope struct {
	OfUser, OfClientID bool
	User, ClientID     string // "" for the default
}

// levels returns the level of a scope. Kafka: ClientQuotaManager.updateQuotaTypes.
func (s QuotaScope) level() quotaLevels {
	switch {
	case s.OfUser && s.OfClientID:
		return levelBoth
	case s.OfUser:
		return levelUser
	}
	return levelClientID
}

// quotaLevels is a set of what quotas are set for.
type quotaLevels uint8

const (
	levelClientID quotaLevels = 1 << iota
	levelUser
	levelBoth
)

// Quotas are the client quotas and what clients have used of them. Methods may be called by many at once; no lock is
// held but for the look into and the change of a few numbers. Without a quota of a kind all of them do nothing.
//
// Kafka: ClientQuotaManager, ClientRequestQuotaManager, ControllerMutationQuotaManager. Differs from Kafka: what a
// client uses is counted only while a quota is for it, in Kafka while there is any of the kind; and it is forgotten as
// soon as that changes nothing, in Kafka after an hour.
type Quotas struct {
	windows [quotaKinds]QuotaWindows
	limits  [quotaKinds]atomic.Pointer[quotaLimits] // nil when there are none
	used    [quotaKinds]usage
}

// NewQuotas returns quotas that bound nothing. clients is how rates are measured, mutations how those of partitions are.
func NewQuotas(clients, mutations QuotaWindows) *Quotas {
	clients, mutations = clients.bounded(), mutations.bounded()
	return &Quotas{windows: [quotaKinds]QuotaWindows{clients, clients, clients, mutations}}
}

// Set replaces all quotas of a kind. The map is the callee's from now on.
func (q *Quotas) Set(kind QuotaKind, bounds map[QuotaScope]float64) {
	if len(bounds) == 0 {
		q.limits[kind].Store(nil)
		q.used[kind].reset()
		return
	}
	l := &quotaLimits{bounds: bounds}
	for s := range bounds {
		l.levels |= s.level()
	}
	q.limits[kind].Store(l)
}

// Any reports whether there is any quota of a kind.
func (q *Quotas) Any(kind QuotaKind) bool { return q.limits[kind].Load() != nil }

// Charge counts an amount that a client used, and returns for how long it must rest. A request's time is in percent of
// a second.
func (q *Quotas) Charge(kind QuotaKind, user, clientID string, amount float64, now time.Time) time.Duration {
	l := q.limits[kind].Load()
	if l == nil {
		return 0
	}
	key, bound, ok := l.find(user, clientID)
	if !ok {
		return 0
	}
	w, u, ms := q.windows[kind], &q.used[kind], now.UnixMilli()
	u.mu.Lock()
	defer u.mu.Unlock()
	r := &u.meter(key, w, ms).rate
	r.add(w, amount, ms)
	wait := r.throttle(w, bound, ms)
	if kind == RequestQuota { // Kafka: ClientRequestQuotaManager.throttleTime
		wait = min(wait, w.sizeMs())
	}
	return time.Duration(wait) * time.Millisecond
}

// Refund takes back what Charge counted at the same time.
func (q *Quotas) Refund(kind QuotaKind, user, clientID string, amount float64, now time.Time) {
	l := q.limits[kind].Load()
	if l == nil {
		return
	}
	if key, _, ok := l.find(user, clientID); ok {
		w, u, ms := q.windows[kind], &q.used[kind], now.UnixMilli()
		u.mu.Lock()
		defer u.mu.Unlock()
		u.meter(key, w, ms).rate.add(w, -amount, ms)
	}
}

// Most returns the largest amount for which a client that has used nothing need not rest; ok is false when there is no
// such bound. Kafka: ClientQuotaManager.maxValueInQuotaWindow.
func (q *Quotas) Most(kind QuotaKind, user, clientID string) (amount float64, ok bool) {
	l := q.limits[kind].Load()
	if l == nil {
		return 0, false
	}
	_, bound, ok := l.find(user, clientID)
	w := q.windows[kind]
	return bound * float64(w.Windows-1) * w.Size.Seconds(), ok
}

// quotaLimits are the quotas of one kind. They are immutable.
type quotaLimits struct {
	bounds map[QuotaScope]float64
	levels quotaLevels // of bounds
}

// meterKey is who is counted together: a user, a client id, or both.
type meterKey struct{ user, clientID string }

// find returns what is counted for a client, and its bound.
func (l *quotaLimits) find(user, clientID string) (key meterKey, bound float64, ok bool) {
	key = l.key(user, clientID)
	bound, ok = l.bound(key)
	return key, bound, ok
}

// key returns what is counted together with a client: that for which the most specific quota is. Kafka:
// DefaultQuotaCallback.quotaMetricTags.
func (l *quotaLimits) key(user, clientID string) meterKey {
	both := meterKey{user, clientID}
	switch l.levels {
	case levelClientID:
		return meterKey{clientID: clientID}
	case levelUser:
		return meterKey{user: user}
	case levelBoth:
		return both
	}
	switch {
	case l.has(QuotaScope{true, true, user, clientID}), l.has(QuotaScope{true, true, user, ""}):
		return both
	case l.has(QuotaScope{true, false, user, ""}):
		return meterKey{user: user}
	case l.has(QuotaScope{true, true, "", clientID}), l.has(QuotaScope{true, true, "", ""}):
		return both
	case l.has(QuotaScope{true, false, "", ""}):
		return meterKey{user: user}
	}
	return meterKey{clientID: clientID}
}

// bound returns the bound of what is counted together. Kafka: DefaultQuotaCallback.quotaLimit.
func (l *quotaLimits) bound(k meterKey) (bound float64, ok bool) {
	of := QuotaScope{k.user != "", k.clientID != "", k.user, k.clientID}
	if !of.OfUser && !of.OfClientID {
		return 0, false
	}
	try := func(s QuotaScope) bool {
		bound, ok = l.bounds[s]
		return ok
	}
	if try(of) {
		return bound, true
	}
	if of.OfUser && of.OfClientID && (try(QuotaScope{true, true, k.user, ""}) || try(QuotaScope{true, true, "", k.clientID})) {
		return bound, true
	}
	try(QuotaScope{of.OfUser, of.OfClientID, "", ""})
	return bound, ok
}

func (l *quotaLimits) has(s QuotaScope) bool {
	_, ok := l.bounds[s]
	return ok
}

// Bounds of what is remembered of clients. Names of client ids are what clients like.
const (
	MaxMeters     = 1 << 16  // clients of one kind of quota
	MaxMeterNames = 16 << 20 // bytes of their names
)

// usage is what clients have used of one kind of quota. The zero value is empty.
type usage struct {
	mu     sync.Mutex
	meters map[meterKey]*meter // guarded by mu
	names  int                 // bytes in their keys; guarded by mu
	sweep  int                 // how many meters there are when it is next looked for idle ones; guarded by mu
	swept  int64               // when that was last done because there were too many, in milliseconds; guarded by mu
}

// meter is what those counted together have used: a bucket for MutationQuota, else a rate.
type meter struct {
	rate   rate
	bucket bucket
}

// fewMeters are not worth looking for idle ones.
const fewMeters = 1 << 10

// meter returns the meter of a key. mu is held. When there are too many, those that are as good as new are forgotten
// first, then any. The former are looked for once a window, so that clients who make up ever new names do not have all
// meters looked at for each.
func (u *usage) meter(k meterKey, w QuotaWindows, now int64) *meter {
	if m, ok := u.meters[k]; ok {
		return m
	}
	if u.meters == nil {
		u.meters, u.sweep = make(map[meterKey]*meter), fewMeters
	}
	size := len(k.user) + len(k.clientID)
	full := func() bool { return len(u.meters) >= MaxMeters || len(u.meters) > 0 && u.names+size > MaxMeterNames }
	tooMany := full() && (now-u.swept >= w.sizeMs() || now < u.swept)
	if tooMany {
		u.swept = now
	}
	if tooMany || len(u.meters) >= u.sweep {
		for k, m := range u.meters {
			if m.idle(w, now) {
				u.forget(k)
			}
		}
		u.sweep = max(fewMeters, 2*len(u.meters))
	}
	for k := range u.meters {
		if !full() {
			break
		}
		u.forget(k)
	}
	m := new(meter)
	u.meters[k] = m
	u.names += size
	return m
}

// idle reports whether nobody could tell the meter from a new one.
func (m *meter) idle(w QuotaWindows, now int64) bool {
	if m.bucket.last != 0 {
		return m.bucket.tokens >= 0 && now-m.bucket.last >= int64(w.Windows)*w.sizeMs()
	}
	return m.rate.idle(w, now)
}

func (u *usage) forget(k meterKey) {
	delete(u.meters, k)
	u.names -= len(k.user) + len(k.clientID)
}

func (u *usage) reset() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.meters, u.names = nil, 0
}
