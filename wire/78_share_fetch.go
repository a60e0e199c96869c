package wire

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/auth"
	"github.com/kaen-log/gateway/groups/share"
	"github.com/kaen-log/gateway/storage"
)

// ShareFetch, key 78, versions 1 and 2 (KIP-932).
//
//	v2  acquire mode (KIP-1206), renewals of locks (KIP-1222)
//
// A member of a share group fetches records, which it then has to itself for a time, and acknowledges earlier ones with
// the same request. The partitions are those of its session.
//
// Kafka: KafkaApis.handleShareFetchRequest, SharePartitionManager.newContext and fetchMessages.
//
// Differs from Kafka: partitions come in the order in which they were served, in Kafka in none. The first of them may
// have the bytes that are left when the maximum is divided, in Kafka a random one. An answer over the client's quota has
// its records and makes the client rest; Kafka leaves them out, and nobody gets them until their locks end.

// shareFetchCall is one ShareFetch under way.
type shareFetchCall struct {
	s             *Server
	r             *request
	group, member string
	epoch         int32            // of the session, as the request has it
	code          int16            // of the whole answer
	answers       []sharePartition // of the partitions of the session, then of acknowledgements alone
	bufs          []*buffer
}

// sharePartition is what a member is told of a partition.
type sharePartition struct {
	share.TopicPartition
	code       int16
	message    *string
	ackCode    int16
	ackMessage *string
	records    []byte
	acquired   []share.AcquiredRecords
	fetchable  *storage.Log // nil when it cannot be fetched
}

// shareFetch answers a ShareFetch request. It may wait for records, as long as the request says.
func (s *Server) shareFetch(r *request, req *kmsg.ShareFetchRequest) (*encoded, error) {
	f := &shareFetchCall{s: s, r: r, epoch: req.ShareSessionEpoch}
	if err := s.checkShareMember(r, req.GroupID, req.MemberID); err != nil {
		return f.refuse(err), nil
	}
	f.group, f.member = *req.GroupID, *req.MemberID
	if req.IsRenewAck && (req.MaxBytes != 0 || req.MinBytes != 0 || req.MaxRecords != 0 || req.MaxWaitMillis != 0) {
		return f.refuse(kerr.InvalidRequest), nil
	}
	deadline := s.now().Add(time.Duration(req.MaxWaitMillis) * time.Millisecond)
	acks := shareFetchAcks(req)
	r.frameDone() // nothing of the request lies in it
	if err := f.session(req, acks != nil); err != nil {
		if errors.Is(err, share.ErrSessionLimit) {
			f.idle(deadline) // so that the client does not try again at once
		}
		return f.refuse(err), nil
	}
	fetch := &share.FetchRequest{
		Group: f.group, Member: f.member, Deadline: deadline, Hurry: r.hurry, Buffer: f.buffer,
		MaxRecords: int(req.MaxRecords), BatchSize: int(req.BatchSize), RecordLimit: req.ShareAcquireMode == 1,
		MaxBytes: min(int(req.MaxBytes), int(s.config.Int("fetch.max.bytes")), s.answers.share()),
	}
	if n, ok := s.mostFetched(r); ok {
		fetch.MaxBytes = min(fetch.MaxBytes, n)
	}
	fetch.MinBytes = min(int(req.MinBytes), fetch.MaxBytes)
	renews := req.IsRenewAck
	told := s.acknowledge(r, f.group, f.member, acks, renews)
	if renews {
		f.answers = nil // such a request fetches nothing
	} else if err := f.fetch(fetch); err != nil {
		f.release()
		return nil, err
	}
	f.acknowledged(told(r.ctx))
	if f.epoch == share.EpochClose {
		_ = s.shares.CloseSession(f.group, f.member) // it may have gone meanwhile
	}
	e := f.encode()
	if wait := s.charge(auth.FetchQuota, r, float64(lengthSize+e.size())); wait > 0 {
		setThrottle(e, r.throttleBy(wait))
	}
	return e, nil
}

// checkShareMember checks who fetches or acknowledges.
func (s *Server) checkShareMember(r *request, group, member *string) error {
	switch {
	case group == nil:
		return kerr.InvalidRequest
	case !s.authorize(r, opRead, resourceGroup, *group):
		return kerr.GroupAuthorizationFailed
	case member == nil || !validShareMember(*member):
		return kerr.InvalidRequest
	}
	return nil
}

// shareFetchAcks returns what a ShareFetch says of earlier records, of all its partitions when it says something of
// one; else nil.
func shareFetchAcks(req *kmsg.ShareFetchRequest) (list []share.Acknowledgement) {
	some := false
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			a := share.Acknowledgement{TopicID: t.TopicID, Partition: p.Partition}
			for _, b := range p.AcknowledgementBatches {
				a.Acks, some = append(a.Acks, ackOf(b.FirstOffset, b.LastOffset, b.AcknowledgeTypes)), true
			}
			list = append(list, a)
		}
	}
	if !some {
		return nil
	}
	return list
}

// session opens, continues or ends the session, and makes an answer for each of its partitions.
func (f *shareFetchCall) session(req *kmsg.ShareFetchRequest, acknowledges bool) error {
	var add, forget []share.TopicPartition
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			add = append(add, share.TopicPartition{TopicID: t.TopicID, Partition: p.Partition, Topic: f.s.topicName(t.TopicID)})
		}
	}
	for _, t := range req.ForgottenTopicsData {
		for _, p := range t.Partitions {
			forget = append(forget, share.TopicPartition{TopicID: t.TopicID, Partition: p})
		}
	}
	list, err := add, error(nil)
	switch {
	case f.epoch != share.EpochOpen:
		list, err = f.s.shares.UseSession(f.group, f.member, f.epoch, add, forget)
	case acknowledges:
		return kerr.InvalidRequest
	default:
		err = f.s.shares.OpenSession(f.group, f.member, f.r.conn, add)
	}
	if n := len(list); n > 1 && f.epoch > 0 { // another begins each time
		at := int(f.epoch) % n
		list = append(list[at:n:n], list[:at]...)
	}
	for _, p := range list {
		f.answers = append(f.answers, f.resolve(p))
	}
	return err
}

// topicName returns the name of a topic, "" when there is none.
func (s *Server) topicName(id storage.TopicID) string {
	if t, ok := s.store.TopicByID(id); ok {
		return t.Name()
	}
	return ""
}

// resolve finds the log of a partition of the session.
func (f *shareFetchCall) resolve(p share.TopicPartition) sharePartition {
	a := sharePartition{TopicPartition: p}
	switch {
	case p.Topic == "":
		a.code = kerr.UnknownTopicID.Code
	case !f.s.authorize(f.r, opRead, resourceTopic, p.Topic):
		a.code = kerr.TopicAuthorizationFailed.Code
	default:
		if t, ok := f.s.store.TopicByID(p.TopicID); ok {
			a.fetchable, _ = t.Partition(p.Partition)
		}
		if a.fetchable == nil {
			a.code = kerr.UnknownTopicOrPartition.Code
		}
	}
	return a
}

// idle waits until the deadline, or until the client is gone or wants the answer.
func (f *shareFetchCall) idle(deadline time.Time) {
	timer := time.NewTimer(deadline.Sub(f.s.now()))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.r.ctx.Done():
	case <-f.r.hurry:
	}
}

// fetch fetches what can be, and leaves out the partitions without news. The error is the context's, while waiting for
// memory.
func (f *shareFetchCall) fetch(q *share.FetchRequest) error {
	var of []int // which answer each fetched partition has
	for i, a := range f.answers {
		if a.fetchable != nil {
			of = append(of, i)
			q.Partitions = append(q.Partitions, share.FetchPartition{TopicID: a.TopicID, Log: a.fetchable})
		}
	}
	got, err := f.s.shares.Fetch(f.r.ctx, q)
	if err != nil {
		return err
	}
	for i, found := range got {
		a := &f.answers[of[i]]
		a.code, a.message = errorCode(found.Err), errorMessage(found.Err)
		a.records, a.acquired = found.Records, found.Acquired
		if n := int64(found.Outgrown); n > 0 { // charged without a wait, which would be one while holding memory
			f.s.answers.large.force(n)
			f.bufs = append(f.bufs, &buffer{B: found.Records, class: -1, budget: &f.s.answers.large, charged: n})
		}
	}
	if f.epoch <= 0 {
		return nil
	}
	told := make([]share.Told, len(f.answers))
	for i, a := range f.answers {
		told[i] = share.Told{TopicPartition: a.TopicPartition, Records: len(a.records) > 0, Failed: a.code != 0}
	}
	must, err := f.s.shares.TellSession(f.group, f.member, f.epoch, told)
	if err != nil { // there was another request meanwhile
		f.answers, f.code = nil, errorCode(err)
		return nil
	}
	kept := f.answers[:0]
	for i, a := range f.answers {
		if must[i] {
			kept = append(kept, a)
		}
	}
	f.answers = kept
	return nil
}

// acknowledged adds what became of acknowledgements.
func (f *shareFetchCall) acknowledged(list []shareAck) {
	at := make(map[share.Key]int, len(f.answers))
	for i, a := range f.answers {
		at[share.Key{TopicID: a.TopicID, Partition: a.Partition}] = i
	}
	for _, ack := range list {
		i, ok := at[share.Key{TopicID: ack.TopicID, Partition: ack.Partition}]
		if !ok {
			i = len(f.answers)
			f.answers = append(f.answers, sharePartition{TopicPartition: share.TopicPartition{TopicID: ack.TopicID, Partition: ack.Partition}})
		}
		f.answers[i].ackCode, f.answers[i].ackMessage = ack.code, ack.message
	}
}

// buffer returns room for records within the memory for answers. Who holds some does not wait for more.
func (f *shareFetchCall) buffer(n int) ([]byte, error) {
	if n <= 0 {
		return nil, nil
	}
	var b *buffer
	if len(f.bufs) > 0 {
		if b = f.s.tryAnswerBuffer(n); b == nil {
			return nil, nil
		}
	} else {
		var err error
		if b, err = f.s.answerBuffer(f.r.ctx, n, min(n, smallDemand)); err != nil {
			return nil, err
		}
	}
	f.bufs = append(f.bufs, b)
	return b.B[:0], nil
}

func (f *shareFetchCall) release() {
	for _, b := range f.bufs {
		b.release()
	}
	f.bufs = nil
}

// refuse answers the whole request with an error.
func (f *shareFetchCall) refuse(err error) *encoded {
	f.answers, f.code = nil, errorCode(err)
	return f.encode()
}
