package wire

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups/share"
	"github.com/kaen-log/gateway/storage"
)

// ShareAcknowledge, key 79, versions 1 and 2 (KIP-932).
//
//	v2  renewals of locks (KIP-1222), and how long they last
//
// A member of a share group says what became of records it has fetched, within the session of its fetches.
//
// Kafka: KafkaApis.handleShareAcknowledgeRequest, handleAcknowledgements, validateAcknowledgementBatches.
//
// Differs from Kafka: partitions are answered for in the order of the request, in Kafka in none.
func (s *Server) shareAcknowledge(r *request, req *kmsg.ShareAcknowledgeRequest) (*kmsg.ShareAcknowledgeResponse, error) {
	resp := req.ResponseKind().(*kmsg.ShareAcknowledgeResponse)
	err := s.checkShareMember(r, req.GroupID, req.MemberID)
	if err == nil {
		err = s.shares.StepSession(*req.GroupID, *req.MemberID, req.ShareSessionEpoch)
	}
	if err != nil {
		resp.ErrorCode = errorCode(err)
		return resp, nil
	}
	var list []share.Acknowledgement
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			a := share.Acknowledgement{TopicID: t.TopicID, Partition: p.Partition}
			for _, b := range p.AcknowledgementBatches {
				a.Acks = append(a.Acks, ackOf(b.FirstOffset, b.LastOffset, b.AcknowledgeTypes))
			}
			list = append(list, a)
		}
	}
	group, member, epoch := *req.GroupID, *req.MemberID, req.ShareSessionEpoch
	wait := s.acknowledge(r, group, member, list, req.IsRenewAck)
	r.frameDone()
	at := make(map[storage.TopicID]int) // where each topic's answer is
	for _, a := range wait(r.ctx) {
		p := kmsg.NewShareAcknowledgeResponseTopicPartition()
		p.Partition, p.ErrorCode, p.ErrorMessage = a.Partition, a.code, a.message
		i, ok := at[a.TopicID]
		if !ok {
			t := kmsg.NewShareAcknowledgeResponseTopic()
			t.TopicID = a.TopicID
			i = len(resp.Topics)
			at[a.TopicID], resp.Topics = i, append(resp.Topics, t)
		}
		resp.Topics[i].Partitions = append(resp.Topics[i].Partitions, p)
	}
	if epoch == share.EpochClose {
		_ = s.shares.CloseSession(group, member) // it may have gone meanwhile
	}
	resp.AcquisitionLockTimeoutMillis = int32(s.shares.Group(group).Lock.Milliseconds())
	return resp, nil
}

// ackOf is what a request says of a range of records.
func ackOf(first, last int64, types []int8) share.Ack {
	a := share.Ack{Extent: share.Extent{First: first, Last: last}, Types: make([]share.AckType, len(types))}
	for i, t := range types {
		a.Types[i] = share.AckType(t)
	}
	return a
}

// shareAck is what became of the acknowledgement of a partition.
type shareAck struct {
	share.Acknowledgement
	code    int16
	message *string
}

// acknowledge checks acknowledgements and begins to write those that can be. The function it returns waits for the disk
// and says what became of each.
func (s *Server) acknowledge(r *request, group, member string, list []share.Acknowledgement, renews bool) func(context.Context) []shareAck {
	acks := make([]shareAck, len(list))
	var write []share.Acknowledgement
	var of []int // which of acks each has
	for i, a := range list {
		acks[i] = shareAck{Acknowledgement: a, code: s.checkAcknowledgement(r, &a, renews)}
		if acks[i].code == 0 && len(a.Acks) > 0 {
			write, of = append(write, a), append(of, i)
		}
	}
	wait := s.shares.Acknowledge(group, member, write)
	return func(ctx context.Context) []shareAck {
		for i, err := range wait(ctx) {
			acks[of[i]].code, acks[of[i]].message = errorCode(err), errorMessage(err)
		}
		if len(of) == 0 { // Kafka does not answer then for partitions that nothing was said of
			acks = slices.DeleteFunc(acks, func(a shareAck) bool { return a.code == 0 })
		}
		return acks
	}
}

// checkAcknowledgement returns the code of an acknowledgement that need not be tried; 0 when it may be.
func (s *Server) checkAcknowledgement(r *request, a *share.Acknowledgement, renews bool) int16 {
	highest := share.Reject
	if r.version >= 2 {
		highest = share.Renew
	}
	t, ok := s.store.TopicByID(a.TopicID)
	if !ok {
		return kerr.UnknownTopicID.Code
	}
	if err := share.Disordered(a.Acks, highest, renews); err != nil {
		return errorCode(err)
	}
	if !s.authorize(r, opRead, resourceTopic, t.Name()) {
		return kerr.TopicAuthorizationFailed.Code
	}
	if a.Partition < 0 || a.Partition >= t.Partitions() {
		return kerr.UnknownTopicOrPartition.Code
	}
	return 0
}
