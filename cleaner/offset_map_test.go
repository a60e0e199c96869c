package cleaner

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestOffsetMapIsAMap(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		m := newOffsetMap(slotBytes*(2+r.Int64N(2000)), 0.9)
		m.reset(1 << 40)
		if seed%3 != 0 { // many keys in few places, that differ in one half of what a slot has of their hash
			m.hash = func(key []byte) (high, low uint64) {
				var n uint64
				fmt.Sscan(string(key), &n)
				if seed%3 == 1 {
					return n << 62, n
				}
				return n<<62 | n, 7
			}
		}
		want := map[string]int64{}
		full := 0
		offset := int64(r.IntN(1000))
		for range 5000 {
			offset += int64(r.IntN(3))
			key := fmt.Sprint(r.IntN(3000))
			_, known := want[key]
			ok := m.put([]byte(key), offset)
			if ok != (known || len(want) < m.most) {
				t.Fatalf("seed %d: put of %q with %d of %d keys: %v", seed, key, len(want), m.most, ok)
			}
			if ok {
				want[key] = offset
			} else {
				full++
			}
		}
		for i := range 3000 {
			key := fmt.Sprint(i)
			o, ok := want[key]
			if got, found := m.get([]byte(key)); found != ok || got != o {
				t.Errorf("seed %d: get %q: %d, %v, want %d, %v", seed, key, got, found, o, ok)
			}
		}
		if m.n != len(want) || (m.most < 3000) != (full > 0) {
			t.Errorf("seed %d: %d keys of at most %d, %d refused, want %d keys", seed, m.n, m.most, full, len(want))
		}
		m.reset(100)
		if _, found := m.get([]byte("1")); found || m.n != 0 {
			t.Errorf("seed %d: a key is left after reset", seed)
		}
	}
}

func TestOffsetMapRefusesWhatIsTooFar(t *testing.T) {
	m := newOffsetMap(1000, 0.9)
	m.reset(100)
	if !m.put([]byte("a"), 7) || m.put([]byte("b"), 7+maxRange+1) || !m.put([]byte("c"), 7+maxRange) {
		t.Error("want offsets up to maxRange above the first")
	}
	if got, ok := m.get([]byte("c")); !ok || got != 7+maxRange {
		t.Errorf("c: got %d, %v, want %d", got, ok, int64(7+maxRange))
	}
}

func TestSmallestOffsetMapTakesAKey(t *testing.T) {
	m := newOffsetMap(0, 0)
	m.reset(100)
	if !m.put(nil, 1) || m.put([]byte("x"), 2) || !m.put(nil, 3) {
		t.Error("want room for one key")
	}
}

func TestOffsetMapKeepsAFreeSlot(t *testing.T) {
	m := newOffsetMap(8*slotBytes, 1)
	m.reset(100)
	for i := range 8 {
		if ok := m.put([]byte{byte(i)}, int64(i)); ok != (i < 7) {
			t.Errorf("key %d of 8 slots: taken %v", i, ok)
		}
	}
	if _, ok := m.get([]byte("another")); ok {
		t.Error("a key that was not put is found")
	}
}

// The halves of a hash are of different seeds, and each pass has its own.
func TestOffsetMapDrawsItsHashAnew(t *testing.T) {
	m := newOffsetMap(1000, 0.9)
	seen := map[uint64]bool{}
	for range 3 {
		m.reset(100)
		high, low := m.hash([]byte("key"))
		seen[high], seen[low] = true, true
	}
	if len(seen) != 6 {
		t.Errorf("%d different halves of 3 hashes, want 6", len(seen))
	}
}
