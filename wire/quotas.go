package wire

import (
	"encoding/binary"
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/auth"
	"github.com/kaen-log/gateway/storage"
)

// Keys of quotas. Kafka: QuotaConfig.
const (
	producerByteRate       = "producer_byte_rate"
	consumerByteRate       = "consumer_byte_rate"
	requestPercentage      = "request_percentage"
	controllerMutationRate = "controller_mutation_rate"
	connectionCreationRate = "connection_creation_rate"
)

// clientQuotas are the quotas that are enforced, made of those in the store. A client over its quota gets its answer at
// once, with the time for which it should send nothing, and its connection starts nothing for so long (KIP-219).
//
// Kafka: ClientQuotaMetadataManager.
type clientQuotas struct {
	mu          sync.Mutex // held while they are made from the store's, so that the last change wins
	clients     *auth.Quotas
	connections *auth.ConnectionQuotas
}

// openQuotas makes the quotas as the configs say they are measured.
func (s *Server) openQuotas() {
	windows := func(prefix string) auth.QuotaWindows {
		return auth.QuotaWindows{
			Windows: int(s.config.Int(prefix + "quota.window.num")),
			Size:    time.Duration(s.config.Int(prefix+"quota.window.size.seconds")) * time.Second,
		}
	}
	s.quotas.clients = auth.NewQuotas(windows(""), windows("controller."))
	s.quotas.connections = auth.NewConnectionQuotas(windows(""))
	s.quotas.load(s.store)
}

// load makes them those that the store has.
func (q *clientQuotas) load(store *storage.Store) {
	q.mu.Lock()
	defer q.mu.Unlock()
	byKind := make(map[auth.QuotaKind]map[auth.QuotaScope]float64)
	addresses, others := make(map[netip.Addr]int32), int32(0)
	for e, quotas := range store.ClientQuotas() {
		if e.IP.Set {
			rate, ok := quotas[connectionCreationRate]
			if !ok {
				continue
			}
			n := int32(min(rate, math.MaxInt32))
			if e.IP.Name == "" {
				others = n
			} else if a, ok := quotaAddress(e.IP.Name); ok {
				if old, twice := addresses[a]; !twice || n < old { // an address can be written in several ways
					addresses[a] = n
				}
			}
			continue
		}
		scope := auth.QuotaScope{OfUser: e.User.Set, User: e.User.Name, OfClientID: e.ClientID.Set, ClientID: e.ClientID.Name}
		for key, value := range quotas {
			kind, ok := quotaKindOf(key)
			if !ok {
				continue
			}
			if byKind[kind] == nil {
				byKind[kind] = make(map[auth.QuotaScope]float64)
			}
			byKind[kind][scope] = value
		}
	}
	for _, kind := range []auth.QuotaKind{auth.ProduceQuota, auth.FetchQuota, auth.RequestQuota, auth.MutationQuota} {
		q.clients.Set(kind, byKind[kind])
	}
	q.connections.Set(addresses, others)
}

// quotaKindOf returns what a quota of users and client ids bounds.
func quotaKindOf(key string) (auth.QuotaKind, bool) {
	switch key {
	case producerByteRate:
		return auth.ProduceQuota, true
	case consumerByteRate:
		return auth.FetchQuota, true
	case requestPercentage:
		return auth.RequestQuota, true
	case controllerMutationRate:
		return auth.MutationQuota, true
	}
	return 0, false
}

// waitingKeys are the requests whose handlers wait for the disk or for other clients, and do little else: of their time
// only that of their decoding is counted. A Produce counts until it waits for the disk, a Fetch without its waits.
var waitingKeys = []int16{8, 11, 12, 13, 14, 19, 20, 21, 22, 24, 25, 26, 27, 28, 30, 31, 33, 37, 42, 43, 44, 47, 49, 51, 68, 76, 78, 79, 91, 92}

// stopwatch returns the time, and the zero time while no time is counted.
func (s *Server) stopwatch() time.Time {
	if !s.quotas.clients.Any(auth.RequestQuota) {
		return time.Time{}
	}
	return s.now()
}

// lap returns how long ago a stopwatch was started, 0 when it was not.
func (s *Server) lap(began time.Time) time.Duration {
	if began.IsZero() {
		return 0
	}
	return max(0, s.now().Sub(began))
}

// chargeTime counts the time of a call whose handler began then and is through, and makes its client rest if that was
// too much. Kafka: ClientRequestQuotaManager.
//
// Differs from Kafka: the time to read a request from the socket and to write its answer is not counted; and a fetch that
// is over this quota has its records.
func (s *Server) chargeTime(c *call, began time.Time) {
	if began.IsZero() {
		return
	}
	if !slices.Contains(waitingKeys, c.key) {
		c.busy += s.lap(began) - c.waited
	}
	c.throttleBy(s.charge(auth.RequestQuota, &c.request, 100*c.busy.Seconds()))
}

// user returns the name of who asks, without the type of principal.
func (r *request) user() string {
	_, name, _ := strings.Cut(r.principal, ":")
	return name
}

// charge counts an amount that the caller used, and returns for how long it must rest.
func (s *Server) charge(kind auth.QuotaKind, r *request, amount float64) time.Duration {
	if !s.quotas.clients.Any(kind) {
		return 0
	}
	return s.quotas.clients.Charge(kind, r.user(), r.clientID, amount, s.now())
}

// mutations returns what the caller may use of its quota of partitions made and deleted. From version strict on more is
// refused with THROTTLING_QUOTA_EXCEEDED (KIP-599).
func (s *Server) mutations(r *request, strict int16) auth.Mutations {
	if !s.quotas.clients.Any(auth.MutationQuota) {
		return auth.Mutations{}
	}
	return s.quotas.clients.Mutations(r.user(), r.clientID, r.version >= strict)
}

// throttleBy makes the connection rest and returns what the answer says of it. Of several reasons the longest counts.
func (r *request) throttleBy(d time.Duration) (millis int32) {
	r.throttle = max(r.throttle, d)
	return int32(r.throttle.Milliseconds())
}

// setThrottle puts the throttle time into an answer that has room for one. All that are encoded by hand begin with it.
func setThrottle(resp response, millis int32) {
	switch resp := resp.(type) {
	case *encoded:
		binary.BigEndian.PutUint32(resp.pieces[0], uint32(millis))
	case kmsg.SetThrottleResponse:
		resp.SetThrottle(millis)
	}
}
