package vfs

import (
	"hash/fnv"
	"math/rand/v2"
	"path"
	"slices"
)

// CrashClone returns what a power loss at this instant could leave: all that was synced, and of what was not a share
// that seed chooses. keep is about how much: 0 leaves only what was synced, 1 all. In between a sector of 512 bytes
// is new, old, or as it was at some moment since the last sync; the size of a file is that of such a moment, or lies
// in the middle of a write, so that new bytes may be cut off and a longer file may hold zeros; names that were made,
// renamed or removed without SyncDir are there or not, some seeds up to a point of time and others in any order.
//
// The same state, seed and keep give the same clone. The clone is Crashable, has the same options, no locks and no
// open files, and all in it is durable. m goes on unharmed. It panics unless m is Crashable.
func (m *Mem) CrashClone(seed uint64, keep float64) *Mem {
	m.freeze()
	defer m.change.Unlock()
	r := rand.New(rand.NewPCG(seed, 0))
	inOrder := r.IntN(2) == 0
	upTo := prefix(r, len(m.names), keep)
	count := map[uint64]uint64{} // how often an operation of the same names was met
	dirs := m.names.crash(func(i int, o *nameOp) bool {
		if inOrder || keep <= 0 || keep >= 1 {
			return i < upTo
		}
		h := hash(pathOf(o.dir) + "\x00" + o.name + "\x00" + o.toName)
		count[h]++
		return rand.New(rand.NewPCG(seed^h, count[h])).Float64() < keep
	})
	c := NewMem(MemOptions{Now: m.now, Capacity: m.capacity, Crashable: true})
	c.root = c.crashNode(m.root, nil, "/", dirs, seed, keep)
	return c
}

// freeze keeps every operation out that changes anything, until change is unlocked.
func (m *Mem) freeze() {
	if !m.crashable {
		panic("vfs: clone of a Mem that is not Crashable")
	}
	m.change.Lock()
}

// pathOf returns the path that a node has, or had last.
func pathOf(n *node) string {
	if n.parent == nil {
		return "/"
	}
	return path.Join(pathOf(n.parent), n.base)
}

func hash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

// crashNode builds the clone of n with what lies below it; all in it is durable.
func (c *Mem) crashNode(n, parent *node, name string, dirs map[*node]map[string]*node, seed uint64, keep float64) *node {
	if n.file == nil {
		d := c.newDir(parent)
		d.mod, d.base = n.mod, path.Base(name)
		names := dirs[n]
		if names == nil {
			names = n.synced
		}
		for base, child := range names {
			k := c.crashNode(child, d, path.Join(name, base), dirs, seed, keep)
			d.names[base], d.synced[base] = k, k
		}
		return d
	}
	f := newInode(c)
	bytes, newMod := n.file.hist.crash(seed, hash(name), keep)
	f.hist.synced = bytes
	f.cur = f.hist.synced.share()
	f.mod = n.file.hist.mod
	if newMod {
		f.mod = n.file.mod
	}
	f.hist.mod = f.mod
	c.used.Add(f.cur.size)
	return &node{file: f, parent: parent, base: path.Base(name)}
}

// KillClone returns what the end of the process at this instant leaves: all that was done, with no locks and no open
// files, and what was not synced is as little durable in the clone as it was. m goes on unharmed. It panics unless m
// is Crashable.
func (m *Mem) KillClone() *Mem {
	m.freeze()
	defer m.change.Unlock()
	c := NewMem(MemOptions{Now: m.now, Capacity: m.capacity, Crashable: true})
	k := &killer{c: c, nodes: map[*node]*node{}}
	c.root = k.node(m.root)
	for _, o := range m.names {
		o.dir, o.node, o.to = k.node(o.dir), k.node(o.node), k.node(o.to)
		above := make([]*node, len(o.above))
		for i, d := range o.above {
			above[i] = k.node(d)
		}
		o.above = above
		c.names = append(c.names, o)
	}
	k.count(c.root)
	return c
}

// killer copies nodes for KillClone, each once.
type killer struct {
	c     *Mem
	nodes map[*node]*node
}

func (k *killer) node(n *node) *node {
	if n == nil {
		return nil
	}
	if d := k.nodes[n]; d != nil {
		return d
	}
	d := &node{base: n.base, mod: n.mod}
	k.nodes[n] = d
	d.parent = k.node(n.parent)
	if n.file != nil {
		d.file = k.file(n.file)
		return d
	}
	d.names, d.synced = map[string]*node{}, map[string]*node{}
	for name, child := range n.names {
		d.names[name] = k.node(child)
	}
	for name, child := range n.synced {
		d.synced[name] = k.node(child)
	}
	return d
}

// file copies a file that has no name yet.
func (k *killer) file(n *inode) *inode {
	f := newInode(k.c)
	f.refs = 0
	f.cur = n.cur.share()
	f.mod = n.info().ModTime
	f.hist.synced = n.hist.synced.share()
	f.hist.mod = n.hist.mod
	f.hist.ops = slices.Clone(n.hist.ops)
	return f
}

// count gives the files below d, which are those that have a name, their reference and their share of the capacity.
func (k *killer) count(d *node) {
	for _, n := range d.names {
		if n.file == nil {
			k.count(n)
			continue
		}
		n.file.refs = 1
		k.c.used.Add(n.file.cur.size)
	}
}
