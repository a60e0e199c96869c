package compare

import (
	"strings"
	"testing"
)

// everyKindOfCase is a report in which each of the things is found that a report can tell.
func everyKindOfCase() *Report {
	answer := func(frame string, fields ...FieldValue) *Answer {
		return &Answer{Step: 1, API: "Metadata", Version: 1, Fields: fields, frame: []byte(frame)}
	}
	id := func(raw string) FieldValue {
		return FieldValue{Path: "clusterId", Value: "<cluster id 1>", Raw: raw, Rule: "id"}
	}
	code := func(value string) FieldValue { return FieldValue{Path: "errorCode", Value: value, Start: 2, End: 4} }
	r := &Report{A: &Broker{Addr: "one:1", Product: "gateway"}, B: &Broker{Addr: "two:2", Product: "other"}, Seed: 77,
		Stale: []Expected{{Scenario: "gone", Path: "some.path", Reason: "it was so"}},
		Cases: []CaseResult{{Name: "differs"}, {Name: "stops"}, {Name: "absent", NotRun: "it is not served"}}}
	r.Cases[0].compare(Transcript{Answers: []Answer{*answer("ab\x00\x03cd", id("first"), code("3 UNKNOWN_TOPIC_OR_PARTITION"))}},
		Transcript{Answers: []Answer{*answer("ab\x00\x00cd", id("second"), code("0 NONE"))}})
	same := Transcript{Answers: []Answer{*answer("", id("first"))}, Stopped: "step 2: the answer has no id"}
	r.Cases[1].compare(same, same)
	return r
}

// TestReportsTellAll looks in each format for both values, the bytes around them, the command that repeats it, what did
// not run and why, where a case stopped on both sides, and what is stale.
func TestReportsTellAll(t *testing.T) {
	const again, notRun, stopped = "gateway compare -a one:1 -b two:2 --seed 77 differs", "it is not served", "step 2: the answer has no id"
	for format, wants := range map[string][]string{
		"table": {"errorCode", "3 UNKNOWN_TOPIC_OR_PARTITION", "0 NONE", "at 2: 61 62 [00 03] 63 64", again, notRun, "same       stops  (both stopped: " + stopped, "some.path no longer matches"},
		"md":    {"errorCode", "3 UNKNOWN_TOPIC_OR_PARTITION", "0 NONE", "at 2: 61 62 [00 03] 63 64", again, notRun, "both stopped: " + stopped, "gone at `some.path`: it was so"},
		"html":  {"errorCode", "3 UNKNOWN_TOPIC_OR_PARTITION", "0 NONE", "at 2: 61 62 [00 03] 63 64", again, notRun, "both stopped: " + stopped, "some.path", "normaliser: id", "first", "second"},
		"json":  {"errorCode", "3 UNKNOWN_TOPIC_OR_PARTITION", "0 NONE", "at 2: 61 62 [00 03] 63 64", notRun, stopped, "some.path", `"Verdict": "different"`, `"Verdict": "not run"`},
		"junit": {"errorCode", "3 UNKNOWN_TOPIC_OR_PARTITION", "0 NONE", "at 2: 61 62 [00 03] 63 64", again, notRun, "both stopped: " + stopped, "some.path"},
	} {
		var text strings.Builder
		if err := everyKindOfCase().Write(&text, format, false); err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(text.String(), want) {
				t.Errorf("%s: %q is not told", format, want)
			}
		}
		if format == "html" && (strings.Contains(text.String(), "src=") || strings.Contains(text.String(), "href=") || strings.Contains(text.String(), "url(")) {
			t.Error("html: it needs other files")
		}
	}
}

// TestCasesThatStopDifferently have no answer at all, so that there is no step to hang the difference on.
func TestCasesThatStopDifferently(t *testing.T) {
	var c CaseResult
	c.compare(Transcript{Stopped: "step 1: one"}, Transcript{Stopped: "step 1: another"})
	if got := c.Verdict(); got != Different || c.Stopped != "" {
		t.Errorf("got verdict %s, stopped %q; want different", got, c.Stopped)
	}
	var same CaseResult
	same.compare(Transcript{Stopped: "step 1: one"}, Transcript{Stopped: "step 1: one"})
	if got := same.Verdict(); got != NotRun {
		t.Errorf("both stopped alike: got verdict %s, want not run", got)
	}
}
