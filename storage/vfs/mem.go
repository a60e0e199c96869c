package vfs

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

var errNegativeOffset = errors.New("negative offset")

// MemOptions are the options of a Mem. The zero value is of use.
type MemOptions struct {
	// Now gives the modification times; nil means time.Now.
	Now func() time.Time
	// Capacity bounds the sizes of all files together, in bytes, gaps and removed files that are still open
	// included. What goes beyond gets ErrNoSpace. 0 means no bound.
	Capacity int64
	// Crashable keeps, beside what the files hold, what of it is durable. It is for tests: every write is kept
	// once more until it is synced, and the synced bytes are kept twice.
	Crashable bool
}

// Mem is a file system in memory. It begins with an empty root directory; relative names begin there too.
//
// A Mem that is Crashable can show what a power loss would leave (CrashClone) and what the end of the process
// (KillClone). On any other, syncing does nothing.
type Mem struct {
	now       func() time.Time
	capacity  int64
	crashable bool
	used      atomic.Int64 // sizes of all files together

	// change is held for reading by every operation that changes anything, if crashable, so that a clone, which
	// holds it for writing, is one instant of the whole file system. It is taken before all other locks.
	change sync.RWMutex

	mu    sync.RWMutex // guards the tree: names, synced and locked of each node, and journal; taken before inode.wmu
	root  *node
	names journal
}

// node is a file or a directory.
type node struct {
	file   *inode           // nil for a directory
	names  map[string]*node // of a directory
	synced map[string]*node // of a directory, if crashable: the names that are durable
	parent *node            // the directory that holds the name, or held it last; nil for the root
	base   string           // the last element of that name
	mod    time.Time        // of a directory
	locked bool
}

// NewMem returns an empty Mem.
func NewMem(o MemOptions) *Mem {
	m := &Mem{now: o.Now, capacity: o.Capacity, crashable: o.Crashable}
	if m.now == nil {
		m.now = time.Now
	}
	m.root = m.newDir(nil)
	return m
}

func (m *Mem) newDir(parent *node) *node {
	d := &node{names: map[string]*node{}, parent: parent, mod: m.now()}
	if m.crashable {
		d.synced = map[string]*node{}
	}
	return d
}

func (m *Mem) beginChange() {
	if m.crashable {
		m.change.RLock()
	}
}

func (m *Mem) endChange() {
	if m.crashable {
		m.change.RUnlock()
	}
}

// reserve takes n bytes of the capacity, or what is left of it if some is as good as all, or none.
func (m *Mem) reserve(n int64, some bool) int64 {
	for {
		used := m.used.Load()
		got := n
		if m.capacity > 0 && got > m.capacity-used {
			if got = 0; some {
				got = max(0, m.capacity-used)
			}
		}
		if m.used.CompareAndSwap(used, used+got) {
			return got
		}
	}
}

func (m *Mem) release(n int64) { m.used.Add(-n) }

// split returns the elements of a name below the root. An empty name is none.
func split(name string) ([]string, bool) {
	if name == "" {
		return nil, false
	}
	name = path.Clean("/" + filepath.ToSlash(name))[1:]
	if name == "" {
		return nil, true
	}
	return strings.Split(name, "/"), true
}

// find returns the node of a name. The caller holds mu.
func (m *Mem) find(name string) (*node, error) {
	elems, ok := split(name)
	if !ok {
		return nil, syscall.ENOENT
	}
	n := m.root
	for _, e := range elems {
		if n.file != nil {
			return nil, syscall.ENOTDIR
		}
		if n = n.names[e]; n == nil {
			return nil, syscall.ENOENT
		}
	}
	return n, nil
}

// findDir returns the directory of a name and its last element. The caller holds mu. The root has no such.
func (m *Mem) findDir(name string) (dir *node, base string, err error) {
	elems, ok := split(name)
	if !ok {
		return nil, "", syscall.ENOENT
	}
	if len(elems) == 0 {
		return nil, "", syscall.EBUSY
	}
	last := len(elems) - 1
	if dir, err = m.find("/" + strings.Join(elems[:last], "/")); err != nil {
		return nil, "", err
	}
	if dir.file != nil {
		return nil, "", syscall.ENOTDIR
	}
	return dir, elems[last], nil
}

// link gives n a name, and takes it from what has it. The caller holds mu.
func (m *Mem) link(dir *node, base string, n *node) {
	dir.names[base] = n
	n.parent, n.base = dir, base
	dir.mod = m.now()
}

// Create is FS.Create.
func (m *Mem) Create(name string) (File, error) {
	n, err := m.create(name)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	f := &memFile{n: n, name: name}
	if err := f.Truncate(0); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// create returns the file of a name with a handle on it, made if need be.
func (m *Mem) create(name string) (*inode, error) {
	m.beginChange()
	defer m.endChange()
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.createNode(name)
	if err != nil {
		return nil, err
	}
	n.file.hold()
	return n.file, nil
}

// createNode returns the file of a name, made if need be. The caller holds mu.
func (m *Mem) createNode(name string) (*node, error) {
	dir, base, err := m.findDir(name)
	if err == syscall.EBUSY {
		return nil, syscall.EISDIR
	}
	if err != nil {
		return nil, err
	}
	n := dir.names[base]
	if n == nil {
		n = &node{file: newInode(m)}
		m.link(dir, base, n)
		m.record(nameOp{dir: dir, name: base, node: n, kind: opLink})
	}
	if n.file == nil {
		return nil, syscall.EISDIR
	}
	return n, nil
}

// Open is FS.Open. A Mem forbids nothing.
func (m *Mem) Open(name string) (File, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.find(name)
	if err == nil && n.file == nil {
		err = syscall.EISDIR
	}
	if err != nil {
		return nil, pathError("open", name, err)
	}
	n.file.hold()
	return &memFile{n: n.file, name: name}, nil
}

// Remove is FS.Remove.
func (m *Mem) Remove(name string) error {
	m.beginChange()
	defer m.endChange()
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.findDir(name)
	if err == nil {
		switch n := dir.names[base]; {
		case n == nil:
			err = syscall.ENOENT
		case len(n.names) > 0:
			err = syscall.ENOTEMPTY
		default:
			m.unlink(dir, base)
		}
	}
	if err != nil {
		return pathError("remove", name, err)
	}
	return nil
}

// unlink removes a name that is there, of a file or an empty directory. The caller holds mu.
func (m *Mem) unlink(dir *node, base string) {
	n := dir.names[base]
	delete(dir.names, base)
	dir.mod = m.now()
	m.record(nameOp{dir: dir, name: base, node: n, kind: opUnlink})
	if n.file != nil {
		n.file.drop()
	}
}

// RemoveAll is FS.RemoveAll.
func (m *Mem) RemoveAll(name string) error {
	m.beginChange()
	defer m.endChange()
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.findDir(name)
	switch {
	case err == syscall.ENOENT && name != "":
		return nil
	case err != nil && name != "":
		return pathError("unlinkat", name, err)
	case name == "" || dir.names[base] == nil:
		return nil
	}
	m.removeTree(dir, base)
	return nil
}

func (m *Mem) removeTree(dir *node, base string) {
	n := dir.names[base]
	for _, child := range sortedNames(n.names) {
		m.removeTree(n, child)
	}
	m.unlink(dir, base)
}

// Rename is FS.Rename.
func (m *Mem) Rename(oldName, newName string) error {
	m.beginChange()
	defer m.endChange()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.rename(oldName, newName); err != nil {
		return &os.LinkError{Op: "rename", Old: oldName, New: newName, Err: err}
	}
	return nil
}

func (m *Mem) rename(oldName, newName string) error {
	from, oldBase, err := m.findDir(oldName)
	if err != nil {
		return err
	}
	to, newBase, err := m.findDir(newName)
	if err == syscall.EBUSY {
		return syscall.EEXIST
	}
	if err != nil {
		return err
	}
	n, target := from.names[oldBase], to.names[newBase]
	switch {
	case n == nil:
		return syscall.ENOENT
	case n == target:
		return nil
	case target != nil && target.file == nil:
		return syscall.EEXIST
	}
	for d := to; d != nil; d = d.parent {
		if d == n {
			return syscall.EINVAL
		}
	}
	if n.file == nil && target != nil {
		return syscall.ENOTDIR
	}
	delete(from.names, oldBase)
	from.mod = m.now()
	m.link(to, newBase, n)
	m.record(nameOp{dir: from, name: oldBase, node: n, kind: opRename, to: to, toName: newBase})
	if target != nil {
		target.file.drop()
	}
	return nil
}

// MkdirAll is FS.MkdirAll.
func (m *Mem) MkdirAll(dir string) error {
	m.beginChange()
	defer m.endChange()
	m.mu.Lock()
	defer m.mu.Unlock()
	elems, ok := split(dir)
	if !ok {
		return pathError("mkdir", dir, syscall.ENOENT)
	}
	d := m.root
	for _, e := range elems {
		n := d.names[e]
		if n == nil {
			n = m.newDir(d)
			m.link(d, e, n)
			m.record(nameOp{dir: d, name: e, node: n, kind: opLink})
		}
		if n.file != nil {
			return pathError("mkdir", dir, syscall.ENOTDIR)
		}
		d = n
	}
	return nil
}

// List is FS.List.
func (m *Mem) List(dir string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.find(dir)
	if err == nil && n.file != nil {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, pathError("open", dir, err)
	}
	return sortedNames(n.names), nil
}

func sortedNames(names map[string]*node) []string {
	s := make([]string, 0, len(names))
	for name := range names {
		s = append(s, name)
	}
	slices.Sort(s)
	return s
}

// Stat is FS.Stat.
func (m *Mem) Stat(name string) (Info, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.find(name)
	switch {
	case err != nil:
		return Info{}, pathError("stat", name, err)
	case n.file == nil:
		return Info{ModTime: n.mod, IsDir: true}, nil
	}
	return n.file.info(), nil
}

// SetModTime is FS.SetModTime.
func (m *Mem) SetModTime(name string, t time.Time) error {
	m.beginChange()
	defer m.endChange()
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(name)
	switch {
	case err != nil:
		return pathError("chtimes", name, err)
	case n.file == nil:
		n.mod = t
	default:
		n.file.setModTime(t)
	}
	return nil
}

// Free is FS.Free. Without a Capacity the size is said to be the greatest there is.
func (m *Mem) Free(dir string) (free, total int64, err error) {
	if _, err := m.Stat(dir); err != nil {
		return 0, 0, err
	}
	total = m.capacity
	if total <= 0 {
		total = math.MaxInt64
	}
	return max(0, total-m.used.Load()), total, nil
}

// SyncDir is FS.SyncDir.
func (m *Mem) SyncDir(dir string) error {
	m.beginChange()
	defer m.endChange()
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(dir)
	if err == nil && n.file != nil {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return pathError("open", dir, err)
	}
	if m.crashable {
		m.names.sync(n)
	}
	return nil
}

// Lock is FS.Lock. The lock excludes others on the same Mem; a clone does not have it.
func (m *Mem) Lock(name string) (io.Closer, error) {
	m.beginChange()
	defer m.endChange()
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.createNode(name)
	if err == nil && n.locked {
		err = ErrLocked
	}
	if err != nil {
		return nil, pathError("lock", name, err)
	}
	n.locked = true
	return &memLock{m: m, n: n, name: name}, nil
}

type memLock struct {
	m    *Mem
	n    *node
	name string
	done bool // guarded by Mem.mu
}

func (l *memLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if l.done {
		return pathError("close", l.name, fs.ErrClosed)
	}
	l.done, l.n.locked = true, false
	return nil
}
