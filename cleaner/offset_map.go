package cleaner

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math/bits"
)

// slotBytes is the size of a slot of an offsetMap: 11 bytes of the hash of a key, and 5 of an offset.
const slotBytes = 16

// maxRange is how far above the first offset of an offsetMap an offset may be.
const maxRange = 1<<40 - 2

// An offsetMap notes the last offset of each key within a range of offsets, in 16 bytes a key. Keys are known by their
// hash, which is keyed with a secret that each map draws anew: 88 bits of it in the slot, and where the slot is. For one
// key to pass for another it must agree in all 88 and stand within a few slots of where the other is looked for. With 50
// million keys that happens once in about 10^18 passes, and nobody can bring it about. Kafka: SkimpyOffsetMap, which has 24
// bytes a key and no secret.
type offsetMap struct {
	largest int64   // slots that it may have
	load    float64 // share of the slots that is used

	slots []byte
	most  int // keys that it may hold
	n     int
	base  int64 // the first offset; the others are stored relative to it
	hash  func(key []byte) (high, low uint64)
}

// newOffsetMap returns a map that takes at most so many bytes, of which the share load is used.
func newOffsetMap(bytes int64, load float64) *offsetMap {
	return &offsetMap{largest: max(bytes/slotBytes, 2), load: load}
}

// reset empties the map and makes it large enough for that many keys, as far as its bound allows.
func (m *offsetMap) reset(keys int64) {
	slots := m.largest
	if n := float64(keys)/max(m.load, 0.01) + 2; n < float64(slots) {
		slots = int64(n)
	}
	if int64(cap(m.slots)) < slots*slotBytes {
		m.slots = make([]byte, slots*slotBytes)
	} else {
		m.slots = m.slots[:slots*slotBytes]
		clear(m.slots)
	}
	m.n, m.most = 0, max(1, min(int(float64(slots)*m.load), int(slots)-1))
	a, b := maphash.MakeSeed(), maphash.MakeSeed()
	m.hash = func(key []byte) (high, low uint64) { return maphash.Bytes(a, key), maphash.Bytes(b, key) }
}

// put notes the offset of a key, which must not be below one noted before. It returns false, and notes nothing, when the
// map is full or the offset too far from the first.
func (m *offsetMap) put(key []byte, offset int64) bool {
	if m.n == 0 {
		m.base = offset
	}
	if offset < m.base {
		panic(fmt.Sprintf("cleaner: offset %d in a map from %d on", offset, m.base))
	}
	if offset-m.base > maxRange {
		return false
	}
	slot, high, low, found := m.find(key)
	if !found {
		if m.n >= m.most {
			return false
		}
		m.n++
		binary.LittleEndian.PutUint64(slot, low)
	}
	binary.LittleEndian.PutUint64(slot[8:], high&tagMask|uint64(offset-m.base+1)<<tagBits)
	return true
}

// get returns the last offset of a key; false when it has none.
func (m *offsetMap) get(key []byte) (int64, bool) {
	slot, _, _, found := m.find(key)
	if !found {
		return 0, false
	}
	return m.base + int64(binary.LittleEndian.Uint64(slot[8:])>>tagBits) - 1, true
}

// Of the second half of a slot the lower 24 bits are of the hash, and the upper 40 are the offset relative to base, plus
// one: zero means that the slot is free.
const (
	tagBits = 24
	tagMask = 1<<tagBits - 1
)

// find returns the slot of a key, or the free one that is for it, and the key's hash.
func (m *offsetMap) find(key []byte) (slot []byte, high, low uint64, found bool) {
	high, low = m.hash(key)
	count := uint64(len(m.slots) / slotBytes)
	at, _ := bits.Mul64(high, count) // by the upper bits; the lower are in the slot
	for {
		slot = m.slots[at*slotBytes : (at+1)*slotBytes]
		second := binary.LittleEndian.Uint64(slot[8:])
		if second>>tagBits == 0 {
			return slot, high, low, false
		}
		if binary.LittleEndian.Uint64(slot) == low && second&tagMask == high&tagMask {
			return slot, high, low, true
		}
		if at++; at == count {
			at = 0
		}
	}
}
