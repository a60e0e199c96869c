package groups

import (
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"time"
)

// regexMinRefresh is how long the regular expressions of a group are not resolved
// again. Kafka: REGEX_BATCH_REFRESH_MIN_INTERVAL_MS.
const regexMinRefresh = 10 * time.Second

// setRegex notes what follows from a member's regular expression: changed says that it
// is another than before; resolved, that its topics are known already, so that a new
// target can be made at once. A new expression is resolved after the heartbeat that
// brings it, in a step of its own: the member gets its partitions with a later one.
// Kafka: GroupMetadataManager.maybeUpdateRegularExpressions.
func (c *consumerChange) setRegex(old, m *consumerMember, maySee func(string) bool) (changed, resolved bool, err error) {
	g := c.g
	before, after := g.regexMembers, g.regexMembers
	fresh := false
	if old.regex != m.regex {
		changed = true
		after = maps.Clone(before)
		countRegex(after, old.regex, -1)
		countRegex(after, m.regex, 1)
		if old.regex != "" && before[old.regex] == 1 {
			c.add(typeConsumerResolvedRegex, old.regex, nil)
		}
		switch {
		case m.regex == "":
			resolved = true
		case before[m.regex] == 0:
			if err := checkRegex(m.regex, after, g.env.topics.names()); err != nil {
				return false, false, err
			}
			fresh = true
		default:
			resolved = g.regexes[m.regex] != nil
		}
	}
	if len(after) > 0 && (fresh || len(before) > 0) && g.mustResolve(c.now, after, fresh) {
		regexes := slices.Sorted(maps.Keys(after))
		c.follows = func(now time.Time) step { return g.resolve(now, regexes, maySee) }
	}
	return changed, resolved, nil
}

// A regular expression is matched against every topic, which takes as many steps as it has instructions for each byte
// of a name, while the group waits. Differs from Kafka: what a group's expressions may take is bounded.
const (
	MaxRegexBytes = 4 << 10
	MaxRegexSteps = 100_000_000
)

// checkRegex says whether a new regular expression compiles, and whether the group's can be matched in time. Errors:
// ErrInvalidRegex.
func checkRegex(regex string, all map[string]int, names []string) error {
	if n := len(regex); n > MaxRegexBytes {
		return fmt.Errorf("regular expression of %d bytes, want at most %d: %w", n, MaxRegexBytes, ErrInvalidRegex)
	}
	if _, err := regexp.Compile(regex); err != nil {
		return fmt.Errorf("%v: %w", err, ErrInvalidRegex)
	}
	steps := 0
	for r := range all {
		steps += regexSteps(r, names)
	}
	if steps > MaxRegexSteps {
		return fmt.Errorf("regular expressions that take %d steps for the %d topics, want at most %d: %w", steps, len(names), MaxRegexSteps, ErrInvalidRegex)
	}
	return nil
}

// regexSteps is the most steps that it can take to match a regular expression against names.
func regexSteps(regex string, names []string) int {
	parsed, err := syntax.Parse(regex, syntax.Perl)
	if err != nil {
		return 0
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0
	}
	bytes := 0
	for _, name := range names {
		bytes += len(name)
	}
	return len(prog.Inst) * bytes
}

// mustResolve says whether the regular expressions are to be resolved again.
func (g *consumerGroup) mustResolve(now time.Time, regexes map[string]int, fresh bool) bool {
	last, ok := g.resolvedTime()
	if ok && !now.After(last.Add(regexMinRefresh)) {
		return false
	}
	return fresh || !ok || len(regexes) != len(g.regexes) ||
		!g.resolvedAt.is(g.env.topics.version()) || now.After(last.Add(g.env.config.RegexRefresh))
}

// resolvedTime is when the regular expressions were last resolved.
func (g *consumerGroup) resolvedTime() (time.Time, bool) {
	for _, r := range g.regexes {
		return time.UnixMilli(r.timeMs), true // all are at once
	}
	return time.Time{}, false
}

// resolve finds the topics that regular expressions match, among those that a member
// may see, and gives the group a new epoch when they are others than before. Kafka:
// TopicRegexResolver, GroupMetadataManager.handleRegularExpressionsResult.
func (g *consumerGroup) resolve(now time.Time, regexes []string, maySee func(string) bool) step {
	c := consumerChange{g: g, now: now, epoch: g.epoch}
	version := g.env.topics.version()
	names := g.env.topics.names()
	if maySee != nil {
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !maySee(name) })
	}
	bump, steps := false, 0
	all := maps.Clone(g.regexes)
	for _, regex := range regexes {
		if g.regexMembers[regex] == 0 {
			continue
		}
		var before []string
		if old := g.regexes[regex]; old != nil {
			before = old.topics
		}
		r := &resolvedRegex{topics: before, version: int64(version), timeMs: now.UnixMilli()}
		// The topics may have become too many since it was checked; then it keeps what it had.
		if n := regexSteps(regex, names); steps+n <= MaxRegexSteps {
			steps += n
			r.topics = matching(regex, names)
		}
		bump = bump || !slices.Equal(before, r.topics)
		all[regex] = r
		c.add(typeConsumerResolvedRegex, regex, r)
	}
	// The hash is of the topics as they will be.
	will := consumerGroup{regexes: all}
	hash := will.subscriptionsOf(g.members).hashTopics(g.env.topics)
	if bump || hash != g.metadataHash {
		c.bump(hash)
	}
	c.later(func(time.Time) {
		g.resolvedAt = topicsVersion{true, version}
		g.hashedAt = g.resolvedAt
	})
	return c.step(func(error) {})
}

// matching returns the names that a regular expression matches as a whole, sorted.
// Kafka uses RE2 too.
func matching(regex string, names []string) []string {
	out := []string{}
	re, err := regexp.Compile(regex) // nothing may be put behind it: it may end within a quotation
	if err != nil {
		return out // read from the log, where another version wrote it
	}
	re.Longest() // so that what matches a whole name is found to
	for _, name := range names {
		if at := re.FindStringIndex(name); at != nil && at[1]-at[0] == len(name) {
			out = append(out, name)
		}
	}
	return sortedSet(out)
}
