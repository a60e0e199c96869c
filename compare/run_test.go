package compare

import (
	"strings"
	"testing"
)

// TestWhatABrokerDoesNotServeIsNotRun plans cases for a gateway and an older Kafka.
func TestWhatABrokerDoesNotServeIsNotRun(t *testing.T) {
	newer := &Broker{Addr: "new", Product: "gateway", APIs: map[int16]Range{1: {4, 18}, 18: {0, 5}}, configs: map[string]string{"num.partitions": "3"}}
	older := &Broker{Addr: "old", Product: "other", Release: "4.3", APIs: map[int16]Range{1: {4, 12}, 3: {0, 13}, 18: {0, 4}}}
	for _, c := range []struct{ text, cases string }{
		{"{api: Fetch, versions: 11+, steps: [{api: Fetch}]}", "s@v11 s@v12"},
		{"{api: Fetch, versions: 13+, steps: [{api: Fetch}]}", "s: no version 13+ of Fetch is served by both"},
		{"{steps: [{api: Fetch, version: 12}]}", "s"},
		{"{steps: [{api: Fetch, version: 18}]}", "s: version 18 of Fetch is not served by both"},
		{"{steps: [{api: Fetch, version: 3, pin: closed}]}", "s"},
		{"{steps: [{api: ApiVersions, version: 5}]}", "s: version 5 of ApiVersions is not served by both"},
		{"{steps: [{api: ApiVersions, version: 99, body: \"\"}]}", "s"},
		{"{steps: [{api: Metadata}]}", "s: Metadata is not served by both"},
		{"{configs: {num.partitions: \"3\"}, steps: [{api: Fetch}]}", "s"},
		{"{configs: {num.partitions: \"1\"}, steps: [{api: Fetch}]}", "s: new has num.partitions=3, this needs 1"},
		{"{changesBroker: its limits, steps: [{api: Fetch}]}", "s: it sets its limits; --change-brokers allows that"},
		{"{since: \"4.3\", steps: [{api: Fetch}]}", "s"},
		{"{since: \"4.4\", steps: [{api: Fetch}]}", "s: old is Kafka 4.3, this needs 4.4"},
	} {
		s, err := ParseScenario("s", []byte("{why: x, tags: [x], "+strings.TrimPrefix(c.text, "{")))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range casesOf([]*Scenario{s}, [2]*Broker{newer, older}, &Options{Versions: "all"}) {
			text := p.String()
			if p.skip != "" {
				text += ": " + p.skip
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != c.cases {
			t.Errorf("%s: got cases %q, want %q", c.text, got, c.cases)
		}
	}
}

// TestBrokerThatMakesNoTopicEndsTheRun has a broker that answers CreateTopics with an empty list.
func TestBrokerThatMakesNoTopicEndsTheRun(t *testing.T) {
	addr := fakeBroker(t, func() []string { return nil })
	s, err := ParseScenario("s", []byte("why: w\ntags: [t]\ntopics: {topic: {}}\nsteps: [{api: Metadata, send: {topics: []}}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Run(t.Context(), []*Scenario{s}, Options{A: addr, B: addr, Versions: "max", Seed: 1})
	if want := "topic topic: create: topics: want one"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want %q", err, want)
	}
}

// TestAnswersThatAreCutShortAreNotSettled cuts answers that change topics at every byte: there is nothing to wait for.
func TestAnswersThatAreCutShortAreNotSettled(t *testing.T) {
	for name, values := range map[string]map[string]any{
		"CreateTopics":     {"topics": []any{map[string]any{"name": "t"}}},
		"DeleteTopics":     {"responses": []any{map[string]any{"name": "t"}}},
		"CreatePartitions": {"results": []any{map[string]any{"name": "t"}}},
	} {
		api, _ := APINamed(name)
		for v := api.Valid.Min; v <= api.Valid.Max; v++ {
			whole := answerFrame(t, name, v, 0, values)
			for cut := range len(whole) {
				q := &call{api: api, version: v}
				a := answer{frame: whole[:cut], outcome: "answered"}
				q.decode(&a, false)
				if err := new(runner).settle(t.Context(), &pending{call: q}, a); err != nil {
					t.Errorf("%s v%d cut at %d of %d bytes: %v", name, v, cut, len(whole), err)
				}
			}
		}
	}
}
