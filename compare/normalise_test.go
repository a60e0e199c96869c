package compare

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

// A ShareFetch without an error says 0 of a leader that it does not name. That is not the epoch 0 of a broker that was
// never restarted, beside one that was.
func TestUntoldLeaderHasNoName(t *testing.T) {
	leaf := func(name string, v int64) *Node { return &Node{Name: name, Kind: Leaf, Value: v} }
	answer := func(code *kerr.Error, leader, told, epoch int64) []string {
		root := &Node{Kind: Struct, Children: []*Node{
			leaf("errorCode", int64(code.Code)),
			{Name: "currentLeader", Kind: Struct, Children: []*Node{leaf("leaderId", leader), leaf("leaderEpoch", told)}},
			leaf("partitionLeaderEpoch", epoch),
		}}
		var out []string
		for _, f := range newNormaliser("gwcmp-", false).flatten(&API{Name: "ShareFetch"}, root, nil, nil) {
			out = append(out, f.Path+" "+f.Value)
		}
		return out
	}
	none := &kerr.Error{}
	for epoch := range int64(3) {
		got := answer(none, 0, 0, epoch)
		want := []string{"errorCode 0 NONE", "currentLeader.leaderId 0", "currentLeader.leaderEpoch 0", "partitionLeaderEpoch <leader epoch 1>"}
		if !slices.Equal(got, want) {
			t.Errorf("no error, epoch %d: got %q, want %q", epoch, got, want)
		}
	}
	for _, code := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.FencedLeaderEpoch} {
		for broker := range int64(3) {
			got := answer(code, broker, 5, 5)[1:]
			want := []string{"currentLeader.leaderId <node 1>", "currentLeader.leaderEpoch <leader epoch 1>", "partitionLeaderEpoch <leader epoch 1>"}
			if !slices.Equal(got, want) {
				t.Errorf("%s, broker %d: got %q, want %q", code.Message, broker, got, want)
			}
		}
	}
}
