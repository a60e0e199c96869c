package vfs

import (
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	blockSize      = 64 << 10 // of every block but the first, which starts small and doubles
	firstBlockSize = 512
)

// inode is a file of a Mem, whatever its name, kept in blocks so that it grows without moving what is there.
//
// Writers hold wmu and readers hold mu for reading. A writer takes mu only to change what a reader may look at: an
// append copies its bytes, which lie past size, before it does, and holds mu just to publish the new size.
type inode struct {
	mem *Mem

	wmu  sync.Mutex // held by whatever changes the file; taken before mu
	refs int        // open handles, and one for the name; guarded by wmu

	mu  sync.RWMutex
	cur extents   // written under wmu and mu
	mod time.Time // guarded by mu

	hist *history // what a power loss can undo; nil unless mem is Crashable; guarded by wmu
}

// extents are the bytes of a file: block i holds those from i*blockSize on. A block may be shorter than blockSize, or
// nil; what it does not have, up to size, is zeros. What a block has past size is zeros too.
type extents struct {
	size   int64
	blocks [][]byte
	shared []bool // block i belongs to other extents too and is copied before it is written; may be shorter than blocks
}

// readAt copies bytes from off on and returns how many: fewer than len(p) at the end of the block or of the file.
func (e *extents) readAt(p []byte, off int64) int {
	if off >= e.size {
		return 0
	}
	i, at := int(off/blockSize), int(off%blockSize)
	n := int(min(int64(len(p)), e.size-off, int64(blockSize-at)))
	var b []byte
	if i < len(e.blocks) && at < len(e.blocks[i]) {
		b = e.blocks[i][at:]
	}
	clear(p[copy(p[:n], b):n])
	return n
}

// room makes block i an own one that has at least need bytes. If it is not, it is replaced by a copy, under lock if
// there is one; readers see the same bytes in both.
func (e *extents) room(i, need int, lock sync.Locker) {
	if i < len(e.blocks) && len(e.blocks[i]) >= need && !(i < len(e.shared) && e.shared[i]) {
		return
	}
	if i < len(e.blocks) {
		need = max(need, len(e.blocks[i]))
	}
	size := blockSize
	if i == 0 {
		size = firstBlockSize
		for size < need {
			size *= 2
		}
	}
	b := make([]byte, size)
	if lock != nil {
		lock.Lock()
		defer lock.Unlock()
	}
	for i >= len(e.blocks) {
		e.blocks = append(e.blocks, nil)
	}
	copy(b, e.blocks[i])
	e.blocks[i] = b
	if i < len(e.shared) {
		e.shared[i] = false
	}
}

// roomFor calls room for every block of [off, off+n).
func (e *extents) roomFor(off int64, n int, lock sync.Locker) {
	for n > 0 {
		i, at := int(off/blockSize), int(off%blockSize)
		take := min(n, blockSize-at)
		e.room(i, at+take, lock)
		off, n = off+int64(take), n-take
	}
}

// put copies p to off; there is room for it.
func (e *extents) put(p []byte, off int64) {
	for len(p) > 0 {
		n := copy(e.blocks[off/blockSize][off%blockSize:], p)
		p, off = p[n:], off+int64(n)
	}
}

// zero clears [from, to) without making room.
func (e *extents) zero(from, to int64) {
	for from < to {
		i, at := int(from/blockSize), int(from%blockSize)
		if i >= len(e.blocks) {
			return
		}
		end := min(int64(at)+to-from, blockSize)
		if at < len(e.blocks[i]) {
			e.room(i, len(e.blocks[i]), nil)
			clear(e.blocks[i][at:min(end, int64(len(e.blocks[i])))])
		}
		from += end - int64(at)
	}
}

// resize cuts or extends; it lets go of blocks that are past the end.
func (e *extents) resize(size int64) {
	if size < e.size {
		keep := int((size + blockSize - 1) / blockSize)
		if keep < len(e.blocks) {
			clear(e.blocks[keep:])
			e.blocks = e.blocks[:keep]
			e.shared = e.shared[:min(keep, len(e.shared))]
		}
		e.zero(size, int64(keep)*blockSize)
	}
	e.size = size
}

// share returns extents of the same bytes. From now on e too copies a block before it writes to it.
func (e *extents) share() extents {
	e.shared = allTrue(len(e.blocks))
	return extents{size: e.size, blocks: append([][]byte(nil), e.blocks...), shared: allTrue(len(e.blocks))}
}

func allTrue(n int) []bool {
	s := make([]bool, n)
	for i := range s {
		s[i] = true
	}
	return s
}

func newInode(m *Mem) *inode {
	n := &inode{mem: m, mod: m.now(), refs: 1}
	if m.crashable {
		n.hist = &history{mod: n.mod}
	}
	return n
}

func (n *inode) readAt(p []byte, off int64) (int, error) {
	done := 0
	for done < len(p) {
		n.mu.RLock()
		k := n.cur.readAt(p[done:], off+int64(done))
		n.mu.RUnlock()
		if k == 0 {
			return done, io.EOF
		}
		done += k
	}
	return done, nil
}

func (n *inode) writeAt(p []byte, off int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n.mem.beginChange()
	defer n.mem.endChange()
	n.wmu.Lock()
	defer n.wmu.Unlock()
	if n.refs == 0 {
		return 0, fs.ErrClosed
	}
	var err error
	old := n.cur.size
	if end := off + int64(len(p)); end > old {
		// A gap is paid for as if it were bytes, so that what fits is the same whatever order writes come in.
		if got := n.mem.reserve(end-old, true); got < end-old {
			err = ErrNoSpace
			if old+got <= off {
				n.mem.release(got)
				return 0, err
			}
			p = p[:old+got-off]
		}
	}
	now := n.mem.now()
	if n.hist != nil {
		n.hist.wrote(p, off, max(old, off+int64(len(p))))
	}
	n.cur.roomFor(off, len(p), &n.mu)
	if off >= old {
		n.cur.put(p, off)
		n.mu.Lock()
	} else {
		n.mu.Lock()
		n.cur.put(p, off)
	}
	n.cur.size = max(old, off+int64(len(p)))
	n.mod = now
	n.mu.Unlock()
	return len(p), err
}

func (n *inode) truncate(size int64) error {
	if size < 0 {
		return syscall.EINVAL
	}
	n.mem.beginChange()
	defer n.mem.endChange()
	n.wmu.Lock()
	defer n.wmu.Unlock()
	if n.refs == 0 {
		return fs.ErrClosed
	}
	old := n.cur.size
	if size > old && n.mem.reserve(size-old, false) < size-old {
		return ErrNoSpace
	}
	if n.hist != nil && size != old {
		n.hist.truncated(size)
	}
	n.mu.Lock()
	n.cur.resize(size)
	n.mod = n.mem.now()
	n.mu.Unlock()
	if size < old {
		n.mem.release(old - size)
	}
	return nil
}

// sync makes the file durable; lose makes it fail as LostSync says.
func (n *inode) sync(lose bool) {
	if n.hist == nil {
		return
	}
	n.mem.beginChange()
	defer n.mem.endChange()
	n.wmu.Lock()
	defer n.wmu.Unlock()
	if lose {
		n.hist.ops = nil
		return
	}
	n.hist.sync(n.info().ModTime)
}

func (n *inode) size() int64 {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.cur.size
}

func (n *inode) info() Info {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return Info{Size: n.cur.size, ModTime: n.mod}
}

func (n *inode) setModTime(t time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mod = t
}

func (n *inode) hold() {
	n.wmu.Lock()
	defer n.wmu.Unlock()
	n.refs++
}

// drop gives up a handle or the name. With the last of them the bytes are gone. The caller has called beginChange.
func (n *inode) drop() {
	n.wmu.Lock()
	defer n.wmu.Unlock()
	if n.refs--; n.refs > 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mem.release(n.cur.size)
	n.cur = extents{}
}

// memFile is an open file of a Mem.
type memFile struct {
	n      *inode
	name   string
	closed atomic.Bool
}

func (f *memFile) check(op string) error {
	if f.closed.Load() {
		return pathError(op, f.name, fs.ErrClosed)
	}
	return nil
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.check("read"); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathError("readat", f.name, errNegativeOffset)
	}
	return f.n.readAt(p, off)
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.check("write"); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathError("writeat", f.name, errNegativeOffset)
	}
	n, err := f.n.writeAt(p, off)
	if err != nil {
		err = pathError("write", f.name, err)
	}
	return n, err
}

func (f *memFile) Size() (int64, error) {
	if err := f.check("stat"); err != nil {
		return 0, err
	}
	return f.n.size(), nil
}

func (f *memFile) Truncate(size int64) error {
	if err := f.check("truncate"); err != nil {
		return err
	}
	if err := f.n.truncate(size); err != nil {
		return pathError("truncate", f.name, err)
	}
	return nil
}

func (f *memFile) Sync() error {
	if err := f.check("sync"); err != nil {
		return err
	}
	f.n.sync(false)
	return nil
}

func (f *memFile) loseUnsynced() { f.n.sync(true) }

func (f *memFile) Close() error {
	if f.closed.Swap(true) {
		return pathError("close", f.name, fs.ErrClosed)
	}
	f.n.mem.beginChange()
	defer f.n.mem.endChange()
	f.n.drop()
	return nil
}
