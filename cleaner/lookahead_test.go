package cleaner

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"

	"github.com/kaen-log/gateway/storage/record"
)

// oneByOne returns an iterator over records of these keys, which stand in one place one after another as in the window of
// a decompressor, and counts how many are read. At the end it yields fault, unless that is nil.
func oneByOne(keys []string, fault error, read *int) iter.Seq2[record.Keyed, error] {
	return func(yield func(record.Keyed, error) bool) {
		window := make([]byte, 1<<20)
		for i, key := range keys {
			*read++
			r := record.Keyed{Offset: int64(i), Key: window[:copy(window, key)], NoValue: i%3 != 0}
			if i%5 == 0 {
				r.Key = nil
			}
			if !yield(r, nil) {
				return
			}
			clear(window)
		}
		if fault != nil {
			yield(record.Keyed{}, fault)
		}
	}
}

func TestLookaheadGivesEachRecordAsItCame(t *testing.T) {
	keys := keysOfAllKinds(rand.New(rand.NewPCG(1, 0)), 1100)
	for _, n := range []int{0, 1, 31, 32, 33, 64, 1100} {
		for _, fault := range []error{nil, errors.New("damage")} {
			var a lookahead
			m := newOffsetMap(1<<20, 0.9)
			m.reset(2000, 100)
			put := map[string]int64{}
			for i, key := range keys {
				if m.put(m.wanted([]byte(key)), int64(i)) {
					put[key] = int64(i)
				}
			}
			read, got := 0, 0
			var end error
			for k, err := range a.records(m, oneByOne(keys[:n], fault, &read)) {
				if err != nil {
					end = err
					continue
				}
				if k.offset != int64(got) || k.noKey != (got%5 == 0) || k.noValue != (got%3 != 0) {
					t.Fatalf("%d records: got %+v, want the one at %d", n, k, got)
				}
				want, known := put[keys[got]]
				if at, found := m.get(k.wanted); !k.noKey && (at != want || found != known) {
					t.Errorf("%d records: %q: got %d, %v, want %d, %v", n, keys[got], at, found, want, known)
				}
				got++
			}
			if got != n || read != n || end != fault {
				t.Errorf("%d records: got %d and %v, want all and %v", n, got, end, fault)
			}
		}
	}
}

func TestLookaheadStopsWhenItIsTold(t *testing.T) {
	for stop := range 40 {
		var a lookahead
		m := newOffsetMap(1<<20, 0.9)
		m.reset(100, 0)
		got, read := 0, 0
		for k, err := range a.records(m, oneByOne(make([]string, 40), errors.New("damage"), &read)) {
			if err != nil || k.offset != int64(got) {
				t.Fatalf("got %+v, %v, want the record at %d", k, err, got)
			}
			if got == stop {
				break
			}
			got++
		}
		if want := min(stop/32*32+32, 40); got != stop || read != want {
			t.Errorf("stopped at %d of 40 records, %d of them read, want %d and %d", got, read, stop, want)
		}
	}
}

// Long keys are copied, so there is a bound to how many are at hand.
func TestLookaheadHoldsFewLongKeys(t *testing.T) {
	var keys []string
	for i := range 20 {
		keys = append(keys, fmt.Sprintf("%0*d", longAhead/2, i))
	}
	var a lookahead
	m := newOffsetMap(1<<20, 0.9)
	m.reset(100, 0)
	read, got := 0, 0
	for range a.records(m, oneByOne(keys, nil, &read)) {
		if got++; read > got+2 {
			t.Errorf("%d records are read when %d were given, want no more than 3 at hand", read, got)
		}
	}
	if got != 20 {
		t.Errorf("%d records, want 20", got)
	}
}
