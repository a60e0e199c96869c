package vfs

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

var seedFlag = flag.Uint64("seed", 0, "run the model tests with this seed only")

// seeds returns the seeds that a test runs with: n fixed ones, or the one of -seed.
func seeds(n uint64) []uint64 {
	if *seedFlag != 0 {
		return []uint64{*seedFlag}
	}
	s := make([]uint64, n)
	for i := range s {
		s[i] = uint64(i) + 1
	}
	return s
}

// model runs random operations on a file system and writes down what each gave.
type model struct {
	fs    FS
	root  string
	r     *rand.Rand
	open  []File
	names []string
	lines []string
	locks map[string]io.Closer
}

func newModel(fsys FS, root string, seed uint64) *model {
	return &model{
		fs: fsys, root: root, r: rand.New(rand.NewPCG(seed, 1)), locks: map[string]io.Closer{},
		names: strings.Fields("a b c d d/a d/b d/e d/e/a f f/a f/b a/x ./b ./c d/e/g/h"),
	}
}

func (m *model) name() string { return m.names[m.r.IntN(len(m.names))] }

func (m *model) abs(name string) string { return m.root + "/" + name }

// class names what an error is, in the words that both file systems share.
func class(err error) string {
	switch {
	case err == nil:
		return "ok"
	case err == io.EOF:
		return "EOF"
	case errors.Is(err, ErrLocked):
		return "locked"
	case errors.Is(err, syscall.ENOTDIR):
		return "not a directory"
	case errors.Is(err, syscall.EISDIR):
		return "is a directory"
	case errors.Is(err, syscall.ENOTEMPTY):
		return "not empty"
	case errors.Is(err, syscall.EINVAL):
		return "invalid"
	case errors.Is(err, fs.ErrNotExist):
		return "not exist"
	case errors.Is(err, fs.ErrExist):
		return "exist"
	case errors.Is(err, fs.ErrClosed):
		return "closed"
	}
	return err.Error()
}

func (m *model) note(format string, args ...any) {
	m.lines = append(m.lines, fmt.Sprintf(format, args...))
}

func (m *model) file() (int, File) {
	if len(m.open) == 0 {
		return -1, nil
	}
	i := m.r.IntN(len(m.open))
	return i, m.open[i]
}

func (m *model) opened(f File, err error) {
	if err == nil {
		m.open = append(m.open, f)
	}
}

// position is mostly near the start, sometimes around the borders of blocks.
func (m *model) position() int64 {
	switch m.r.IntN(4) {
	case 0:
		return int64(m.r.IntN(3)*blockSize + m.r.IntN(20))
	case 1:
		return int64(m.r.IntN(3 * blockSize))
	}
	return int64(m.r.IntN(2000))
}

func (m *model) step() {
	a, b := m.name(), m.name()
	i, f := m.file()
	switch op := m.r.IntN(22); op {
	case 0, 1:
		f, err := m.fs.Create(m.abs(a))
		m.opened(f, err)
		m.note("create %s: %s", a, class(err))
	case 2:
		f, err := m.fs.Open(m.abs(a))
		m.opened(f, err)
		m.note("open %s: %s", a, class(err))
	case 3:
		m.note("remove %s: %s", a, class(m.fs.Remove(m.abs(a))))
	case 4:
		if m.r.IntN(4) == 0 {
			m.note("remove-all %s: %s", a, class(m.fs.RemoveAll(m.abs(a))))
		}
	case 5, 6:
		if a == b {
			return // os.Rename refuses it for a directory
		}
		m.note("rename %s %s: %s", a, b, class(m.fs.Rename(m.abs(a), m.abs(b))))
	case 7, 8:
		m.note("mkdir-all %s: %s", a, class(m.fs.MkdirAll(m.abs(a))))
	case 9:
		names, err := m.fs.List(m.abs(a))
		m.note("list %s: %q %s", a, names, class(err))
	case 10:
		info, err := m.fs.Stat(m.abs(a))
		if info.IsDir {
			info.Size = 0
		}
		m.note("stat %s: %d %v %s", a, info.Size, info.IsDir, class(err))
	case 11:
		t := time.Unix(int64(m.r.IntN(1e9)), 0)
		err := m.fs.SetModTime(m.abs(a), t)
		info, _ := m.fs.Stat(m.abs(a))
		m.note("set-mod-time %s: %s %v", a, class(err), err == nil && info.ModTime.Equal(t))
	case 12:
		m.note("sync-dir %s: %s", a, class(m.fs.SyncDir(m.abs(a))))
	case 13:
		l, err := m.fs.Lock(m.abs(a))
		if err == nil {
			m.locks[a+fmt.Sprint(len(m.lines))] = l
		}
		m.note("lock %s: %s", a, class(err))
	case 14:
		for _, k := range sortedKeys(m.locks) {
			m.note("unlock %s: %s", k, class(m.locks[k].Close()))
			delete(m.locks, k)
			break
		}
	case 15, 16, 17:
		off, p := m.position(), make([]byte, 1+m.r.IntN(3000))
		if m.r.IntN(8) == 0 {
			p = make([]byte, 1+m.r.IntN(2*blockSize))
		}
		for j := range p {
			p[j] = byte(m.r.Uint32())
		}
		if f != nil {
			n, err := f.WriteAt(p, off)
			m.note("write #%d %d+%d: %d %s", i, off, len(p), n, class(err))
		}
	case 18:
		off, p := m.position(), make([]byte, 1+m.r.IntN(2*blockSize))
		if f != nil {
			n, err := f.ReadAt(p, off)
			m.note("read #%d %d+%d: %d %x %s", i, off, len(p), n, hash(string(p[:n])), class(err))
		}
	case 19:
		if f != nil {
			size, err := f.Size()
			m.note("size #%d: %d %s", i, size, class(err))
		}
	case 20:
		if size := m.position(); f != nil {
			m.note("truncate #%d %d: %s", i, size, class(f.Truncate(size)))
		}
	case 21:
		if f != nil {
			m.note("sync #%d: %s", i, class(f.Sync()))
			if m.r.IntN(2) == 0 {
				m.note("close #%d: %s", i, class(f.Close()))
			}
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	names := map[string]*node{}
	for k := range m {
		names[k] = nil
	}
	return sortedNames(names)
}

// tree returns all that a file system holds, a line each.
func tree(t testing.TB, fsys FS, dir string) string {
	t.Helper()
	var b strings.Builder
	var walk func(name string)
	walk = func(name string) {
		info, err := fsys.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatalf("stat %s: %v", name, err)
		}
		if !info.IsDir {
			p := contents(t, fsys, filepath.Join(dir, name))
			fmt.Fprintf(&b, "%s %d %x\n", name, len(p), hash(string(p)))
			return
		}
		fmt.Fprintf(&b, "%s/\n", name)
		names, err := fsys.List(filepath.Join(dir, name))
		if err != nil {
			t.Fatalf("list %s: %v", name, err)
		}
		for _, n := range names {
			walk(name + "/" + n)
		}
	}
	walk("")
	return b.String()
}

// contents returns the bytes of a file.
func contents(t testing.TB, fsys FS, name string) []byte {
	t.Helper()
	f, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, size)
	if n, err := f.ReadAt(p, 0); n != len(p) || (err != nil && err != io.EOF) {
		t.Fatalf("read %s: got %d bytes and %v, want %d", name, n, err, size)
	}
	return p
}

// TestMemDoesWhatTheOperatingSystemDoes runs the same operations on both and wants the same results.
func TestMemDoesWhatTheOperatingSystemDoes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Mem gives the errors of POSIX")
	}
	for _, seed := range seeds(40) {
		dir := t.TempDir()
		mem := NewMem(MemOptions{Crashable: seed%2 == 0})
		onOS, onMem := newModel(OS(), dir, seed), newModel(mem, "", seed)
		for range 600 {
			onOS.step()
			onMem.step()
			n := len(onOS.lines)
			if n != len(onMem.lines) || n > 0 && onOS.lines[n-1] != onMem.lines[n-1] {
				t.Fatalf("seed %d, operation %d:\nOS:  %s\nMem: %s\nrepeat: go test -run '^%s$' ./storage/vfs -seed %d\nbefore:\n%s",
					seed, n, onOS.lines[n-1], onMem.lines[len(onMem.lines)-1], t.Name(), seed, strings.Join(onOS.lines[max(0, n-30):n-1], "\n"))
			}
		}
		if got, want := tree(t, mem, "/"), tree(t, OS(), dir); got != want {
			t.Fatalf("seed %d: Mem holds\n%swant, as the operating system:\n%s", seed, got, want)
		}
		for _, m := range []*model{onOS, onMem} {
			for _, f := range m.open {
				f.Close()
			}
			for _, l := range m.locks {
				l.Close()
			}
		}
		if got, want := mem.used.Load(), totalSize(t, mem); got != want {
			t.Fatalf("seed %d: Mem counts %d bytes, its files have %d", seed, got, want)
		}
	}
}

// totalSize returns the sizes of all files together.
func totalSize(t testing.TB, fsys FS) (total int64) {
	for line := range strings.Lines(tree(t, fsys, "/")) {
		var name string
		var size int64
		if n, _ := fmt.Sscanf(line, "%s %d", &name, &size); n == 2 {
			total += size
		}
	}
	return total
}

// TestMemKeepsItsBytesOverClones checks that neither a clone nor what is done to it changes the original, and that a
// clone that keeps everything is equal to it.
func TestMemKeepsItsBytesOverClones(t *testing.T) {
	for _, seed := range seeds(15) {
		mem := NewMem(MemOptions{Crashable: true})
		m := newModel(mem, "", seed)
		for range 8 {
			for range 80 {
				m.step()
			}
			before := tree(t, mem, "/")
			whole, killed, none := mem.CrashClone(seed, 1), mem.KillClone(), mem.CrashClone(seed, 0)
			synced := tree(t, none, "/")
			for what, c := range map[string]*Mem{"CrashClone that keeps all": whole, "KillClone": killed} {
				if got := tree(t, c, "/"); got != before {
					t.Fatalf("seed %d: %s holds\n%swant\n%s", seed, what, got, before)
				}
				if got, want := c.used.Load(), totalSize(t, c); got != want {
					t.Fatalf("seed %d: %s counts %d bytes, its files have %d", seed, what, got, want)
				}
			}
			if got := tree(t, killed.CrashClone(seed, 0), "/"); got != synced {
				t.Fatalf("seed %d: a power loss after KillClone leaves\n%swant\n%s", seed, got, synced)
			}
			for _, c := range []*Mem{whole, killed, none} {
				x := newModel(c, "", seed+1)
				for range 80 {
					x.step()
				}
			}
			if got := tree(t, mem, "/"); got != before {
				t.Fatalf("seed %d: after work on its clones the original holds\n%swant\n%s", seed, got, before)
			}
			if got := tree(t, mem.CrashClone(seed, 0), "/"); got != synced {
				t.Fatalf("seed %d: after work on its clones the original has durable\n%swant\n%s", seed, got, synced)
			}
		}
	}
}
