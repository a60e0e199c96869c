package vfs

import "maps"

// journal holds, for a Crashable Mem, what was done to names and is not durable yet, oldest first.
//
// What reached the disk of it is a set of operations that is closed under needs: when an operation is there, so are
// the earlier ones that it needs. SyncDir of a directory makes the operations on its names durable, with what they
// need in other directories; a crash chooses a set.
type journal []nameOp

type nameOpKind int8

const (
	opLink   nameOpKind = iota // a new file or directory
	opUnlink                   // of a file, or of a directory that was empty
	opRename
)

// nameOp is one change of names.
type nameOp struct {
	kind   nameOpKind
	dir    *node
	name   string
	node   *node // what has the name, or had it
	to     *node // of opRename: the directory of the new name
	toName string
	above  []*node // of opRename into another directory: that one and those above it
}

// record adds an operation. The caller holds Mem.mu and has done it.
func (m *Mem) record(o nameOp) {
	if !m.crashable {
		return
	}
	if o.kind == opRename && o.to != o.dir {
		for d := o.to; d != nil; d = d.parent {
			o.above = append(o.above, d)
		}
	}
	m.names = append(m.names, o)
}

// apply makes the operation durable: dirs gives the names to change.
func (o *nameOp) apply(dirs func(*node) map[string]*node) {
	switch o.kind {
	case opLink:
		dirs(o.dir)[o.name] = o.node
	case opUnlink:
		delete(dirs(o.dir), o.name)
	case opRename:
		delete(dirs(o.dir), o.name)
		dirs(o.to)[o.toName] = o.node
	}
}

// nameKey is a name, or, with an empty one, a node.
type nameKey struct {
	node *node
	name string
}

// dirKey stands for all operations on the names of a directory.
const dirKey = "/"

// touches returns what an operation changes: its names, the node that they lead to, and the directories.
func (o *nameOp) touches() []nameKey {
	keys := []nameKey{{o.dir, o.name}, {o.node, ""}, {o.dir, dirKey}}
	if o.kind == opRename {
		keys = append(keys, nameKey{o.to, o.toName}, nameKey{o.to, dirKey})
	}
	return keys
}

// needs returns what must have reached the disk of all that was done before: the state of its names and of its node;
// for a removed directory also all that was done in it, or a file that was moved out of it would go with it; for a
// move into another directory also that the directory is there, or the file would be nowhere.
func (o *nameOp) needs() []nameKey {
	keys := []nameKey{{o.dir, o.name}, {o.node, ""}}
	if o.kind == opUnlink && o.node.file == nil {
		keys = append(keys, nameKey{o.node, dirKey})
	}
	if o.kind == opRename {
		keys = append(keys, nameKey{o.to, o.toName})
		for _, d := range o.above {
			keys = append(keys, nameKey{d, ""})
		}
	}
	return keys
}

// sync makes the names of dir durable.
func (j *journal) sync(dir *node) {
	ops := *j
	needed := map[nameKey]bool{{dir, dirKey}: true}
	durable := make([]bool, len(ops))
	for i := len(ops) - 1; i >= 0; i-- {
		for _, k := range ops[i].touches() {
			durable[i] = durable[i] || needed[k]
		}
		if durable[i] {
			for _, k := range ops[i].needs() {
				needed[k] = true
			}
		}
	}
	left := ops[:0]
	for i := range ops {
		if durable[i] {
			ops[i].apply(func(d *node) map[string]*node { return d.synced })
		} else {
			left = append(left, ops[i])
		}
	}
	clear(ops[len(left):])
	*j = left
}

// crash returns the names that a power loss leaves, for those directories where they are not the synced ones. keep is
// asked for each operation, in order.
func (j journal) crash(keep func(i int, o *nameOp) bool) map[*node]map[string]*node {
	lost := map[nameKey]bool{}
	dirs := map[*node]map[string]*node{}
	for i := range j {
		o := &j[i]
		kept := keep(i, o)
		for _, k := range o.needs() {
			kept = kept && !lost[k]
		}
		if !kept {
			for _, k := range o.touches() {
				lost[k] = true
			}
			continue
		}
		o.apply(func(d *node) map[string]*node {
			if dirs[d] == nil {
				dirs[d] = maps.Clone(d.synced)
			}
			return dirs[d]
		})
	}
	return dirs
}
