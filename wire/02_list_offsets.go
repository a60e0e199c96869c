package wire

import (
	"iter"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage"
)

// ListOffsets, key 2, versions 1 to 11.
//
//	v1  one offset and its timestamp
//	v2  isolation level
//	v4  leader epochs
//	v5  OFFSET_NOT_AVAILABLE, which a single broker never sends: its epoch begins at the high watermark
//	v6  flexible
//	v7  -3: largest timestamp (KIP-734)
//	v8  -4: earliest local offset (KIP-405)
//	v9  -5: latest tiered offset (KIP-1005)
//	v10 timeout, for remote look-ups (KIP-1075)
//	v11 -6: earliest offset to upload (KIP-1023)
//
// Kafka: ReplicaManager.fetchOffset, Partition.fetchOffsetForTimestamp, UnifiedLog.fetchOffsetByTimestamp.
//
// There is no tiered storage. Differs from Kafka: a replica id other than a consumer's sees the high watermark, not the
// end of the log, since there is no other replica.

// Timestamps with a meaning of their own. Kafka: ListOffsetsRequest.
const (
	timestampLatest                = -1
	timestampEarliest              = -2
	timestampMax                   = -3
	timestampEarliestLocal         = -4
	timestampLatestTiered          = -5
	timestampEarliestPendingUpload = -6
)

// specialTimestampSince is the lowest version that knows a special timestamp, by its negative.
var specialTimestampSince = [...]int16{
	-timestampLatest: 1, -timestampEarliest: 1, -timestampMax: 7, -timestampEarliestLocal: 8, -timestampLatestTiered: 9,
	-timestampEarliestPendingUpload: 11,
}

// listOffsets answers a ListOffsets request.
func (s *Server) listOffsets(r *request, req *kmsg.ListOffsetsRequest) (*kmsg.ListOffsetsResponse, error) {
	if r.keepsTurn() {
		if err := recoverFirst(s, r, req, s.offsetsWanted(r, req)); err != nil {
			return nil, err
		}
	}
	resp := &kmsg.ListOffsetsResponse{Version: req.Version, Topics: make([]kmsg.ListOffsetsResponseTopic, 0, len(req.Topics))}
	isolation := storage.ReadUncommitted
	if req.ReplicaID == -1 && req.IsolationLevel == 1 {
		isolation = storage.ReadCommitted
	}
	twice, places := repeatedOffsets(req), map[string]int{} // places of topics in the answer
	var denied []kmsg.ListOffsetsResponseTopic
	for i := range req.Topics {
		t := &req.Topics[i]
		out := kmsg.ListOffsetsResponseTopic{
			Topic: t.Topic, Partitions: make([]kmsg.ListOffsetsResponseTopicPartition, 0, len(t.Partitions)),
		}
		if !s.authorize(r, opDescribe, resourceTopic, t.Topic) {
			for j := range t.Partitions {
				answer := kmsg.NewListOffsetsResponseTopicPartition()
				answer.Partition, answer.ErrorCode = t.Partitions[j].Partition, kerr.TopicAuthorizationFailed.Code
				out.Partitions = append(out.Partitions, answer)
			}
			denied = append(denied, out)
			continue
		}
		topic, found := s.store.Topic(t.Topic)
		for j := range t.Partitions {
			p := &t.Partitions[j]
			answer := kmsg.NewListOffsetsResponseTopicPartition()
			answer.Partition = p.Partition
			key := fetchKey{topic: t.Topic, partition: p.Partition}
			switch n, repeated := twice[key]; {
			case req.IsolationLevel < 0 || req.IsolationLevel > 1: // Kafka: IsolationLevel.forId throws
				answer.ErrorCode = kerr.UnknownServerError.Code
			case repeated:
				if n == 0 { // one answer for all mentions
					continue
				}
				twice[key] = 0
				answer.ErrorCode = kerr.InvalidRequest.Code
			case unsupportedTimestamp(p.Timestamp, req.Version):
				answer.ErrorCode = kerr.UnsupportedVersion.Code
			case !found:
				answer.ErrorCode = kerr.UnknownTopicOrPartition.Code
			default:
				listOffset(topic, p, isolation, &answer)
			}
			out.Partitions = append(out.Partitions, answer)
		}
		if len(out.Partitions) == 0 {
			continue
		}
		// A topic that is named twice has one answer. Kafka: ReplicaManager.fetchOffset keeps them by partition.
		if at, again := places[t.Topic]; again {
			resp.Topics[at].Partitions = append(resp.Topics[at].Partitions, out.Partitions...)
			continue
		}
		if len(req.Topics) > 1 {
			places[t.Topic] = len(resp.Topics)
		}
		resp.Topics = append(resp.Topics, out)
	}
	resp.Topics = append(resp.Topics, denied...)
	return resp, nil
}

// offsetsWanted yields the partitions of a request that are looked up.
func (s *Server) offsetsWanted(r *request, req *kmsg.ListOffsetsRequest) iter.Seq2[*storage.Topic, int32] {
	return func(yield func(*storage.Topic, int32) bool) {
		for i := range req.Topics {
			t := &req.Topics[i]
			topic, found := s.store.Topic(t.Topic)
			if !found || !s.mayDo(r, opDescribe, resourceTopic, t.Topic) {
				continue
			}
			for j := range t.Partitions {
				if !yield(topic, t.Partitions[j].Partition) {
					return
				}
			}
		}
	}
}

// repeatedOffsets returns the partitions that the request names more than once; nil when there is none.
func repeatedOffsets(req *kmsg.ListOffsetsRequest) map[fetchKey]int {
	n := 0
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	if n < 2 {
		return nil
	}
	seen := make(map[fetchKey]int, n)
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			seen[fetchKey{topic: req.Topics[i].Topic, partition: req.Topics[i].Partitions[j].Partition}]++
		}
	}
	for k, n := range seen {
		if n == 1 {
			delete(seen, k)
		}
	}
	return seen
}

// unsupportedTimestamp reports whether a version does not know a negative timestamp.
func unsupportedTimestamp(ms int64, version int16) bool {
	return ms < 0 && (ms <= -int64(len(specialTimestampSince)) || version < specialTimestampSince[-ms])
}

// listOffset looks one partition up.
func listOffset(topic *storage.Topic, p *kmsg.ListOffsetsRequestTopicPartition, isolation storage.Isolation, answer *kmsg.ListOffsetsResponseTopicPartition) {
	log, ok := topic.Partition(p.Partition)
	if !ok {
		answer.ErrorCode = kerr.UnknownTopicOrPartition.Code
		return
	}
	found, ok, err := lookUpOffset(log, p, isolation)
	if err != nil {
		answer.ErrorCode = errorCode(err)
	} else if ok {
		answer.Offset, answer.Timestamp, answer.LeaderEpoch = found.Offset, found.Timestamp, found.LeaderEpoch
	}
}

// lookUpOffset finds the offset for a timestamp, real or special. ok is false when nothing matches.
func lookUpOffset(log *storage.Log, p *kmsg.ListOffsetsRequestTopicPartition, isolation storage.Isolation) (found storage.TimedOffset, ok bool, err error) {
	if err := checkLeaderEpoch(log, p.CurrentLeaderEpoch); err != nil {
		return found, false, err
	}
	found = storage.TimedOffset{Offset: -1, Timestamp: -1, LeaderEpoch: -1}
	switch p.Timestamp {
	case timestampLatestTiered, timestampEarliestPendingUpload:
		return found, true, nil
	case timestampMax:
		found, ok, err = log.MaxTimestamp(isolation)
	case timestampLatest, timestampEarliest, timestampEarliestLocal:
		o, err := log.Offsets()
		if err != nil {
			return found, false, err
		}
		if p.Timestamp != timestampLatest {
			found.Offset = o.LogStart
			found.LeaderEpoch, err = log.EarliestEpoch()
			return found, true, err
		}
		found.Offset, found.LeaderEpoch = o.HighWatermark, log.LeaderEpoch()
		if isolation == storage.ReadCommitted {
			found.Offset = o.LastStable
		}
		return found, true, nil
	default:
		found, ok, err = log.OffsetForTime(p.Timestamp, isolation)
	}
	return found, ok, err
}
