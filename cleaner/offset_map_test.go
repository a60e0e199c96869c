package cleaner

import (
	"bytes"
	"hash/maphash"
	"math/rand/v2"
	"strings"
	"testing"
)

// collisions are hashes that are right however they collide.
var collisions = map[string]func(maphash.Seed, []byte) uint64{
	"none":      maphash.Bytes,
	"all":       func(maphash.Seed, []byte) uint64 { return 7 },
	"at end":    func(maphash.Seed, []byte) uint64 { return 1<<64 - 1 },
	"3 bits":    func(s maphash.Seed, key []byte) uint64 { return maphash.Bytes(s, key) >> 61 << 61 },
	"home only": func(s maphash.Seed, key []byte) uint64 { return maphash.Bytes(s, key) & (1<<20 - 1) },
}

// taken is what a map has of memory.
func (m *offsetMap) taken() int64 {
	sum := int64(cap(m.slots))
	for _, b := range m.long.blocks {
		sum += int64(cap(b))
	}
	for _, b := range m.long.spare {
		sum += int64(cap(b))
	}
	return sum
}

// keysOfAllKinds returns different keys of lengths about those at which their form changes, of few different bytes: many
// begin as others do, end in zeros, or differ in a single byte.
func keysOfAllKinds(r *rand.Rand, n int) []string {
	seen := map[string]bool{}
	var keys []string
	for len(keys) < n {
		key := make([]byte, []int{0, 1, 2, 7, 8, 9, 15, 16, 17, 18, 24, 36, 116, 117, 135, 136, 137, 1000}[r.IntN(18)])
		if len(keys)%500 == 7 {
			key = make([]byte, blockBytes+100)
		}
		for range r.IntN(12) {
			if len(key) > 0 {
				key[r.IntN(len(key))] = byte(r.IntN(3))
			}
		}
		if len(keys) > 0 && r.IntN(3) == 0 {
			key = append([]byte(keys[r.IntN(len(keys))]), byte(r.IntN(2))) // the zero does not make it the same
		}
		if !seen[string(key)] {
			seen[string(key)] = true
			keys = append(keys, string(key))
		}
	}
	return keys
}

func TestOffsetMapIsAMap(t *testing.T) {
	for name, hash := range collisions {
		t.Run(name, func(t *testing.T) {
			refused, outOfBlocks := 0, 0
			for seed := range uint64(12) {
				r := rand.New(rand.NewPCG(seed, 0))
				keys := keysOfAllKinds(r, 1500)
				limit := []int64{0, 1000, 20_000, 150_000, 2_000_000}[seed%5]
				m := newOffsetMap(limit, []float64{0.9, 1, 0.3}[seed%3])
				m.hash = hash
				for round := range 3 {
					m.reset(r.Int64N(3000), []float64{0, 20, 1e6}[r.IntN(3)])
					want := map[string]int64{}
					offset := r.Int64N(1000)
					exceeded := int64(0) // by the first key
					for range 3000 {
						offset += r.Int64N(3)
						key := keys[r.IntN(len(keys))]
						_, known := want[key]
						left := m.long.left
						switch ok := m.put(m.wanted([]byte(key)), offset); {
						case ok:
							if want[key] = offset; len(want) == 1 {
								exceeded = max(0, int64(longKeyBytes([]byte(key)))-left)
							}
						case known || m.n < m.most && int64(longKeyBytes([]byte(key))) <= left:
							t.Fatalf("seed %d, round %d: key of %d bytes refused (known: %v) with %d of %d keys and %d bytes left",
								seed, round, len(key), known, m.n, m.most, left)
						case m.n < m.most:
							outOfBlocks++
						default:
							refused++
						}
						if got := m.taken(); got > max(limit, 2*slotBytes)+exceeded {
							t.Fatalf("seed %d, round %d: %d bytes taken of %d, and %d for a first key", seed, round, got, limit, exceeded)
						}
					}
					for _, key := range keys {
						o, ok := want[key]
						if got, found := m.get(m.wanted([]byte(key))); found != ok || got != o {
							t.Fatalf("seed %d, round %d: get %q: %d, %v, want %d, %v", seed, round, key, got, found, o, ok)
						}
					}
					if m.n != len(want) || m.n == 0 {
						t.Errorf("seed %d, round %d: %d keys, want %d", seed, round, m.n, len(want))
					}
				}
				m.reset(100, 0)
				for _, key := range keys {
					if _, found := m.get(m.wanted([]byte(key))); found {
						t.Fatalf("seed %d: %q is left after reset", seed, key)
					}
				}
			}
			if refused == 0 || outOfBlocks == 0 {
				t.Errorf("%d keys were refused for want of slots and %d for want of blocks, want some of each", refused, outOfBlocks)
			}
		})
	}
}

func TestOffsetMapRefusesWhatIsTooFar(t *testing.T) {
	m := newOffsetMap(1000, 0.9)
	m.reset(100, 0)
	if !m.put(m.wanted([]byte("a")), 7) || m.put(m.wanted([]byte("b")), 7+maxRange+1) || !m.put(m.wanted([]byte("c")), 7+maxRange) {
		t.Error("want offsets up to maxRange above the first")
	}
	if m.put(m.wanted([]byte("a")), 7+maxRange+1) {
		t.Error("a known key is taken at an offset that is too far")
	}
	for key, want := range map[string]int64{"a": 7, "c": 7 + maxRange} {
		if got, ok := m.get(m.wanted([]byte(key))); !ok || got != want {
			t.Errorf("%s: got %d, %v, want %d", key, got, ok, want)
		}
	}
}

func TestSmallestOffsetMapTakesAKey(t *testing.T) {
	m := newOffsetMap(0, 0)
	m.reset(100, 0)
	if !m.put(m.wanted(nil), 1) || m.put(m.wanted([]byte("x")), 2) || !m.put(m.wanted(nil), 3) {
		t.Error("want room for one key")
	}
}

// A pass must get beyond any key, so the first is taken however large it is, and nothing for which there is no room after
// it.
func TestOffsetMapTakesALargeKeyOnlyFirst(t *testing.T) {
	for _, size := range []int{2000, blockBytes, 1 << 20} {
		large, another := bytes.Repeat([]byte{1}, size), bytes.Repeat([]byte{2}, size)
		m := newOffsetMap(1000, 0.9)
		for round := range 2 {
			m.reset(100, 0)
			if !m.put(m.wanted(large), 1) || m.put(m.wanted(another), 2) || m.put(m.wanted(another[:17]), 2) || !m.put(m.wanted(another[:16]), 3) || !m.put(m.wanted(large), 4) {
				t.Errorf("%d bytes, round %d: want the large key, and then only what takes no block", size, round)
			}
			if got, ok := m.get(m.wanted(large)); !ok || got != 4 {
				t.Errorf("%d bytes, round %d: got %d, %v, want 4", size, round, got, ok)
			}
			if got, most := m.taken(), int64(1000+longKeyBytes(large)); got > most {
				t.Errorf("%d bytes, round %d: %d bytes are taken, want at most %d", size, round, got, most)
			}
			m.reset(100, 0)
			if !m.put(m.wanted(another[:16]), 1) || m.put(m.wanted(large), 2) {
				t.Errorf("%d bytes, round %d: want the large key refused where it is not the first", size, round)
			}
			if got := m.taken(); got > 1000 {
				t.Errorf("%d bytes, round %d: %d bytes are taken after the large key, want at most 1000", size, round, got)
			}
		}
	}
}

func TestOffsetMapKeepsAFreeSlot(t *testing.T) {
	m := newOffsetMap(8*slotBytes+8, 1) // the rest is for blocks
	m.reset(100, 0)
	for i := range 8 {
		if ok := m.put(m.wanted([]byte{byte(i)}), int64(i)); ok != (i < 7) {
			t.Errorf("key %d of 8 slots: taken %v", i, ok)
		}
	}
	if _, ok := m.get(m.wanted([]byte("another"))); ok {
		t.Error("a key that was not put is found")
	}
}

// fullOf puts keys of this length until one is refused, and returns how many were taken.
func fullOf(m *offsetMap, length int) int {
	key := bytes.Repeat([]byte{'k'}, length)
	for n := 0; ; n++ {
		for i, rest := 0, n; i < 8; i, rest = i+1, rest/256 {
			key[i] = byte(rest)
		}
		if !m.put(m.wanted(key), int64(n)) {
			return n
		}
	}
}

// The room is divided between slots and blocks by a guess. A good one leaves neither much of what the other lacks; with the
// worst there is room for enough keys that a pass is worth its while.
func TestOffsetMapDividesItsRoom(t *testing.T) {
	const limit = 16 << 20
	m := newOffsetMap(limit, 0.9)
	for _, c := range []struct {
		what    string
		keys    int64
		guess   float64
		length  int
		atLeast float64
	}{
		{"short keys", 1 << 40, 0, 16, 0.98 * 0.9 * limit / 20},
		{"long keys", 1 << 40, 29, 36, 0.98 * limit / (20/0.9 + 29)},
		{"very long keys", 1 << 40, 994, 1000, 0.74 * limit / (20/0.9 + 994)},
		{"long keys, which come as a surprise", 1 << 40, 0, 36, limit / 64 / 30},
		{"short keys, which come as a surprise", 1 << 40, 1e9, 16, 0.24 * 0.9 * limit / 20},
		{"few short keys", 1000, 0, 16, 1000},
		{"few long keys", 1000, 0, 1000, 1000},
		{"few large keys", 1000, 0, 20_000, 0.65 * limit / 20_000}, // beside the slots that are there from before
	} {
		m.reset(c.keys, c.guess)
		if got := fullOf(m, c.length); float64(got) < c.atLeast {
			t.Errorf("%s: room for %d, want %.0f", c.what, got, c.atLeast)
		}
		if got := m.taken(); got > limit {
			t.Errorf("%s: %d bytes taken of %d", c.what, got, limit)
		}
	}
}

// What a pass needed is kept for the next, as far as that has no other need.
func TestOffsetMapKeepsItsMemory(t *testing.T) {
	const limit = 2 << 20
	m := newOffsetMap(limit, 0.9)
	m.reset(50_000, 0)
	fullOf(m, 1000)
	slots, blocks := &m.slots[0], len(m.long.blocks)
	m.reset(10, 29)
	if &m.slots[0] != slots || len(m.long.spare) != blocks-1 { // the last was smaller
		t.Errorf("%d of %d blocks are kept, and of the slots: %v", len(m.long.spare), blocks, &m.slots[0] == slots)
	}
	if !m.put(m.wanted(make([]byte, 17)), 1) || len(m.long.spare) != blocks-2 {
		t.Errorf("%d blocks are spare of %d when one is needed", len(m.long.spare), blocks-1)
	}
	if !m.put(m.wanted(make([]byte, 300_000)), 1) || m.taken() > limit {
		t.Errorf("%d bytes are taken with a large key, want it taken and at most %d", m.taken(), limit)
	}
	m.reset(10, 0)
	if got := m.taken(); got != int64(cap(m.slots)+len(m.long.spare)*blockBytes) {
		t.Errorf("%d bytes are kept in slots of %d and %d blocks, want these of one size", got, cap(m.slots), len(m.long.spare))
	}
	m.reset(1<<40, 0)
	if m.taken() > limit || len(m.long.spare) > 0 {
		t.Errorf("%d bytes are taken, and %d blocks are spare, where the slots need them", m.taken(), len(m.long.spare))
	}
}

// Each pass has a hash of its own.
func TestOffsetMapDrawsItsHashAnew(t *testing.T) {
	m := newOffsetMap(1000, 0.9)
	seen := map[uint64]bool{}
	for range 3 {
		m.reset(100, 0)
		seen[m.hash(m.seed, []byte("key"))] = true
	}
	if len(seen) != 3 {
		t.Errorf("%d different hashes in 3 passes, want 3", len(seen))
	}
}

func TestOffsetMapBoundsItself(t *testing.T) {
	if got := newOffsetMap(1<<40, 0.9).bytes; got != 2<<30 {
		t.Errorf("a map of %d bytes, want 2 GiB", got)
	}
	if n := longKeyBytes([]byte(strings.Repeat("x", 127))); n != 120 {
		t.Errorf("a key of 127 bytes takes %d of blocks, want 120", n)
	}
	if n := longKeyBytes([]byte(strings.Repeat("x", 128))); n != 122 {
		t.Errorf("a key of 128 bytes takes %d of blocks, want 122", n)
	}
}
