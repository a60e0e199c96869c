package compare

import (
	"bytes"
	"testing"
)

// parsedAnswer decodes an answer of these values.
func parsedAnswer(t *testing.T, name string, version int16, values map[string]any) *Node {
	t.Helper()
	api, _ := APINamed(name)
	q := &call{api: api, version: version}
	a := answer{frame: answerFrame(t, name, version, 0, values)}
	q.decode(&a, false)
	if a.fault != "" {
		t.Fatal(a.fault)
	}
	return a.root
}

func parsedRequest(t *testing.T, name string, version int16, values map[string]any) *message {
	t.Helper()
	m, err := parseRequest(requestFrame(t, name, version, 1, values), false)
	if err != nil || !m.whole() {
		t.Fatalf("%s v%d: %v", name, version, err)
	}
	return m
}

// sentAs is the request as a replay sends it.
func (r rebinding) sentAs(t *testing.T, m *message) *message {
	t.Helper()
	e, err := r.edits(m)
	if err != nil {
		t.Fatal(err)
	}
	frame, err := m.splice(e)
	if err != nil {
		t.Fatal(err)
	}
	out, err := parseRequest(frame, false)
	if err != nil || !out.whole() {
		t.Fatalf("%s v%d does not decode any more: %v", m.api.Name, m.call.version, err)
	}
	return out
}

func wantField(t *testing.T, m *message, path string, want any) {
	t.Helper()
	if got, ok := valueAt(m.root, path); !ok || got != want {
		t.Errorf("%s v%d: %s: got %v, want %v", m.api.Name, m.call.version, path, got, want)
	}
}

// TestTopicIDsAndLeaderEpochsAreRebound has two topics of which the other broker names the ids, and the epochs of their
// partitions, in another order.
func TestTopicIDsAndLeaderEpochsAreRebound(t *testing.T) {
	topic := func(name string, id byte, epoch int) any {
		return map[string]any{"name": name, "topicId": UUID{15: id}, "partitions": []any{map[string]any{"partitionIndex": 0, "leaderEpoch": epoch}}}
	}
	r := rebinding{}
	r.learn(nil, parsedAnswer(t, "Metadata", 12, map[string]any{"topics": []any{topic("a", 1, 0), topic("b", 2, 0)}}),
		parsedAnswer(t, "Metadata", 12, map[string]any{"topics": []any{topic("b", 22, 7), topic("a", 11, 5)}}))
	fetch := r.sentAs(t, parsedRequest(t, "Fetch", 13, map[string]any{"topics": []any{
		map[string]any{"topicId": UUID{15: 2}, "partitions": []any{map[string]any{"partition": 0, "currentLeaderEpoch": 0, "fetchOffset": 3, "lastFetchedEpoch": -1}}},
		map[string]any{"topicId": UUID{15: 1}, "partitions": []any{map[string]any{"partition": 0, "currentLeaderEpoch": 0, "lastFetchedEpoch": 0}}},
	}}))
	wantField(t, fetch, "topics[0].topicId", UUID{15: 22})
	wantField(t, fetch, "topics[0].partitions[0].currentLeaderEpoch", int64(7))
	wantField(t, fetch, "topics[0].partitions[0].lastFetchedEpoch", int64(-1))
	wantField(t, fetch, "topics[0].partitions[0].fetchOffset", int64(3))
	wantField(t, fetch, "topics[1].topicId", UUID{15: 11})
	wantField(t, fetch, "topics[1].partitions[0].lastFetchedEpoch", int64(5))
	list := r.sentAs(t, parsedRequest(t, "ListOffsets", 4, map[string]any{"topics": []any{
		map[string]any{"name": "a", "partitions": []any{map[string]any{"partitionIndex": 0, "currentLeaderEpoch": 0}}}}}))
	wantField(t, list, "topics[0].partitions[0].currentLeaderEpoch", int64(5))
}

// TestUntoldLeaderIsNotRebound has a ShareFetch after which 0 is still the epoch that the other broker calls 5: of a leader
// that an answer does not tell it says 0, too.
func TestUntoldLeaderIsNotRebound(t *testing.T) {
	r := rebinding{}
	topics := func(epoch int) any {
		return []any{map[string]any{"name": "a", "topicId": UUID{15: 1}, "partitions": []any{map[string]any{"partitionIndex": 0, "leaderEpoch": epoch}}}}
	}
	r.learn(nil, parsedAnswer(t, "Metadata", 12, map[string]any{"topics": topics(0)}), parsedAnswer(t, "Metadata", 12, map[string]any{"topics": topics(5)}))
	shared := parsedAnswer(t, "ShareFetch", 1, map[string]any{"responses": []any{
		map[string]any{"topicId": UUID{15: 1}, "partitions": []any{map[string]any{"partitionIndex": 0}}}}})
	r.learn(nil, shared, shared)
	fetch := r.sentAs(t, parsedRequest(t, "Fetch", 13, map[string]any{"topics": []any{
		map[string]any{"topicId": UUID{15: 1}, "partitions": []any{map[string]any{"partition": 0, "currentLeaderEpoch": 0}}}}}))
	wantField(t, fetch, "topics[0].partitions[0].currentLeaderEpoch", int64(5))
}

// TestProducersAreRebound has the other broker give another id and epoch; the batch keeps its records, and its CRC holds.
func TestProducersAreRebound(t *testing.T) {
	r := rebinding{}
	r.learn(nil, parsedAnswer(t, "InitProducerId", 4, map[string]any{"producerId": 5, "producerEpoch": 0}),
		parsedAnswer(t, "InitProducerId", 4, map[string]any{"producerId": 4000, "producerEpoch": 3}))
	values := map[string]any{"topicData": []any{map[string]any{"name": "a", "partitionData": []any{map[string]any{"index": 0,
		"records": map[string]any{"producerId": 5, "producerEpoch": 0, "baseSequence": 0, "codec": "gzip", "records": []any{map[string]any{"value": "v"}}}}}}}}
	api, _ := APINamed("Produce")
	if err := withRecords(api.Request, values); err != nil {
		t.Fatal(err)
	}
	was := parsedRequest(t, "Produce", 9, values)
	is := r.sentAs(t, was)
	const batch = "topicData[0].partitionData[0].records[0]."
	wantField(t, is, batch+"producerId", int64(4000))
	wantField(t, is, batch+"producerEpoch", int64(3))
	wantField(t, is, batch+"crc", "valid")
	body := func(m *message) []byte { return m.frame[bytes.Index(m.frame, []byte{0x1f, 0x8b}):] } // from gzip's magic on
	if !bytes.Equal(body(was), body(is)) {
		t.Errorf("got records %x, want %x", body(is), body(was))
	}
	end := r.sentAs(t, parsedRequest(t, "EndTxn", 3, map[string]any{"transactionalId": "t", "producerId": 5, "producerEpoch": 0}))
	wantField(t, end, "producerId", int64(4000))
	wantField(t, end, "producerEpoch", int64(3))
}

// TestGroupMembersAreRebound has two members whose ids and generation differ; the leader lists them in another order.
func TestGroupMembersAreRebound(t *testing.T) {
	join := func(me, leader string, generation int, members ...string) *Node {
		var list []any
		for _, m := range members {
			list = append(list, map[string]any{"memberId": m})
		}
		return parsedAnswer(t, "JoinGroup", 5, map[string]any{"memberId": me, "leader": leader, "generationId": generation, "members": list})
	}
	r := rebinding{}
	r.learn(nil, join("m1", "m1", 1, "m1", "m2"), join("x1", "x1", 8, "x2", "x1"))
	r.learn(nil, join("m2", "m1", 1), join("x2", "x1", 8))
	sync := r.sentAs(t, parsedRequest(t, "SyncGroup", 3, map[string]any{"groupId": "g", "generationId": 1, "memberId": "m1",
		"assignments": []any{map[string]any{"memberId": "m1"}, map[string]any{"memberId": "m2"}}}))
	wantField(t, sync, "generationId", int64(8))
	wantField(t, sync, "memberId", "x1")
	wantField(t, sync, "assignments[0].memberId", "x1")
	wantField(t, sync, "assignments[1].memberId", "x2")
	other := r.sentAs(t, parsedRequest(t, "Heartbeat", 3, map[string]any{"groupId": "g", "generationId": 0, "memberId": "m2"}))
	wantField(t, other, "generationId", int64(0))
	wantField(t, other, "memberId", "x2")
}

func TestNodesAndSessionsAreRebound(t *testing.T) {
	r := rebinding{}
	broker := func(id int) any { return map[string]any{"nodeId": id, "host": "h", "port": 1} }
	r.learn(nil, parsedAnswer(t, "Metadata", 1, map[string]any{"brokers": []any{broker(1)}}), parsedAnswer(t, "Metadata", 1, map[string]any{"brokers": []any{broker(7)}}))
	r.learn(nil, parsedAnswer(t, "Fetch", 11, map[string]any{"sessionId": 99}), parsedAnswer(t, "Fetch", 11, map[string]any{"sessionId": 123}))
	configs := r.sentAs(t, parsedRequest(t, "DescribeConfigs", 1, map[string]any{"resources": []any{
		map[string]any{"resourceType": 4, "resourceName": "1"}, map[string]any{"resourceType": 2, "resourceName": "1"}}}))
	wantField(t, configs, "resources[0].resourceName", "7")
	wantField(t, configs, "resources[1].resourceName", "1")
	fetch := r.sentAs(t, parsedRequest(t, "Fetch", 11, map[string]any{"sessionId": 99, "sessionEpoch": 4}))
	wantField(t, fetch, "sessionId", int64(123))
	wantField(t, fetch, "sessionEpoch", int64(4))
	first := r.sentAs(t, parsedRequest(t, "Fetch", 11, map[string]any{"sessionId": 0, "sessionEpoch": 0}))
	wantField(t, first, "sessionId", int64(0))
}
