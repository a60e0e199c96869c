package wire

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage"
)

// ElectLeaders, key 43, versions 0 to 2.
//
//	v1 kinds of elections, an error of the whole answer
//	v2 flexible
//
// The only replica of a partition leads it, so that an election is never needed; a partition that is offline has no
// leader and nobody to elect. Kafka: ControllerApis.handleElectLeaders, QuorumController.electLeaders,
// ReplicationControlManager.electLeaders.

// The kinds of elections. Kafka: ElectionType.
const (
	electPreferred int8 = 0
	electUnclean   int8 = 1
)

// electLeaders answers an ElectLeaders request.
func (s *Server) electLeaders(r *request, req *kmsg.ElectLeadersRequest) (*kmsg.ElectLeadersResponse, error) {
	resp := &kmsg.ElectLeadersResponse{Version: req.Version, Topics: []kmsg.ElectLeadersResponseTopic{}}
	all := req.Topics == nil
	switch {
	case !s.authorizeCluster(r, opAlter):
		refuseElections(resp, req, kerr.ClusterAuthorizationFailed)
	case !all && len(req.Topics) == 0:
		// Nothing to do, in whatever time and way.
	case timedOut(req.TimeoutMillis):
		refuseElections(resp, req, kerr.RequestTimedOut)
	case req.ElectionType != electPreferred && req.ElectionType != electUnclean:
		refuseElections(resp, req, detail(kerr.InvalidRequest, fmt.Sprintf("election type %d, want 0 (preferred) or 1 (unclean)", req.ElectionType)))
	case all:
		s.electAll(resp, req.ElectionType)
	default:
		for i := range req.Topics {
			q := &req.Topics[i]
			t, ok := s.store.Topic(q.Topic)
			out := kmsg.NewElectLeadersResponseTopic()
			out.Topic = q.Topic
			for _, p := range q.Partitions {
				err := error(kerr.UnknownTopicOrPartition)
				if ok && p >= 0 && p < t.Partitions() {
					err = s.electLeader(t, p, req.ElectionType)
				}
				out.Partitions = append(out.Partitions, electionAnswer(p, err))
			}
			resp.Topics = append(resp.Topics, out)
		}
	}
	return resp, nil
}

// electAll names every topic, and of its partitions those that have no leader.
func (s *Server) electAll(resp *kmsg.ElectLeadersResponse, kind int8) {
	for _, t := range s.store.Topics() {
		out := kmsg.NewElectLeadersResponseTopic()
		out.Topic = t.Name()
		for p := range t.Partitions() {
			if err := s.electLeader(t, p, kind); err != error(kerr.ElectionNotNeeded) {
				out.Partitions = append(out.Partitions, electionAnswer(p, err))
			}
		}
		resp.Topics = append(resp.Topics, out)
	}
}

// electLeader says why no leader is elected for a partition that exists.
func (s *Server) electLeader(t *storage.Topic, partition int32, kind int8) error {
	switch {
	case s.partitionState(t, partition).leader >= 0:
		return kerr.ElectionNotNeeded
	case kind == electPreferred:
		return kerr.PreferredLeaderNotAvailable
	}
	return kerr.EligibleLeadersNotAvailable
}

// refuseElections answers the whole request, and each partition that it names, with one error.
func refuseElections(resp *kmsg.ElectLeadersResponse, req *kmsg.ElectLeadersRequest, err error) {
	resp.ErrorCode = errorCode(err)
	for i := range req.Topics {
		q := &req.Topics[i]
		out := kmsg.NewElectLeadersResponseTopic()
		out.Topic = q.Topic
		for _, p := range q.Partitions {
			out.Partitions = append(out.Partitions, electionAnswer(p, err))
		}
		resp.Topics = append(resp.Topics, out)
	}
}

func electionAnswer(partition int32, err error) kmsg.ElectLeadersResponseTopicPartition {
	out := kmsg.NewElectLeadersResponseTopicPartition()
	out.Partition, out.ErrorCode, out.ErrorMessage = partition, errorCode(err), errorMessage(err)
	if err == error(kerr.RequestTimedOut) {
		out.ErrorMessage = nil // as timedOut says
	}
	return out
}
