package vfs

import (
	"fmt"
	"time"
)

// OpKind is what an Op does.
type OpKind int8

// The kinds of operations: one for each method of FS, of File, and of the closer that Lock returns.
const (
	OpCreate OpKind = iota
	OpOpen
	OpRemove
	OpRemoveAll
	OpRename
	OpMkdirAll
	OpList
	OpStat
	OpSetModTime
	OpFree
	OpSyncDir
	OpLock
	OpReadAt
	OpWriteAt
	OpSize
	OpTruncate
	OpSync
	OpClose
	OpUnlock
)

var opNames = [...]string{
	OpCreate: "create", OpOpen: "open", OpRemove: "remove", OpRemoveAll: "remove-all", OpRename: "rename",
	OpMkdirAll: "mkdir-all", OpList: "list", OpStat: "stat", OpSetModTime: "set-mod-time", OpFree: "free",
	OpSyncDir: "sync-dir", OpLock: "lock", OpReadAt: "read", OpWriteAt: "write", OpSize: "size",
	OpTruncate: "truncate", OpSync: "sync", OpClose: "close", OpUnlock: "unlock",
}

// String returns the word that Log uses.
func (k OpKind) String() string {
	if k < 0 || int(k) >= len(opNames) {
		return fmt.Sprintf("op(%d)", int8(k))
	}
	return opNames[k]
}

// Mutates reports whether the operation can change what the file system holds or what of it is durable. Lock can: it
// makes the file.
func (k OpKind) Mutates() bool {
	switch k {
	case OpOpen, OpList, OpStat, OpFree, OpReadAt, OpSize, OpClose, OpUnlock:
		return false
	}
	return true
}

// Op is one operation on a file system.
type Op struct {
	Index   int64 // 0, 1, 2, … in the order in which the operations of the wrapper began
	Kind    OpKind
	Name    string    // as given to the FS; for operations of a File, the name by which it was opened
	NewName string    // of OpRename
	Offset  int64     // of OpReadAt and OpWriteAt; the size of OpTruncate
	Size    int       // bytes to read or write
	ModTime time.Time // of OpSetModTime
}

// String returns the operation as a line of a trace: "write orders-0/00000000000000000000.log 0+137" for 137 bytes at
// position 0. It leaves the index out.
func (o Op) String() string {
	switch o.Kind {
	case OpReadAt, OpWriteAt:
		return fmt.Sprintf("%s %s %d+%d", o.Kind, o.Name, o.Offset, o.Size)
	case OpTruncate:
		return fmt.Sprintf("%s %s %d", o.Kind, o.Name, o.Offset)
	case OpRename:
		return fmt.Sprintf("%s %s %s", o.Kind, o.Name, o.NewName)
	case OpSetModTime:
		return fmt.Sprintf("%s %s %s", o.Kind, o.Name, o.ModTime.UTC().Format(time.RFC3339Nano))
	}
	return fmt.Sprintf("%s %s", o.Kind, o.Name)
}
