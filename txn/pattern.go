package txn

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

// A regular expression is matched against every transactional id, which takes as many steps
// as it has instructions for each byte of an id. Differs from Kafka: what it may take is
// bounded.
const (
	MaxPatternBytes = 4 << 10
	MaxPatternSteps = 100_000_000
)

// pattern matches whole texts. The zero value matches all.
type pattern struct {
	re           *regexp.Regexp
	instructions int
}

// compilePattern compiles a regular expression; "" is the zero value. Error: ErrInvalidRegex.
func compilePattern(text string) (pattern, error) {
	if text == "" {
		return pattern{}, nil
	}
	if len(text) > MaxPatternBytes {
		return pattern{}, fmt.Errorf("%w: %d bytes, want at most %d", ErrInvalidRegex, len(text), MaxPatternBytes)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return pattern{}, fmt.Errorf("%w: %w", ErrInvalidRegex, err)
	}
	re.Longest() // so that what matches a whole text is found to
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return pattern{}, fmt.Errorf("%w: %w", ErrInvalidRegex, err)
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return pattern{}, fmt.Errorf("%w: %w", ErrInvalidRegex, err)
	}
	return pattern{re, len(prog.Inst)}, nil
}

// keep returns those of the ids that match, in the place of all. Error: ErrInvalidRegex for
// a pattern that takes too many steps.
func (p pattern) keep(all []Listed) ([]Listed, error) {
	if p.re == nil {
		return all, nil
	}
	bytes := 0
	for _, l := range all {
		bytes += len(l.TransactionalID)
	}
	if steps := p.instructions * bytes; steps > MaxPatternSteps {
		return nil, fmt.Errorf("%w: it takes %d steps for %d ids, want at most %d", ErrInvalidRegex, steps, len(all), MaxPatternSteps)
	}
	kept := all[:0]
	for _, l := range all {
		if at := p.re.FindStringIndex(l.TransactionalID); at != nil && at[1]-at[0] == len(l.TransactionalID) {
			kept = append(kept, l)
		}
	}
	return kept, nil
}
