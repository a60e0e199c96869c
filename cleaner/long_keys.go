package cleaner

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// longKeys holds the keys of an offsetMap that are too long for a slot: each as its length, a varint, and all but its last
// 8 bytes, which the slot has. They stand one after another in blocks of blockBytes. The last block that there is room for
// may be smaller, and a key that is larger has a block for itself.
type longKeys struct {
	blocks [][]byte // the last is being filled
	spare  [][]byte // empty ones
	left   int64    // bytes that may become blocks, spare ones included
}

const blockBytes = 1 << 16

// longKeyBytes returns what longKeys takes for a key.
func longKeyBytes(key []byte) int {
	if len(key) <= shortKey {
		return 0
	}
	return (bits.Len(uint(len(key)))+6)/7 + len(key) - 8
}

// reset forgets the keys, and lets go of the blocks for which so many bytes leave no room.
func (k *longKeys) reset(left int64) {
	all := append(k.spare, k.blocks...)
	kept := all[:0]
	for _, b := range all {
		if cap(b) == blockBytes && int64(len(kept)+1)*blockBytes <= left {
			kept = append(kept, b[:0])
		}
	}
	clear(all[len(kept):])
	clear(k.blocks)
	k.blocks, k.spare, k.left = k.blocks[:0], kept, left
}

// add notes a key and returns where: the block in the upper half, the place in it in the lower. It returns false when there
// is no room, unless anyway is set.
func (k *longKeys) add(key []byte, anyway bool) (at uint32, ok bool) {
	need := longKeyBytes(key)
	i := len(k.blocks) - 1
	if i < 0 || cap(k.blocks[i])-len(k.blocks[i]) < need {
		size := max(int64(need), min(blockBytes, k.left))
		if size > k.left && !anyway {
			return 0, false
		}
		k.addBlock(size)
		i++
	}
	b := k.blocks[i]
	at = uint32(i)<<16 | uint32(len(b))
	b = binary.AppendUvarint(b, uint64(len(key)))
	k.blocks[i] = append(b, key[:len(key)-8]...)
	return at, true
}

// addBlock makes a block of this size, or takes a spare one.
func (k *longKeys) addBlock(size int64) {
	k.left -= size
	if n := len(k.spare); n > 0 && size == blockBytes {
		k.blocks, k.spare = append(k.blocks, k.spare[n-1]), k.spare[:n-1]
		return
	}
	for n := len(k.spare); n > 0 && int64(n)*blockBytes > k.left; n-- {
		k.spare[n-1] = nil
		k.spare = k.spare[:n-1]
	}
	k.blocks = append(k.blocks, make([]byte, 0, size))
}

// is reports whether the key that was noted there is this one, of which the last 8 bytes are known to agree.
func (k *longKeys) is(at uint32, key []byte) bool {
	b := k.blocks[at>>16][at&(1<<16-1):]
	length, n := binary.Uvarint(b)
	return length == uint64(len(key)) && bytes.Equal(b[n:n+len(key)-8], key[:len(key)-8])
}
