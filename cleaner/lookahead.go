package cleaner

import (
	"iter"

	"github.com/kaen-log/gateway/storage/record"
)

// lookahead reads some records before it gives them to whom looks their keys up in an offsetMap, and fetches their slots
// meanwhile. A large map is seldom in the caches of the processor. It waits for several slots as long as for one.
type lookahead struct {
	keys    [32]keyed
	n       int
	long    []byte // bytes of the long keys among them
	fetched byte   // of no meaning: it makes the fetching a use of the slots
}

// longAhead is how many bytes of long keys are enough to look no further.
const longAhead = 1 << 16

// keyed is what counts of a record.
type keyed struct {
	offset         int64
	noKey, noValue bool
	size           int // of the whole record
	wanted         wanted
}

// records iterates over what counts of records. An error comes in its place, as the last step. A step is valid until the
// next.
func (a *lookahead) records(m *offsetMap, records iter.Seq2[record.Keyed, error]) iter.Seq2[*keyed, error] {
	return func(yield func(*keyed, error) bool) {
		a.n, a.long = 0, a.long[:0]
		for r, err := range records {
			if err != nil {
				if a.give(m, yield) {
					yield(nil, err)
				}
				return
			}
			k := &a.keys[a.n]
			a.n++
			*k = keyed{offset: r.Offset, noKey: r.Key == nil, noValue: r.NoValue, size: r.Size, wanted: m.wanted(r.Key)}
			if len(r.Key) > shortKey {
				a.long = append(a.long, r.Key...)
				k.wanted.key = a.long[len(a.long)-len(r.Key):]
			}
			if (a.n == len(a.keys) || len(a.long) >= longAhead) && !a.give(m, yield) {
				return
			}
		}
		a.give(m, yield)
	}
}

// give yields what was read ahead; false when yield has had enough.
func (a *lookahead) give(m *offsetMap, yield func(*keyed, error) bool) bool {
	keys := a.keys[:a.n]
	a.n, a.long = 0, a.long[:0]
	for i := range keys {
		a.fetched += m.slots[keys[i].wanted.home*slotBytes]
	}
	for i := range keys {
		if !yield(&keys[i], nil) {
			return false
		}
	}
	return true
}
