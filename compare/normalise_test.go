package compare

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kaen-log/gateway/storage/record"
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

// The epoch of a transaction coordinator counts its broker's restarts, also within the markers that it writes.
func TestCoordinatorEpochsHaveNames(t *testing.T) {
	answer := func(epochs ...int32) string {
		var b []byte
		for _, e := range epochs {
			b = append(b, record.EndTxnMarker(5, 1, record.Marker{Commit: true, CoordinatorEpoch: e}, fixedTime, 0)...)
		}
		records := &Node{Name: "records"}
		new(decoder).batches(records, b, 0)
		root := &Node{Kind: Struct, Children: []*Node{{Name: "coordinatorEpoch", Kind: Leaf, Value: int64(epochs[0])}, records}}
		var out []string
		for _, f := range newNormaliser("gwcmp-", false).flatten(&API{Name: "Fetch"}, root, nil, nil) {
			out = append(out, f.Path+" "+f.Value)
		}
		return strings.Join(out, "\n")
	}
	first := answer(0, 0, 1)
	for _, want := range []string{
		"coordinatorEpoch <coordinator epoch 1>",
		"records[1].records[0].value 0x0000<coordinator epoch 1>",
		"records[2].records[0].value 0x0000<coordinator epoch 2>",
		"records[2].body 0x2000000008000000010c0000<coordinator epoch 2>00",
	} {
		if !strings.Contains(first, want) {
			t.Errorf("got %s\nwant %s in it", first, want)
		}
	}
	if again := answer(7, 7, 9); again != first {
		t.Errorf("got %s\nwant the same as of other epochs: %s", again, first)
	}
	if other := answer(7, 9, 9); other == first {
		t.Error("markers of one coordinator and of two are told alike")
	}
}

// Transactional ids of others are left out of a listing; what has no order of its own is put in one.
func TestListingsOfTransactionsAreTheRunsOwn(t *testing.T) {
	array := func(name string, items ...*Node) *Node { return &Node{Name: name, Kind: Array, Children: items} }
	leaf := func(name string, v any) *Node { return &Node{Name: name, Kind: Leaf, Value: v} }
	item := func(children ...*Node) *Node { return &Node{Kind: Struct, Children: children} }
	flat := func(api string, root *Node) []string {
		var out []string
		for _, f := range newNormaliser("gwcmp-", false).flatten(&API{Name: api}, root, nil, []string{"asked"}) {
			out = append(out, f.Path+" "+f.Value)
		}
		return out
	}
	got := flat("ListTransactions", item(array("transactionStates",
		item(leaf("transactionalId", "another's")), item(leaf("transactionalId", "gwcmp-tx")), item(leaf("transactionalId", "asked")))))
	want := []string{"transactionStates[] 2 elements", `transactionStates[asked].transactionalId "asked"`, `transactionStates[~tx].transactionalId "~tx"`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	got = flat("DescribeProducers", item(array("activeProducers",
		item(leaf("producerId", int64(4000)), leaf("lastSequence", int64(1))), item(leaf("producerId", int64(30)), leaf("lastSequence", int64(2))))))
	want = []string{"activeProducers[] 2 elements", "activeProducers[0].producerId <producer id 1>", "activeProducers[0].lastSequence 2",
		"activeProducers[1].producerId <producer id 2>", "activeProducers[1].lastSequence 1"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	got = flat("Fetch", item(array("abortedTransactions", item(leaf("firstOffset", int64(10))), item(leaf("firstOffset", int64(9))))))
	want = []string{"abortedTransactions[] 2 elements", "abortedTransactions[0].firstOffset 9", "abortedTransactions[1].firstOffset 10"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
