package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
)

// DecodeError says where bytes of a file format stop making sense. It is what the Decode functions return and
// what tells recovery to rebuild an index.
type DecodeError struct {
	Format   string // "offset index", "producer snapshot", ...
	Position int64  // byte position of the first thing that is wrong
	Line     int    // for text formats, the line that is wrong, from 1; else 0
	Reason   string // what was found and what was expected
	// Padding: all bytes from Position on are zero, which is how other brokers leave room for later appends.
	Padding bool
}

func (e *DecodeError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s: line %d: %s", e.Format, e.Line, e.Reason)
	}
	return fmt.Sprintf("%s: position %d: %s", e.Format, e.Position, e.Reason)
}

const (
	// tailBytes is how much of an index's end stays in memory after it was written: look-ups near the end of a
	// log, which are nearly all of them, read no file.
	tailBytes = 2 << 10
	// indexBlockSize is how much of an index file one step of a search reads.
	indexBlockSize = 4 << 10
)

// indexBlocks keeps the buffers of searches; a buffer handed to an io.ReaderAt would escape otherwise.
var indexBlocks = sync.Pool{New: func() any { return new([indexBlockSize]byte) }}

// indexField is a big-endian number at a fixed place in an index entry: 4 bytes at `at`, or 8 when wide.
type indexField struct {
	at   int
	wide bool
}

func (f indexField) of(e []byte) int64 {
	if f.wide {
		return int64(binary.BigEndian.Uint64(e[f.at:]))
	}
	return int64(int32(binary.BigEndian.Uint32(e[f.at:])))
}

// sparseIndex is what the offset index and the time index share: entries of one width in ascending order, of which
// the first `stored` are in a file and those from `first` on are in memory. It does no I/O of its own: whoever owns
// the file writes what unwritten returns and passes the file to look-ups.
//
// A sparseIndex is a value. A copy of it keeps answering while the original is appended to, written or cut: entries
// in memory are never changed in place, and a file that became shorter than the copy thinks is noticed.
type sparseIndex struct {
	tail   []byte // entries [first, first + len(tail)/width)
	stored int32  // entries in the file
	first  int32  // number of the first entry in tail; <= stored
	width  int32  // bytes of an entry
}

// count is the number of entries.
func (x *sparseIndex) count() int { return int(x.first) + len(x.tail)/int(x.width) }

// size is the number of bytes the whole index has in a file.
func (x *sparseIndex) size() int64 { return int64(x.count()) * int64(x.width) }

// storedSize is the number of bytes that are in the file; after a truncate, the file is to be cut to it.
func (x *sparseIndex) storedSize() int64 { return int64(x.stored) * int64(x.width) }

// unwritten returns the entries that are not in the file yet and the position to write them at. The slice stays
// valid and unchanged whatever is done to the index.
func (x *sparseIndex) unwritten() (b []byte, position int64) {
	return x.tail[int(x.stored-x.first)*int(x.width):], x.storedSize()
}

// wrote says that n more bytes, as unwritten returned them, are in the file. Most of them leave the memory.
func (x *sparseIndex) wrote(n int) {
	w := int(x.width)
	if n%w != 0 || n > len(x.tail)-int(x.stored-x.first)*w {
		panic(fmt.Sprintf("storage: %d index bytes written of %d in memory, %d stored before, width %d", n, len(x.tail), x.stored, w))
	}
	x.stored += int32(n / w)
	// Readers hold the old tail, so the part that stays is copied, and only when it is worth it.
	if drop := min(int(x.stored-x.first), (len(x.tail)-tailBytes)/w); drop > tailBytes/w {
		x.tail = slices.Clone(x.tail[drop*w:])
		x.first += int32(drop)
	}
}

// forget drops from memory everything that is in the file; for a log that is no longer in use.
func (x *sparseIndex) forget() {
	w := int(x.width)
	if drop := int(x.stored - x.first); drop > 0 || len(x.tail) == 0 {
		x.tail = slices.Clone(x.tail[drop*w:])
		x.first += int32(drop)
	}
	if len(x.tail) == 0 {
		x.tail = nil
	}
}

// keep cuts the index to its first n entries.
func (x *sparseIndex) keep(n int) {
	w := int(x.width)
	x.stored = min(x.stored, int32(n))
	if n <= int(x.first) {
		x.first, x.tail = int32(n), nil
		return
	}
	// The capacity goes with the length, so that a later append does not overwrite what a reader still looks at.
	end := (n - int(x.first)) * w
	x.tail = x.tail[:end:end]
}

// entry copies entry n into e. r is the index file; it is not used for entries in memory.
func (x *sparseIndex) entry(r io.ReaderAt, n int, e *[12]byte) error {
	w := int(x.width)
	if n >= int(x.first) {
		copy(e[:w], x.tail[(n-int(x.first))*w:])
		return nil
	}
	_, err := readEntries(r, e[:w], int64(n)*int64(w))
	return err
}

// search returns the number of the last entry whose field is at most target, or -1, and copies that entry into e.
// The field must ascend along the index. loKey and hiKey are what the field would be before the first entry and at
// the last; they only steer the search. r is the index file and is not used when the answer is in memory.
func (x *sparseIndex) search(r io.ReaderAt, f indexField, target, loKey, hiKey int64, e *[12]byte) (int, error) {
	w := int(x.width)
	if len(x.tail) > 0 && f.of(x.tail) <= target {
		n := lastAtMost(x.tail, w, f, target)
		copy(e[:w], x.tail[n*w:])
		return int(x.first) + n, nil
	}
	block := indexBlocks.Get().(*[indexBlockSize]byte)
	defer indexBlocks.Put(block)
	best := -1
	// Entries before lo are at most target, and best is the last of them; entries from hi on are above it.
	lo, hi := 0, int(x.first)
	per := len(block) / w
	if len(x.tail) > 0 {
		hiKey = f.of(x.tail)
	}
	for step := 0; lo < hi; step++ {
		mid := lo + (hi-lo)/2
		// Offsets and times grow evenly, so a guess by proportion is usually right at once. Halving bounds the
		// number of steps when it is not.
		if step < 4 && loKey < hiKey {
			share := (float64(target) - float64(loKey)) / (float64(hiKey) - float64(loKey))
			mid = lo + int(min(max(share, 0), 1)*float64(hi-lo))
		}
		start := max(lo, mid-per/2)
		end := min(hi, start+per)
		start = max(lo, end-per)
		n, err := readEntries(r, block[:(end-start)*w], int64(start)*int64(w))
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, err
		}
		b := block[:n/w*w]
		switch {
		case len(b) == 0:
			// The file was cut since the index was copied; what is gone was above every offset still readable.
			hi = start
		case f.of(b) > target:
			hi, hiKey = start, f.of(b)
		default:
			n := lastAtMost(b, w, f, target)
			best = start + n
			copy(e[:w], b[n*w:])
			if n < len(b)/w-1 {
				return best, nil
			}
			lo, loKey = best+1, f.of(b[n*w:])
			if start+len(b)/w < end {
				return best, nil
			}
		}
	}
	return best, nil
}

// lastAtMost returns the number of the last entry in b whose field is at most target; the first one's is.
func lastAtMost(b []byte, w int, f indexField, target int64) int {
	lo, hi := 0, len(b)/w
	for hi-lo > 1 {
		mid := int(uint(lo+hi) / 2)
		if f.of(b[mid*w:]) <= target {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// readEntries fills b from position; a file that ends early is io.ErrUnexpectedEOF with the bytes there were.
func readEntries(r io.ReaderAt, b []byte, position int64) (int, error) {
	if r == nil {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := r.ReadAt(b, position)
	switch {
	case n == len(b):
		return n, nil
	case errors.Is(err, io.EOF):
		return n, io.ErrUnexpectedEOF
	default:
		return n, err
	}
}

// allZero reports whether b has no other byte than zero.
func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
