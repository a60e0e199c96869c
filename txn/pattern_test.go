package txn

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestPatternsMatchWholeIDs(t *testing.T) {
	ids := []string{"", "a", "ab", "abc", "b\na", "x)(y", "ba"}
	for _, c := range []struct {
		pattern string
		want    []string
	}{
		{"", ids},
		{"a", []string{"a"}},
		{"a|ab", []string{"a", "ab"}},
		{"ab|a", []string{"a", "ab"}},
		{"a|b|ab|ba", []string{"a", "ab", "ba"}},
		{"a*?", []string{"", "a"}},
		{`\Qx)(y`, []string{"x)(y"}},
		{`b.a`, nil},
		{`(?s)b.a`, []string{"b\na"}},
		{`(?m)a$`, []string{"a"}},
		{`^a$`, []string{"a"}},
	} {
		p, err := compilePattern(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		var all []Listed
		for _, id := range ids {
			all = append(all, Listed{TransactionalID: id})
		}
		kept, err := p.keep(all)
		var got []string
		for _, l := range kept {
			got = append(got, l.TransactionalID)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, %v; want %q", c.pattern, got, err, c.want)
		}
	}
}

func TestPatternsAreRefused(t *testing.T) {
	for _, text := range []string{"(", "a)(b", "(?=a)", `\1`, "a**", strings.Repeat("a", MaxPatternBytes+1)} {
		if _, err := compilePattern(text); !errors.Is(err, ErrInvalidRegex) {
			t.Errorf("%.20q: %v, want ErrInvalidRegex", text, err)
		}
	}
	p, err := compilePattern(strings.Repeat("a{1000}", 100))
	if err != nil {
		t.Fatal(err)
	}
	all := make([]Listed, 100)
	for i := range all {
		all[i].TransactionalID = strings.Repeat("a", 100)
	}
	if _, err := p.keep(all); !errors.Is(err, ErrInvalidRegex) {
		t.Errorf("%d instructions for 10,000 bytes: %v, want ErrInvalidRegex", p.instructions, err)
	}
	if kept, err := p.keep(all[:1]); len(kept) != 0 || err != nil {
		t.Errorf("%d instructions for 100 bytes: %v, %v; want no match", p.instructions, kept, err)
	}
}
