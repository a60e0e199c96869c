package wire

import (
	"math"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kaen-log/gateway/auth"
)

// mostFetched returns for how many bytes a client that has fetched nothing for some time need not rest, if there is a
// quota for it. More are not read: it would not get them. Kafka: KafkaApis.handleFetchRequest.
func (s *Server) mostFetched(r *request) (n int, ok bool) {
	if !s.quotas.clients.Any(auth.FetchQuota) {
		return 0, false
	}
	most, ok := s.quotas.clients.Most(auth.FetchQuota, r.user(), r.clientID)
	return int(min(most, math.MaxInt32)), ok
}

// throttle returns the answer of a fetch that is over its client's quota, nil when it is not: one without partitions,
// which leaves the session as it was, so that the client asks for the same again when it has rested. What it would have
// got is not counted. Kafka: KafkaApis.processResponseCallback, FetchContext.getThrottledResponse.
func (f *fetchCall) throttle(x fetchContext) *encoded {
	q := f.s.quotas.clients
	if !q.Any(auth.FetchQuota) || f.replica >= 0 {
		return nil
	}
	f.s.fetches.mu.Lock()
	id, code := x.throttled()
	size := f.answerSize(x)
	f.s.fetches.mu.Unlock()
	now, user := f.s.now(), f.r.user()
	wait := q.Charge(auth.FetchQuota, user, f.r.clientID, size, now)
	if wait == 0 {
		return nil
	}
	q.Refund(auth.FetchQuota, user, f.r.clientID, size, now)
	f.release()
	resp := fetchResponse{throttleMs: f.r.throttleBy(wait), sessionID: id, code: code}
	return resp.encode(f.version, nil)
}

// answerSize returns how many bytes the answer will have, length included. The cache's mutex is held.
func (f *fetchCall) answerSize(x fetchContext) float64 {
	x.preview(f.partitions)
	resp := fetchResponse{partitions: f.partitions}
	e := resp.encode(f.version, nil)
	size := lengthSize + e.size()
	e.release()
	for i := range f.partitions {
		f.partitions[i].omit = false // finish decides anew
	}
	return float64(size)
}

// throttled returns the session id and the error of an answer that the client is to have instead of the one that finish
// would make. The cache's mutex is held.
func (x *fetchContext) throttled() (id int32, code int16) {
	switch {
	case x.session == nil: // Kafka forgets the error of a session here
		return 0, 0
	case x.session.epoch != x.nextEpoch:
		return x.session.id, kerr.InvalidFetchSessionEpoch.Code
	}
	return x.session.id, 0
}

// preview marks the partitions that the answer would leave out, and changes nothing else. The cache's mutex is held.
func (x *fetchContext) preview(read []fetchPartition) {
	for i := range read {
		p := &read[i]
		switch {
		case x.code != 0, x.session != nil && x.session.epoch != x.nextEpoch:
			p.omit = true
		case x.session != nil:
			p.omit = p.inSession.gone || !p.inSession.hasNews(p)
		}
	}
}
