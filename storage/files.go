package storage

import (
	"errors"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/kaen-log/gateway/storage/vfs"
)

// openFiles keeps the number of files that the logs of a store hold open within a budget. A file that nobody uses at
// the moment may be closed to make room; its next use opens it again. Files in use at the same time may exceed the
// budget, and a file with bytes that were not synced stays in use until they are: an error of writing back would
// otherwise reach nobody.
type openFiles struct {
	fs     vfs.FS
	budget int

	// mu guards the ring and the fields of each file named there; never held across I/O.
	mu   sync.Mutex
	open []*file
	hand int // where the search for a file to close goes on
}

func newOpenFiles(fsys vfs.FS, budget int) *openFiles {
	return &openFiles{fs: fsys, budget: budget}
}

// count is the number of files that are open.
func (o *openFiles) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.open)
}

const fileClosed = -1

// file is a file of a log, open only while the budget allows it. Use stands between acquire and release.
type file struct {
	files *openFiles
	// mu is held across opening and closing, so that two users do not both open. It comes before openFiles.mu.
	mu   sync.Mutex
	name string // guarded by mu
	gone bool   // guarded by mu; the file is not opened again

	// pins is the number of users; fileClosed when the file is not open. It leaves and enters fileClosed only under
	// openFiles.mu, together with handle and place.
	pins   atomic.Int32
	used   atomic.Bool // since the hand passed last
	handle vfs.File
	place  int // index in openFiles.open
}

// init sets the name of a file that is not open.
func (f *file) init(files *openFiles, name string) {
	f.files, f.name = files, name
	f.pins.Store(fileClosed)
}

// errFileGone is what a user meets whose segment was removed meanwhile.
var errFileGone = errors.New("file was removed from the log")

// acquire returns the open file; release must follow. The error satisfies fs.ErrNotExist when there is no such file.
func (f *file) acquire() (vfs.File, error) {
	if f.pin() {
		return f.handle, nil
	}
	return f.reopen(false)
}

// create is acquire for a file that may have to be made. One that is not open is emptied.
func (f *file) create() (vfs.File, error) { return f.reopen(true) }

// pin adds a user if the file is open.
func (f *file) pin() bool {
	for {
		n := f.pins.Load()
		if n == fileClosed {
			return false
		}
		if f.pins.CompareAndSwap(n, n+1) {
			if !f.used.Load() {
				f.used.Store(true)
			}
			return true
		}
	}
}

// release ends a use.
func (f *file) release() {
	if f.pins.Add(-1) < 0 {
		panic("storage: release of a file that is not in use: " + f.name)
	}
}

func (f *file) reopen(create bool) (vfs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone {
		return nil, errFileGone
	}
	if f.pin() {
		return f.handle, nil
	}
	o := f.files
	open := o.fs.Open
	if create {
		open = o.fs.Create
	}
	h, err := open(f.name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && o.makeRoom() {
		// The process may be out of file descriptors, whatever the budget says; some were closed just now.
		h, err = open(f.name)
	}
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	f.handle, f.place = h, len(o.open)
	o.open = append(o.open, f)
	f.used.Store(true)
	f.pins.Store(1)
	// Usually one too many; more when several were in use at the same time.
	var victims [4]vfs.File
	n := 0
	for ; n < len(victims) && len(o.open) > o.budget; n++ {
		if victims[n] = o.evict(); victims[n] == nil {
			break
		}
	}
	o.mu.Unlock()
	for _, v := range victims[:n] {
		v.Close()
	}
	return h, nil
}

// evict takes a file that is not in use out of the ring, preferring one that was not used for a while, and returns it
// to be closed; nil when all are in use. It is called with mu held.
func (o *openFiles) evict() vfs.File {
	for range 2 * len(o.open) {
		o.hand++
		if o.hand >= len(o.open) {
			o.hand = 0
		}
		f := o.open[o.hand]
		if f.pins.Load() > 0 || f.used.Swap(false) {
			continue
		}
		if h := o.take(f); h != nil {
			return h
		}
	}
	return nil
}

// take removes f from the ring when it is open and nobody uses it; nil otherwise. It is called with mu held.
func (o *openFiles) take(f *file) vfs.File {
	if !f.pins.CompareAndSwap(0, fileClosed) {
		return nil
	}
	last := len(o.open) - 1
	o.open[f.place] = o.open[last]
	o.open[f.place].place = f.place
	o.open[last] = nil
	o.open = o.open[:last]
	h := f.handle
	f.handle = nil
	return h
}

// makeRoom closes up to half of the open files, those that are not in use, and reports whether it closed any.
func (o *openFiles) makeRoom() bool {
	var victims []vfs.File
	o.mu.Lock()
	for range len(o.open)/2 + 1 {
		if h := o.evict(); h != nil {
			victims = append(victims, h)
		}
	}
	o.mu.Unlock()
	for _, h := range victims {
		h.Close()
	}
	return len(victims) > 0
}

// OutOfDescriptors reports whether err, or one that it wraps, says that the process or the machine can have no more files
// and sockets open: it passes when some are closed, and says nothing of the file that was to be opened. Windows has no such
// limit.
func OutOfDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// withRoom calls do, which opens files of its own, and once more when one could not be opened and others could be
// closed: the process may have been out of file descriptors. Nothing is done again after a write or a sync that failed.
func (o *openFiles) withRoom(do func() error) error {
	err := do()
	if p, ok := errors.AsType[*fs.PathError](err); ok && p.Op == "open" && !errors.Is(err, fs.ErrNotExist) && o.makeRoom() {
		err = do()
	}
	return err
}

// syncDir makes the names in a directory durable.
func (o *openFiles) syncDir(dir string) error {
	return o.withRoom(func() error { return o.fs.SyncDir(dir) })
}

// close closes the file if it is open and nobody uses it.
func (f *file) close() error {
	if f.pins.Load() == fileClosed {
		return nil
	}
	f.files.mu.Lock()
	h := f.files.take(f)
	f.files.mu.Unlock()
	if h == nil {
		return nil
	}
	return h.Close()
}

// moved says that the file has another name on disk.
func (f *file) moved(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.name = name
}

// rename gives the file another name, which it is opened by from now on. The name is not durable.
func (f *file) rename(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.files.fs.Rename(f.name, name); err != nil {
		return err
	}
	f.name = name
	return nil
}

// forbid makes sure that the file is not opened again: another file may get its name.
func (f *file) forbid() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone = true
}

// retire closes the file for good. Nobody may be using it.
func (f *file) retire() error {
	f.forbid()
	return f.close()
}

// ReadAt is acquire, ReadAt and release, so that a file serves as an io.ReaderAt for a moment.
func (f *file) ReadAt(b []byte, position int64) (int, error) {
	h, err := f.acquire()
	if err != nil {
		return 0, err
	}
	n, err := h.ReadAt(b, position)
	f.release()
	return n, err
}

var _ io.ReaderAt = (*file)(nil)
