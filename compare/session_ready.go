package compare

import (
	"maps"
	"slices"
	"strings"
)

// notReady reports whether a side refuses a request that changed nothing yet only because it is not ready, where the
// recorded broker was.
func notReady(api *API, live, recorded *Node) bool {
	codes, before := errorCodes(live), errorCodes(recorded)
	for code := range before {
		if slices.Contains(coordinatorNotReady, code) || slices.Contains(topicNotReady, code) {
			return false
		}
	}
	refusals := coordinatorNotReady
	switch api.Name {
	case "Metadata", "DescribeTopicPartitions", "ListOffsets", "OffsetForLeaderEpoch", "DescribeConfigs", "FindCoordinator":
		return slices.ContainsFunc(slices.Collect(maps.Keys(codes)), func(code int64) bool {
			return slices.Contains(coordinatorNotReady, code) || slices.Contains(topicNotReady, code)
		})
	case "Produce":
		refusals = topicNotReady
	}
	if len(codes) == 0 {
		return false
	}
	for code := range codes {
		if !slices.Contains(refusals, code) && (code != 0 || api.Name == "Produce") {
			return false
		}
	}
	return len(codes) > 1 || codes[0] == 0
}

// coordinatorNotReady and topicNotReady are the errors that clients answer by asking again: COORDINATOR_LOAD_IN_PROGRESS,
// COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR; UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER,
// UNKNOWN_TOPIC_ID.
var (
	coordinatorNotReady = []int64{14, 15, 16}
	topicNotReady       = []int64{3, 5, 6, 100}
)

// errorCodes counts the error codes in an answer.
func errorCodes(n *Node) map[int64]int {
	out := map[int64]int{}
	var visit func(n *Node)
	visit = func(n *Node) {
		if code, ok := n.Value.(int64); ok && strings.EqualFold(n.Name, "errorCode") {
			out[code]++
		}
		for _, c := range n.Children {
			visit(c)
		}
	}
	visit(n)
	return out
}

// valuesOf is a decoded message as the values that encode it, without records.
func valuesOf(n *Node) any {
	switch {
	case n == nil:
		return nil
	case n.Kind == Struct:
		out := map[string]any{}
		for _, c := range n.Children {
			out[c.Name] = valuesOf(c)
		}
		return out
	case n.Kind == Array:
		out := make([]any, len(n.Children))
		for i, c := range n.Children {
			out[i] = valuesOf(c)
		}
		return out
	}
	return n.Value
}
