package cleaner

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math/bits"
)

// An offsetMap notes the last offset of each key within a range of offsets. It holds the keys themselves and compares
// them: what one key has never passes for another's, whatever their hashes. Kafka: SkimpyOffsetMap, which compares digests
// and has 24 bytes a slot.
//
// The slots are a hash table, in which a key is looked for from its hash on to the first free slot. Its bounds:
//
//   - A slot is 20 bytes. At a load of 0.9 that is 22.2 bytes for each key of up to shortKey bytes.
//   - A longer key has a slot, and the rest of it is in longKeys: 22.2 + 29 bytes for one of 36.
//   - All that takes at most the bytes that the map was given. A first key for which there is no room is noted all the
//     same, or a pass would not get beyond it: then they are exceeded by this one key.
//
// The hash is keyed with a secret that each pass draws anew, so nobody can choose keys that are long to look for.
type offsetMap struct {
	bytes int64   // that it may take
	load  float64 // share of the slots that is used

	slots []byte
	count uint64 // of slots
	most  int    // keys that it may hold
	n     int
	base  int64 // the first offset; the others are stored relative to it
	seed  maphash.Seed
	hash  func(seed maphash.Seed, key []byte) uint64

	long longKeys
}

// A slot, in little-endian order:
//
//	bytes  key of up to 7 bytes   key of 8 to 16 bytes   longer key
//	0-7    the key                the first 8            lower half of the hash; place in longKeys
//	8-15   0                      the last 8             the last 8
//	16-19  what the slot is, 5 bits: 0 for free, 1 + length, or longCode; the offset relative to base, 27 bits
const (
	slotBytes = 20
	shortKey  = 16
	longCode  = shortKey + 2
	codeBits  = 5
	codeMask  = 1<<codeBits - 1

	// maxRange is how far above the first offset of an offsetMap an offset may be.
	maxRange = 1<<(32-codeBits) - 1

	// maxMapBytes is the most that an offsetMap takes: the blocks of longKeys are numbered with 16 bits.
	maxMapBytes = 2 << 30
)

// newOffsetMap returns a map that takes at most so many bytes, up to maxMapBytes, of whose slots the share load is used.
func newOffsetMap(bytes int64, load float64) *offsetMap {
	return &offsetMap{bytes: min(max(bytes, 2*slotBytes), maxMapBytes), load: load, hash: maphash.Bytes}
}

// reset empties the map and makes it large enough for that many keys, as far as its bound allows. longBytes is what a
// key takes of longKeys, on average. It is a guess, by which the bound is divided when it is too small for all keys. As it
// may be wrong, long keys are always left some room, and slots too.
func (m *offsetMap) reset(keys int64, longBytes float64) {
	wanted := float64(keys)/max(m.load, 0.01) + 2
	reserve := min(float64(keys)*longBytes, float64(m.bytes)*m.load*longBytes/(slotBytes+m.load*longBytes))
	reserve = min(max(reserve, float64(m.bytes)/64), float64(m.bytes)*3/4)
	slots := max(int64(min(wanted, (float64(m.bytes)-reserve)/slotBytes)), 2)
	size := slots * slotBytes
	if c := int64(cap(m.slots)); c < size || float64(m.bytes-c) < reserve {
		m.slots = nil
		m.slots = make([]byte, size)
	} else {
		m.slots = m.slots[:size]
		clear(m.slots)
	}
	m.long.reset(m.bytes - int64(cap(m.slots)))
	m.count, m.n, m.most = uint64(slots), 0, max(1, min(int(float64(slots)*m.load), int(slots)-1))
	m.seed = maphash.MakeSeed()
}

// put notes the offset of a key, which must not be below one noted before. It returns false, and notes nothing, when the
// map is full or the offset too far from the first.
func (m *offsetMap) put(w wanted, offset int64) bool {
	if m.n == 0 {
		m.base = offset
	}
	if offset < m.base {
		panic(fmt.Sprintf("cleaner: offset %d in a map from %d on", offset, m.base))
	}
	if offset-m.base > maxRange {
		return false
	}
	slot, found := m.find(w)
	if !found {
		if m.n >= m.most {
			return false
		}
		if w.code == longCode {
			at, ok := m.long.add(w.key, m.n == 0)
			if !ok {
				return false
			}
			w.first |= uint64(at) << 32
		}
		m.n++
		binary.LittleEndian.PutUint64(slot, w.first)
		binary.LittleEndian.PutUint64(slot[8:], w.last)
	}
	binary.LittleEndian.PutUint32(slot[16:], uint32(offset-m.base)<<codeBits|w.code)
	return true
}

// get returns the last offset of a key; false when it has none.
func (m *offsetMap) get(w wanted) (int64, bool) {
	slot, found := m.find(w)
	if !found {
		return 0, false
	}
	return m.base + int64(binary.LittleEndian.Uint32(slot[16:])>>codeBits), true
}

// wanted is a key in the form of its slot.
type wanted struct {
	home        uint64 // the slot from which it is looked for
	first, last uint64
	mask        uint64 // the bits of first that are known beforehand
	code        uint32
	key         []byte // only a long one
}

// wanted returns the form of a key, which is good until the map is reset, and refers to the key when that is a long one.
func (m *offsetMap) wanted(key []byte) wanted {
	h := m.hash(m.seed, key)
	w := wanted{mask: 1<<64 - 1, code: uint32(len(key)) + 1}
	w.home, _ = bits.Mul64(h, m.count) // by the upper bits
	switch n := len(key); {
	case n < 8:
		for _, b := range key {
			w.first = w.first<<8 | uint64(b)
		}
	case n <= shortKey:
		w.first, w.last = binary.LittleEndian.Uint64(key), binary.LittleEndian.Uint64(key[n-8:])
	default:
		w.first, w.last, w.mask = h&(1<<32-1), binary.LittleEndian.Uint64(key[n-8:]), 1<<32-1
		w.code, w.key = longCode, key
	}
	return w
}

// find returns the slot of a key, or the free one that is for it.
func (m *offsetMap) find(w wanted) (slot []byte, found bool) {
	for at := w.home; ; {
		slot = m.slots[at*slotBytes : (at+1)*slotBytes]
		word := binary.LittleEndian.Uint32(slot[16:])
		if word == 0 {
			return slot, false
		}
		first := binary.LittleEndian.Uint64(slot)
		if (first^w.first)&w.mask == 0 && binary.LittleEndian.Uint64(slot[8:]) == w.last && word&codeMask == w.code &&
			(w.code != longCode || m.long.is(uint32(first>>32), w.key)) {
			return slot, true
		}
		if at++; at == m.count {
			at = 0
		}
	}
}
