package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
)

func TestMemCapacityIsAWall(t *testing.T) {
	mem := NewMem(MemOptions{Capacity: 1000})
	f, err := mem.Create("f")
	check(t, err)
	_, err = f.WriteAt(make([]byte, 600), 0)
	check(t, err)
	n, err := f.WriteAt(bytes.Repeat([]byte{'x'}, 600), 600)
	if n != 400 || !errors.Is(err, ErrNoSpace) || !IsNoSpace(err) {
		t.Fatalf("write of 600 bytes with 400 left: got %d, %v; want 400, ErrNoSpace", n, err)
	}
	if size, _ := f.Size(); size != 1000 {
		t.Errorf("size after the short write: got %d, want 1000", size)
	}
	if n, err := f.WriteAt(make([]byte, 100), 900); n != 100 || err != nil {
		t.Errorf("overwrite on a full file system: got %d, %v; want 100, nil", n, err)
	}
	if n, err := f.WriteAt([]byte("x"), 5000); n != 0 || !errors.Is(err, ErrNoSpace) {
		t.Errorf("write after a gap on a full file system: got %d, %v; want 0, ErrNoSpace", n, err)
	}
	if err := f.Truncate(1001); !errors.Is(err, ErrNoSpace) {
		t.Errorf("longer truncate on a full file system: got %v, want ErrNoSpace", err)
	}
	free := func(want int64) {
		t.Helper()
		if free, total, err := mem.Free("/"); free != want || total != 1000 || err != nil {
			t.Errorf("free: got %d of %d, %v; want %d of 1000", free, total, err, want)
		}
	}
	free(0)
	check(t, f.Truncate(300))
	free(700)
	check(t, mem.Remove("f"))
	free(700) // the handle still has the bytes
	check(t, f.Close())
	free(1000)
}

func TestMemFileOutlivesItsName(t *testing.T) {
	mem := NewMem(MemOptions{})
	f, err := mem.Create("f")
	check(t, err)
	_, err = f.WriteAt([]byte("old"), 0)
	check(t, err)
	check(t, mem.Remove("f"))
	g, err := mem.Create("f")
	check(t, err)
	_, err = g.WriteAt([]byte("other"), 0)
	check(t, err)
	p := make([]byte, 10)
	if n, err := f.ReadAt(p, 0); string(p[:n]) != "old" || err != io.EOF {
		t.Errorf("removed file: got %q, %v; want old, EOF", p[:n], err)
	}
}

func TestMemLockExcludesUntilClosed(t *testing.T) {
	mem := NewMem(MemOptions{Crashable: true})
	l, err := mem.Lock("l")
	check(t, err)
	if _, err := mem.Lock("/l"); !errors.Is(err, ErrLocked) {
		t.Errorf("second lock: got %v, want ErrLocked", err)
	}
	for what, c := range map[string]*Mem{"crash": mem.CrashClone(1, 1), "kill": mem.KillClone()} {
		if _, err := c.Lock("l"); err != nil {
			t.Errorf("lock after a %s: got %v, want none", what, err)
		}
	}
	check(t, l.Close())
	if err := l.Close(); class(err) != "closed" {
		t.Errorf("second close: got %v, want ErrClosed", err)
	}
	l, err = mem.Lock("l")
	check(t, err)
	check(t, l.Close())
}

// TestMemReadersSeeWholeAppends has readers follow a writer that appends, cuts and appends again: what lies below the
// size that the writer has published is there.
func TestMemReadersSeeWholeAppends(t *testing.T) {
	for _, crashable := range []bool{false, true} {
		mem := NewMem(MemOptions{Crashable: crashable})
		f, err := mem.Create("f")
		check(t, err)
		const step, rounds = 777, 600
		at := func(pos int64) byte { return byte(pos%251) + 1 }
		var published atomic.Int64
		var wg sync.WaitGroup
		done := make(chan struct{})
		for range 2 {
			wg.Go(func() {
				p := make([]byte, 3*step)
				for {
					select {
					case <-done:
						return
					default:
					}
					end := published.Load()
					off := max(0, end-int64(len(p)))
					n, err := f.ReadAt(p[:end-off], off)
					if int64(n) != end-off || err != nil {
						t.Errorf("read of [%d, %d): got %d bytes, %v", off, end, n, err)
						return
					}
					for i, c := range p[:n] {
						if want := at(off + int64(i)); c != want {
							t.Errorf("byte at %d: got %d, want %d", off+int64(i), c, want)
							return
						}
					}
				}
			})
		}
		p := make([]byte, 2*step)
		for i := range int64(rounds) {
			off := i * step
			for j := range p {
				p[j] = at(off + int64(j))
			}
			_, err := f.WriteAt(p, off)
			check(t, err)
			check(t, f.Truncate(off+step))
			published.Store(off + step)
			if i%100 == 0 {
				check(t, f.Sync())
			}
		}
		close(done)
		wg.Wait()
	}
}

// TestMemClonesAreOneInstant writes and syncs two files in turn, while clones are taken: no clone has the later file
// without the earlier one.
func TestMemClonesAreOneInstant(t *testing.T) {
	mem := NewMem(MemOptions{Crashable: true})
	a, err := mem.Create("a")
	check(t, err)
	b, err := mem.Create("b")
	check(t, err)
	check(t, mem.SyncDir("/"))
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		for i := range 3000 {
			for _, f := range []File{a, b} {
				if _, err := f.WriteAt([]byte{byte(i)}, 0); err != nil {
					t.Error(err)
				}
				if err := f.Sync(); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		c := mem.CrashClone(1, 0)
		x, y := contents(t, c, "a"), contents(t, c, "b")
		if len(x) < len(y) || len(y) > 0 && x[0] != y[0] && x[0] != y[0]+1 {
			t.Fatalf("a holds %v and b, written after it, %v", x, y)
		}
	}
	wg.Wait()
}

// TestMemTakesAllCallsAtOnce runs random operations in several goroutines, with clones beside them. It is for the race
// detector.
func TestMemTakesAllCallsAtOnce(t *testing.T) {
	for _, crashable := range []bool{false, true} {
		mem := NewMem(MemOptions{Crashable: crashable, Capacity: 1 << 20})
		shared, err := mem.Create("shared")
		check(t, err)
		var wg sync.WaitGroup
		for i := range uint64(4) {
			wg.Go(func() {
				m := newModel(mem, "", i)
				m.open = append(m.open, shared)
				for range 400 {
					m.step()
					m.open[0] = shared
				}
				for _, f := range m.open[1:] {
					f.Close()
				}
			})
		}
		for i := uint64(0); crashable && i < 20; i++ {
			tree(t, mem.CrashClone(i, 0.5), "/")
			tree(t, mem.KillClone(), "/")
		}
		wg.Wait()
		shared.Close()
		if got, want := mem.used.Load(), totalSize(t, mem); got != want {
			t.Errorf("crashable=%v: Mem counts %d bytes, its files have %d", crashable, got, want)
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 1 << 20} {
		for _, kind := range []string{"mem", "crashable", "os"} {
			b.Run(fmt.Sprintf("write=%dKiB/fs=%s", size>>10, kind), func(b *testing.B) {
				f := benchFile(b, kind)
				p := make([]byte, size)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				var off int64
				for b.Loop() {
					if off >= 256<<20 {
						check(b, f.Truncate(0))
						off = 0
					}
					if _, err := f.WriteAt(p, off); err != nil {
						b.Fatal(err)
					}
					off += int64(size)
					if kind == "crashable" && off%(1<<20) == 0 {
						check(b, f.Sync())
					}
				}
			})
		}
	}
}

func BenchmarkRead(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
		for _, kind := range []string{"mem", "os"} {
			f := benchFile(b, kind)
			_, err := f.WriteAt(make([]byte, 16<<20), 0)
			check(b, err)
			b.Run(fmt.Sprintf("read=%dKiB/fs=%s", size>>10, kind), func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					p := make([]byte, size)
					for off := int64(0); pb.Next(); off = (off + int64(size)) % (16 << 20) {
						if _, err := f.ReadAt(p, off); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
}

func BenchmarkSync(b *testing.B) {
	f := benchFile(b, "os")
	p := make([]byte, 4<<10)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	var off int64
	for b.Loop() {
		if _, err := f.WriteAt(p, off); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		off += int64(len(p))
	}
}

func BenchmarkCrashClone(b *testing.B) {
	mem := NewMem(MemOptions{Crashable: true})
	for i := range 100 {
		f, err := mem.Create(fmt.Sprint(i))
		check(b, err)
		_, err = f.WriteAt(make([]byte, 100<<10), 0)
		check(b, err)
		check(b, f.Sync())
		_, err = f.WriteAt(make([]byte, 4<<10), 100<<10)
		check(b, err)
	}
	check(b, mem.SyncDir("/"))
	b.ReportAllocs()
	seed := uint64(0)
	for b.Loop() {
		seed++
		mem.CrashClone(seed, 0.5)
	}
}

func benchFile(b *testing.B, kind string) File {
	var fsys FS = NewMem(MemOptions{Crashable: kind == "crashable"})
	name := "f"
	if kind == "os" {
		fsys, name = OS(), b.TempDir()+"/f"
	}
	f, err := fsys.Create(name)
	check(b, err)
	b.Cleanup(func() { f.Close() })
	return f
}
