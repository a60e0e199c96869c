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

// take reports whether what body says may be said again.
func (p *repeats) take(body response) bool { return *p >= 0 && p.takeBytes(len(body.AppendTo(nil))) }

// takeBytes reports whether n bytes may be said again.
func (p *repeats) takeBytes(n int) bool {
	*p = max(*p-repeats(n), -1)
	return *p >= 0
}

// describeEach describes each group once and answers for it as often as it is named. body is an answer with such
// descriptions; refuse tells that a group is named too often.
func describeEach[G any](names []string, describe func(name string) G, body func(...G) response, refuse func(name string) G) []G {
	out := make([]G, len(names))
	first := make(map[string]int, len(names))
	left := newRepeats()
	for i, name := range names {
		at, again := first[name]
		switch {
		case !again:
			first[name], out[i] = i, describe(name)
		case left.take(body(out[at])):
			out[i] = out[at]
		default:
			out[i] = refuse(name)
		}
	}
	return out
}
