package groups

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestRegexIsRefusedThatWouldHoldUpItsGroup(t *testing.T) {
	var names []string
	for i := range 200 {
		names = append(names, fmt.Sprintf("topic-%d-%s", i, strings.Repeat("x", 200)))
	}
	costly := strings.TrimSuffix(strings.Repeat(".*x|", 1000), "|")
	for _, c := range []struct {
		name  string
		regex string
		other []string // of other members
		names []string
		ok    bool
	}{
		{"one as people write them", "orders-.*|topic-[0-9]+-x+", nil, names, true},
		{"one that is long", strings.Repeat("a|", 2000) + "b", nil, names[:1], true},
		{"one that is too long", strings.Repeat("a", MaxRegexBytes+1), nil, names[:1], false},
		{"one that takes too many steps", costly, nil, names, false},
		{"the same with few topics", costly, nil, names[:1], true},
		{"one that repeats", "(x{100}y){10}.*", nil, names, true},
		{"many that are cheap alone", "topic-z.*", strings.Split(strings.Repeat("(a|b|c|d){50}x.*,", 60), ","), names, false},
		{"one that does not compile", "a(", nil, names, false},
	} {
		all := map[string]int{c.regex: 1}
		for i, r := range c.other {
			all[fmt.Sprintf("%s%d", r, i)] = 1
		}
		if err := checkRegex(c.regex, all, c.names); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrInvalidRegex) {
			t.Errorf("%s: got %v, want it taken: %v", c.name, err, c.ok)
		}
	}
}

func TestRegexMatchesWholeNames(t *testing.T) {
	names := []string{"orders", "a.b", "axb", "ab", "a", "b"}
	for regex, want := range map[string][]string{
		"a":          {"a"},
		"a|ab":       {"a", "ab"},
		"a.b|a":      {"a", "a.b", "axb"},
		"a+?b??":     {"a", "ab"},
		"^orders$":   {"orders"},
		"rder":       {},
		`\Qa.b\E`:    {"a.b"},
		`\Qa.b`:      {"a.b"},
		`b|\Qa.b`:    {"a.b", "b"},
		"(?i)ORDERS": {"orders"},
	} {
		if got := matching(regex, names); !slices.Equal(got, want) {
			t.Errorf("%s matches %q, want %q", regex, got, want)
		}
	}
}

// What all expressions of a group take is bounded also when topics came after they were
// taken: those for which there is no room left keep the topics that they had.
func TestRegexesAreResolvedAsFarAsTheirGroupMayBeHeldUp(t *testing.T) {
	w := newGroupWorld()
	regex := func(i int) string { return fmt.Sprintf("%c-%s", 'a'+i, strings.Repeat("x?", 500)) }
	beat := func(i int) {
		r := &ConsumerHeartbeatRequest{Group: scriptGroup, MemberID: fmt.Sprint("m", i), RebalanceTimeoutMs: 1000, Owned: []TopicPartitions{}}
		if g := w.entry().consumer(); g != nil && g.members[r.MemberID] != nil {
			r.MemberEpoch, r.Owned = g.members[r.MemberID].epoch, nil
		} else {
			text := regex(i)
			r.Regex = &text
		}
		w.call(func() step {
			return w.shard.consumerHeartbeat(w.now, w.entry(), r, func(_ ConsumerHeartbeat, err error) {
				if err != nil {
					t.Fatal(err)
				}
			})
		})
	}
	for i := range 3 {
		w.topic(fmt.Sprintf("%c-x", 'a'+i), 1)
	}
	for i := range 3 {
		beat(i)
		w.now = w.now.Add(2 * regexMinRefresh)
	}
	beat(0)
	for i := range 150 {
		w.topic(fmt.Sprintf("topic-%d-%s", i, strings.Repeat("z", 240)), 1)
	}
	for i := range 3 {
		w.topic(fmt.Sprintf("%c-xx", 'a'+i), 1)
	}
	if n := regexSteps(regex(0), w.env.topics.names()); 2*n > MaxRegexSteps || 3*n <= MaxRegexSteps {
		t.Fatalf("one takes %d steps, want room for two of %d", n, MaxRegexSteps)
	}
	w.now = w.now.Add(2 * regexMinRefresh)
	beat(0)
	g := w.entry().consumer()
	for i, want := range [][]string{{"a-x", "a-xx"}, {"b-x", "b-xx"}, {"c-x"}} {
		if r := g.regexes[regex(i)]; r == nil || !slices.Equal(r.topics, want) {
			t.Errorf("topics of %s…: got %+v, want %q", regex(i)[:3], r, want)
		}
	}
}
