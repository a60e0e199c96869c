package compare

import (
	"maps"
	"slices"
	"strings"
)

// refused reports whether an answer says only that the broker is not ready for a request, which changed nothing yet.
func refused(api *API, root *Node) bool {
	codes := errorCodes(root)
	refusals := coordinatorNotReady
	switch api.Name {
	case "Metadata", "DescribeTopicPartitions", "ListOffsets", "OffsetForLeaderEpoch", "DescribeConfigs", "FindCoordinator":
		return slices.ContainsFunc(slices.Collect(maps.Keys(codes)), func(code int64) bool {
			return slices.Contains(coordinatorNotReady, code) || slices.Contains(topicNotReady, code)
		})
	case "Produce":
		refusals = topicNotReady
	}
	for code := range codes {
		if !slices.Contains(refusals, code) && (code != 0 || api.Name == "Produce") {
			return false
		}
	}
	return len(codes) > 1 || len(codes) == 1 && codes[0] == 0
}

// retries finds the requests of a session that the recorded broker refused because it was not ready, and that the client
// sent again until it was: how many there are is a matter of time, so that a replay leaves them out.
type retries struct {
	refused map[string][]int // by what was asked: numbers of requests that were refused so far
	without map[int]bool     // numbers of requests that a replay does without
}

// answered takes in the answer to the request with a number.
func (r *retries) answered(request *message, number int, root *Node) {
	asked := string(request.frame[:4]) + string(request.frame[8:]) // all but the correlation id
	if refused(request.api, root) {
		r.refused[asked] = append(r.refused[asked], number)
		return
	}
	for _, n := range r.refused[asked] {
		r.without[n] = true
	}
	delete(r.refused, asked)
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
