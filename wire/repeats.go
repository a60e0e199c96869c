package wire

import "github.com/twmb/franz-go/pkg/kerr"

// mostRepeated is how many bytes an answer may say again.
const mostRepeated = 4 << 20

// repeats is how many bytes an answer may still say again; below 0, no more. Kafka answers for a group or an offset as
// often as a request names it, so that a small request could ask for gigabytes. Differs from Kafka: what is named again
// when there is no room for it is answered with errRepeated, and so is all that is named again after it.
type repeats int

func newRepeats() repeats { return mostRepeated }

var errRepeated = detail(kerr.InvalidRequest, "named too often in one request")

// answered is a part of an answer that may be asked for again.
type answered struct {
	at   int // its index
	size int // in bytes, 0 until it is asked for again
}

// take reports whether a part may be said again. body is an answer of nothing but the part at an index.
func (p *repeats) take(a *answered, body func(at int) response) bool {
	if *p >= 0 && a.size == 0 {
		a.size = len(body(a.at).AppendTo(nil))
	}
	return *p >= 0 && p.takeBytes(a.size)
}

// takeBytes reports whether n bytes may be said again.
func (p *repeats) takeBytes(n int) bool {
	*p = max(*p-repeats(n), -1)
	return *p >= 0
}

// describeEach describes each group once and answers for it as often as it is named. body is an answer with such
// descriptions; refuse tells that a group is named too often.
func describeEach[G any](names []string, describe func(name string) G, body func(...G) response, refuse func(name string) G) []G {
	out := make([]G, len(names))
	first := make(map[string]*answered)
	left := newRepeats()
	for i, name := range names {
		before := first[name]
		switch {
		case before == nil:
			first[name], out[i] = &answered{at: i}, describe(name)
		case left.take(before, func(at int) response { return body(out[at]) }):
			out[i] = out[before.at]
		default:
			out[i] = refuse(name)
		}
	}
	return out
}
