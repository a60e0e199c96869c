package wire

import "github.com/twmb/franz-go/pkg/kerr"

// mostRepeated is how many bytes an answer may say again.
const mostRepeated = 4 << 20

// repeats is how many bytes an answer may still say again; below 0, no more. Kafka answers for a group or an offset as
// often as a request names it, so that a small request could ask for gigabytes. Differs from Kafka: what is named again
// when there is no room for it is answered with errRepeated, and so is all that is named again after it, unless it is small.
type repeats int

func newRepeats() repeats { return mostRepeated }

var errRepeated = detail(kerr.InvalidRequest, "named too often in one request")

// freeRepeat is up to how many bytes, twice its name aside, what is named may be said as often as it is named: it is in
// proportion to the request. So errors are, and groups without members.
const freeRepeat = 128

// answered is a part of an answer that may be asked for again.
type answered struct {
	at   int // its index
	size int // in bytes, about
}

// take reports whether a part that is asked for by a name may be said again.
func (p *repeats) take(a *answered, name string) bool {
	return a.size <= freeRepeat+2*len(name) || p.takeBytes(a.size)
}

// takeBytes reports whether n bytes may be said again.
func (p *repeats) takeBytes(n int) bool {
	*p = max(*p-repeats(n), -1)
	return *p >= 0
}

// describeEach describes each group once and answers for it as often as it is named. size tells how many bytes a
// description takes, about; refuse tells that a group is named too often. An error drops the connection.
func describeEach[G any](r *request, names []string, describe func(name string) G, size func(*G) int, refuse func(name string) G) ([]G, error) {
	out := make([]G, 0, len(names))
	first := make(map[string]*answered)
	left := newRepeats()
	for _, name := range names {
		said := first[name]
		switch {
		case said == nil:
			g := describe(name)
			said = &answered{at: len(out), size: size(&g)}
			first[name], out = said, append(out, g)
		case left.take(said, name):
			out = append(out, out[said.at])
		default:
			g := refuse(name)
			said, out = &answered{size: size(&g)}, append(out, g)
		}
		if err := r.answerGrows(said.size); err != nil {
			return nil, err
		}
	}
	return out, nil
}
