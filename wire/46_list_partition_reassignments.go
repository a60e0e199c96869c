package wire

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListPartitionReassignments, key 46, version 0.
//
// No reassignment is ever in progress, see AlterPartitionReassignments; what is asked for and does not exist is no
// error, and no time is too short. Kafka: ControllerApis.handleListPartitionReassignments,
// ReplicationControlManager.listPartitionReassignments.

// listPartitionReassignments answers a ListPartitionReassignments request.
func (s *Server) listPartitionReassignments(r *request, req *kmsg.ListPartitionReassignmentsRequest) (*kmsg.ListPartitionReassignmentsResponse, error) {
	resp := &kmsg.ListPartitionReassignmentsResponse{Version: req.Version, Topics: []kmsg.ListPartitionReassignmentsResponseTopic{}}
	if s.authorizeCluster(r, opDescribe) {
		return resp, nil
	}
	err := kerr.ClusterAuthorizationFailed
	resp.ErrorCode, resp.ErrorMessage = errorCode(err), errorMessage(err)
	for i := range req.Topics {
		q := &req.Topics[i]
		out := kmsg.NewListPartitionReassignmentsResponseTopic()
		out.Topic = q.Topic
		for _, partition := range q.Partitions {
			p := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
			p.Partition = partition
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}
