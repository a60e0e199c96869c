package wire

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups"
)

// Large requests about a partition that recovers, which may take long, keep no turn from others.
func TestShareOffsetsOfAPartitionThatRecoversKeepNoTurn(t *testing.T) {
	req := kmsg.NewPtrDescribeShareGroupOffsetsRequest()
	req.Version = 1
	for _, topic := range []kmsg.DescribeShareGroupOffsetsRequestGroupTopic{
		{Topic: "missing", Partitions: make([]int32, 50_000)}, {Topic: "slow", Partitions: []int32{0}},
	} {
		req.Groups = append(req.Groups, kmsg.DescribeShareGroupOffsetsRequestGroup{GroupID: topic.Topic, Topics: []kmsg.DescribeShareGroupOffsetsRequestGroupTopic{topic}})
	}
	started := groups.Options{ShareState: groups.ShareState{
		Initialize: func(context.Context, groups.SharePartition, int64) error { return nil },
		SetStart:   func(context.Context, groups.SharePartition, int64) error { return nil },
		Delete:     func(context.Context, groups.SharePartition) error { return nil },
		Summary:    func(p groups.SharePartition) (int64, int32, bool) { return 1, 1, p.Partition == 0 },
	}}
	synctest.Test(t, func(t *testing.T) {
		answersOfARecoveringPartition(t, started, req, func(resp kmsg.Response) bool {
			got := resp.(*kmsg.DescribeShareGroupOffsetsResponse).Groups
			if len(got) != 2 || len(got[0].Topics) != 1 || len(got[0].Topics[0].Partitions) != 50_000 {
				return false
			}
			p := got[1].Topics[0].Partitions[0]
			return p.ErrorCode == 0 && p.StartOffset == 1 && p.Lag == 1
		})
	})
}
