package vfs

import (
	"math/rand/v2"
	"slices"
	"time"
)

const (
	sectorSize = 512  // what a disk writes whole or not at all
	pageSize   = 4096 // what a file system frees whole; the page that a cut goes through is written with zeros
)

// history is what a Crashable Mem knows of a file beside its bytes: those that are durable, and what was done to the
// file since.
type history struct {
	synced extents
	mod    time.Time // modification time at the last sync
	ops    []fileOp  // since the last sync, oldest first
}

// fileOp is one write, or one change of the size.
type fileOp struct {
	data []byte // a copy; empty for a truncation
	off  int64
	size int64 // of the file afterwards
}

func (h *history) wrote(p []byte, off, size int64) {
	h.ops = append(h.ops, fileOp{data: slices.Clone(p), off: off, size: size})
}

func (h *history) truncated(size int64) {
	h.ops = append(h.ops, fileOp{size: size})
}

func (h *history) sync(mod time.Time) {
	for _, o := range h.ops {
		h.synced.apply(o)
	}
	h.ops, h.mod = nil, mod
}

func (e *extents) apply(o fileOp) {
	if len(o.data) == 0 {
		e.resize(o.size)
		return
	}
	e.roomFor(o.off, len(o.data), nil)
	e.put(o.data, o.off)
	e.size = max(e.size, o.off+int64(len(o.data)))
}

// crash returns what a power loss leaves of the file, and whether it has its new modification time. The disk has each
// sector as it was at some moment since the last sync, and the size as it was at another. A third of the seeds have it
// that all was written in order up to a sector in the middle of an operation, which drawing each sector by itself
// would hardly ever give.
func (h *history) crash(seed, path uint64, keep float64) (extents, bool) {
	r := rand.New(rand.NewPCG(seed, path))
	newMod := r.Float64() < keep
	n := len(h.ops)
	var at func(sector int64) int // how many of the operations the sector on the disk has seen
	var atSize int                // and the size
	var size int64
	if inOrder := r.IntN(3) == 0; inOrder || keep <= 0 || keep >= 1 {
		atSize = prefix(r, n, keep)
		size = h.sizeAt(atSize)
		torn := int64(0) // sectors before it have seen one more
		if atSize < n && keep > 0 {
			if o := h.ops[atSize]; len(o.data) > 0 {
				torn = o.off/sectorSize + r.Int64N(1+int64(len(o.data)/sectorSize))
				size = max(size, min(o.size, torn*sectorSize))
			}
		}
		at = func(sector int64) int {
			if sector < torn {
				return atSize + 1
			}
			return atSize
		}
	} else {
		atSize = moment(r.Float64(), r.Float64(), n, keep)
		size = h.sizeAt(atSize)
		if atSize > 0 {
			// The file system may have written a part of the bytes and grown the file as far.
			if before := h.sizeAt(atSize - 1); size > before && r.IntN(2) == 0 {
				first := before/sectorSize + 1
				size = min(size, (first+r.Int64N(size/sectorSize-first+2))*sectorSize)
			}
		}
		at = func(sector int64) int {
			s := rand.NewPCG(seed^path, uint64(sector))
			return moment(unit(s), unit(s), n, keep)
		}
	}
	return h.replay(at, atSize, size), newMod
}

func (h *history) sizeAt(n int) int64 {
	if n == 0 {
		return h.synced.size
	}
	return h.ops[n-1].size
}

// replay builds the bytes of a file whose sectors have seen as many operations as at says, and whose size as many as
// atSize says, or a part of the next.
//
// Two things a file system rules out. Bytes that a cut took away do not come back when the file is seen to be cut,
// and pages wholly past a cut that the disk has not seen still belong to the old end: nothing later has reached them.
func (h *history) replay(at func(sector int64) int, atSize int, size int64) extents {
	e := h.synced.share()
	longest := e.size
	old := e.size
	type cut struct {
		op   int
		size int64
	}
	var cuts []cut
	for i, o := range h.ops {
		if o.size < old {
			cuts = append(cuts, cut{i, o.size})
		}
		old = o.size
		longest = max(longest, o.size)
	}
	seen := func(sector int64) int {
		n := at(sector)
		for _, c := range cuts {
			if c.op >= atSize && sector*sectorSize >= (c.size+pageSize-1)/pageSize*pageSize {
				n = min(n, c.op)
			}
		}
		return n
	}
	e.size = longest
	for i, o := range h.ops {
		if len(o.data) > 0 {
			for from, end := o.off, o.off+int64(len(o.data)); from < end; {
				to := min(end, (from/sectorSize+1)*sectorSize)
				if i < seen(from/sectorSize) {
					e.roomFor(from, int(to-from), nil)
					e.put(o.data[from-o.off:to-o.off], from)
				}
				from = to
			}
			continue
		}
		last := int64(len(e.blocks)) * blockSize
		for from := o.size; from < last; {
			to := min(last, (from/sectorSize+1)*sectorSize)
			if i < atSize || i < seen(from/sectorSize) {
				e.zero(from, to)
			}
			from = to
		}
	}
	e.resize(size)
	return e
}

// prefix draws how many of n operations in order reached the disk: all when keep is 1, none when it is 0.
func prefix(r *rand.Rand, n int, keep float64) int {
	switch {
	case keep <= 0 || n == 0:
		return 0
	case keep >= 1:
		return n
	}
	// Even between 0 and twice the mean keep*n, or as far from n; the fraction is rounded by chance.
	if keep > 0.5 {
		return n - r.IntN(1+int(2*(1-keep)*float64(n)+r.Float64()))
	}
	return r.IntN(1 + int(2*keep*float64(n)+r.Float64()))
}

// unit draws a number in [0, 1).
func unit(s *rand.PCG) float64 { return float64(s.Uint64()>>11) / (1 << 53) }

// moment draws how many of n operations something on the disk has seen, from two numbers in [0, 1): all with
// probability keep, else mostly none.
func moment(u, v float64, n int, keep float64) int {
	switch {
	case u < keep:
		return n
	case keep <= 0 || v < 0.75:
		return 0
	}
	return int((v - 0.75) * 4 * float64(n+1))
}
