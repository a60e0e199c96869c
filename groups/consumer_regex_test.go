package groups

import (
	"errors"
	"fmt"
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
