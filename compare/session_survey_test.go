package compare

import (
	"bytes"
	"maps"
	"slices"
	"testing"
	"time"
)

// TestRetriesAreFound has a client ask until the broker is ready, for one topic; another topic is never there.
func TestRetriesAreFound(t *testing.T) {
	events := []*Event{{Number: 1, Kind: Began, Broker: "b:1"}, {Number: 2, Kind: Opened, Connection: 1, Broker: "b:1"}}
	say := func(kind EventKind, frame []byte) {
		events = append(events, &Event{Number: len(events) + 1, Kind: kind, Connection: 1, Frame: frame})
	}
	correlation := int32(0)
	ask := func(topic string, code int) {
		correlation++
		say(RequestSent, requestFrame(t, "Metadata", 4, correlation, map[string]any{"topics": []any{map[string]any{"name": topic}}}))
		say(AnswerSent, answerFrame(t, "Metadata", 4, correlation, map[string]any{"topics": []any{map[string]any{"name": topic, "errorCode": code}}}))
	}
	ask("new", 3)    // events 3 and 4
	ask("absent", 3) // 5 and 6
	ask("new", 5)    // 7 and 8
	ask("new", 0)    // 9 and 10
	ask("absent", 3) // 11 and 12
	ask("new", 3)    // 13 and 14: gone again, for all that is known
	s, err := surveySession(bytes.NewReader(sessionFile(events)))
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(s.without)); !slices.Equal(got, []int{3, 7}) {
		t.Errorf("got requests %v to do without, want 3 and 7", got)
	}
}

// TestSurveyTakesInWhatClientsSent looks for names, timestamps and requests.
func TestSurveyTakesInWhatClientsSent(t *testing.T) {
	values := map[string]any{"acks": 1, "topicData": []any{map[string]any{"name": "orders", "partitionData": []any{map[string]any{"index": 0,
		"records": map[string]any{"codec": "zstd", "records": []any{map[string]any{"value": "v", "timestamp": 1000}, map[string]any{"value": "v", "timestamp": 1007}}}}}}}}
	api, _ := APINamed("Produce")
	if err := withRecords(api.Request, values); err != nil {
		t.Fatal(err)
	}
	s, err := surveySession(bytes.NewReader(sessionFile([]*Event{
		{Number: 1, Kind: Began, Broker: "b:1", Started: time.UnixMilli(5)},
		{Number: 2, Kind: Opened, Connection: 1, Broker: "b:1"},
		{Number: 3, Kind: RequestSent, Connection: 1, Frame: requestFrame(t, "Produce", 7, 1, values)},
		{Number: 4, Kind: RequestSent, Connection: 1, Frame: requestFrame(t, "Produce", 9, 2, values)},
	})))
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(s.times)); !slices.Equal(got, []int64{1000, 1007}) {
		t.Errorf("got times %v, want those of the records", got)
	}
	if !slices.Contains(s.names, "orders") || s.apis[0] != (Range{7, 9}) || !s.used[0] || len(s.used) != 1 {
		t.Errorf("got names %q, apis %v, used %v; want orders, and Produce 7 to 9", s.names, s.apis, s.used)
	}
}

func TestRefusalsAreToldFromOtherErrors(t *testing.T) {
	for _, c := range []struct {
		api    string
		values map[string]any
		want   bool
	}{
		{"JoinGroup", map[string]any{"errorCode": 16}, true},
		{"JoinGroup", map[string]any{"errorCode": 79}, false},
		{"JoinGroup", nil, false},
		{"Metadata", map[string]any{"topics": []any{map[string]any{"errorCode": 5}, map[string]any{"errorCode": 0}}}, true},
		{"Metadata", map[string]any{"topics": []any{map[string]any{"errorCode": 17}}}, false},
		{"Produce", map[string]any{"responses": []any{map[string]any{"partitionResponses": []any{map[string]any{"errorCode": 3}, map[string]any{"errorCode": 6}}}}}, true},
		{"Produce", map[string]any{"responses": []any{map[string]any{"partitionResponses": []any{map[string]any{"errorCode": 3}, map[string]any{"errorCode": 0}}}}}, false},
		{"CreateTopics", map[string]any{"topics": []any{map[string]any{"errorCode": 3}}}, false},
		{"DeleteTopics", map[string]any{"responses": []any{map[string]any{"errorCode": 3}}}, false},
	} {
		api, _ := APINamed(c.api)
		if got := refused(api, parsedAnswer(t, c.api, api.Valid.Min, c.values)); got != c.want {
			t.Errorf("%s %v: got refused %v, want %v", c.api, c.values, got, c.want)
		}
	}
}
