package wire

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// AlterPartitionReassignments, key 45, versions 0 to 1.
//
//	v0 flexible
//	v1 whether the number of replicas may change
//
// A partition can only be assigned to this broker, which has it already: that succeeds and changes nothing, and so there
// is never a reassignment to cancel. Kafka: ControllerApis.handleAlterPartitionReassignments,
// QuorumController.alterPartitionReassignments, ReplicationControlManager.alterPartitionReassignments.

// alterPartitionReassignments answers an AlterPartitionReassignments request.
func (s *Server) alterPartitionReassignments(r *request, req *kmsg.AlterPartitionAssignmentsRequest) (*kmsg.AlterPartitionAssignmentsResponse, error) {
	resp := req.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	var refused error
	switch {
	case !s.authorizeCluster(r, opAlter):
		refused = kerr.ClusterAuthorizationFailed
	case len(req.Topics) == 0:
		// Kafka answers with what a response is made with: an empty message, and true whatever was asked.
		resp.ErrorMessage = new(string)
		return resp, nil
	case timedOut(req.TimeoutMillis):
		refused = kerr.RequestTimedOut
	default:
		resp.AllowReplicationFactorChange = req.AllowReplicationFactorChange
	}
	resp.ErrorCode, resp.ErrorMessage = errorCode(refused), reassignmentMessage(refused)
	for i := range req.Topics {
		q := &req.Topics[i]
		out := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		out.Topic = q.Topic
		for j := range q.Partitions {
			p := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			p.Partition = q.Partitions[j].Partition
			err := refused
			if err == nil {
				err = s.checkReassigned(q.Topic, &q.Partitions[j], req.AllowReplicationFactorChange)
			}
			p.ErrorCode, p.ErrorMessage = errorCode(err), reassignmentMessage(err)
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}

// checkReassigned says why a partition cannot have other replicas.
func (s *Server) checkReassigned(topic string, p *kmsg.AlterPartitionAssignmentsRequestTopicPartition, otherNumber bool) error {
	t, ok := s.store.Topic(topic)
	if !ok || p.Partition < 0 || p.Partition >= t.Partitions() {
		return kerr.UnknownTopicOrPartition
	}
	if p.Replicas == nil {
		return kerr.NoReassignmentInProgress
	}
	if err := s.checkReplicas(p.Replicas); err != nil {
		return err
	}
	if !otherNumber && len(p.Replicas) != 1 {
		return detail(kerr.InvalidReplicationFactor, fmt.Sprintf("%d replicas, and the partition has 1", len(p.Replicas)))
	}
	return nil
}

// reassignmentMessage is errorMessage but for the errors of which Kafka says no more than their code.
func reassignmentMessage(err error) *string {
	if err == error(kerr.NoReassignmentInProgress) || err == error(kerr.RequestTimedOut) {
		return nil
	}
	return errorMessage(err)
}
