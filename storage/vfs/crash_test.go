package vfs

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestCrashClonesRepeat(t *testing.T) {
	for _, seed := range seeds(20) {
		mem := NewMem(MemOptions{Crashable: true})
		m := newModel(mem, "", seed)
		for range 300 {
			m.step()
		}
		differ := false
		first := tree(t, mem.CrashClone(1, 0.5), "/")
		for s := range uint64(10) {
			a, b := tree(t, mem.CrashClone(s, 0.5), "/"), tree(t, mem.CrashClone(s, 0.5), "/")
			if a != b {
				t.Fatalf("model seed %d, clone seed %d: got\n%sand then\n%s", seed, s, a, b)
			}
			differ = differ || a != first
		}
		if !differ {
			t.Errorf("model seed %d: ten seeds gave one clone", seed)
		}
	}
}

// TestCrashKeepsWhatWasSynced moves, makes and removes around files that are durable, syncs now and then, and crashes
// again and again: each of the files is found exactly once, whole, under some name.
func TestCrashKeepsWhatWasSynced(t *testing.T) {
	const files = 6
	for _, seed := range seeds(120) {
		r := rand.New(rand.NewPCG(seed, 2))
		mem := NewMem(MemOptions{Crashable: true})
		dirs := []string{"/", "/a", "/b", "/a/c", "/a/c/d"}
		for _, d := range dirs {
			check(t, mem.MkdirAll(d))
		}
		for i := range files {
			f, err := mem.Create(fmt.Sprintf("/a/keep%d", i))
			check(t, err)
			_, err = f.WriteAt(bytes.Repeat([]byte{byte('A' + i)}, 700), 0)
			check(t, err)
			check(t, f.Sync())
			check(t, f.Close())
		}
		for _, d := range dirs {
			check(t, mem.SyncDir(d))
		}
		var done []string
		for round := range 6 {
			for range 12 {
				// Errors are as good as success here: the directory may be gone or in the way.
				d, e := dirs[r.IntN(len(dirs))], dirs[r.IntN(len(dirs))]
				switch r.IntN(6) {
				case 0, 1:
					if names, _ := mem.List(d); len(names) > 0 {
						n := names[r.IntN(len(names))]
						if _, err := mem.Stat(e + "/" + n); err != nil {
							done = append(done, fmt.Sprintf("rename %s/%s %s/%s: %v", d, n, e, n, mem.Rename(d+"/"+n, e+"/"+n)))
						}
					}
				case 2:
					done = append(done, fmt.Sprintf("mkdir-all %s: %v", d, mem.MkdirAll(d)))
				case 3:
					if d != "/" {
						done = append(done, fmt.Sprintf("remove %s: %v", d, mem.Remove(d)))
					}
				case 4:
					if f, err := mem.Create(d + "/scratch"); err == nil {
						f.Close()
						done = append(done, "create "+d+"/scratch")
					}
				case 5:
					done = append(done, fmt.Sprintf("sync-dir %s: %v", d, mem.SyncDir(d)))
				}
			}
			keep := []float64{0, 0.2, 0.5, 0.8, 1}[r.IntN(5)]
			for s := range uint64(4) {
				c := mem.CrashClone(s, keep)
				if err := findAll(t, c, files); err != nil {
					t.Fatalf("seed %d round %d clone seed %d keep %v: %v in\n%safter\n%s\nrepeat: go test -run '^%s$' ./storage/vfs -seed %d",
						seed, round, s, keep, err, tree(t, c, "/"), strings.Join(done, "\n"), t.Name(), seed)
				}
			}
			if round%2 == 1 {
				mem = mem.CrashClone(seed, keep)
				done = append(done, fmt.Sprintf("crash keep=%v", keep))
			}
		}
	}
}

// findAll looks for the files of TestCrashKeepsWhatWasSynced.
func findAll(t *testing.T, fsys FS, files int) error {
	var found []string
	for line := range strings.Lines(texts(t, fsys)) {
		name, text, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && !strings.HasSuffix(name, "scratch") {
			found = append(found, text)
		}
	}
	slices.Sort(found)
	var want []string
	for i := range files {
		want = append(want, fmt.Sprintf("[%c*700]", 'A'+i))
	}
	if !slices.Equal(found, want) {
		return fmt.Errorf("got files %v, want %v", found, want)
	}
	return nil
}

// TestCrashOfAppendsLeavesWhatWasWritten appends with a sync now and then: in every clone the synced bytes are there,
// the size lies between the synced one and the whole, and each later sector is new or zeros.
func TestCrashOfAppendsLeavesWhatWasWritten(t *testing.T) {
	for _, seed := range seeds(30) {
		r := rand.New(rand.NewPCG(seed, 3))
		mem := NewMem(MemOptions{Crashable: true})
		f, err := mem.Create("log")
		check(t, err)
		check(t, mem.SyncDir("/"))
		var all []byte
		synced := 0
		for range 30 {
			p := make([]byte, 1+r.IntN(3000))
			if r.IntN(10) == 0 {
				p = make([]byte, 1+r.IntN(2*blockSize))
			}
			for i := range p {
				p[i] = byte(1 + r.IntN(255))
			}
			_, err := f.WriteAt(p, int64(len(all)))
			check(t, err)
			all = append(all, p...)
			if r.IntN(4) == 0 {
				check(t, f.Sync())
				synced = len(all)
			}
			for s := range uint64(3) {
				got := contents(t, mem.CrashClone(s, 0.5), "log")
				if len(got) < synced || len(got) > len(all) {
					t.Fatalf("seed %d clone seed %d: got %d bytes, want %d to %d", seed, s, len(got), synced, len(all))
				}
				if !bytes.Equal(got[:synced], all[:synced]) {
					t.Fatalf("seed %d clone seed %d: the %d synced bytes are not there", seed, s, synced)
				}
				for from := synced; from < len(got); {
					to := min(len(got), (from/sectorSize+1)*sectorSize)
					sector := bytes.TrimRight(got[from:to], "\x00")
					if !bytes.HasPrefix(all[from:to], sector) {
						t.Fatalf("seed %d clone seed %d: the sector at %d holds what was never there", seed, s, from)
					}
					from = to
				}
			}
		}
	}
}

// TestCrashDoesNotHalfUndoACut cuts a file and writes behind the cut. Where a clone shows the old size, the pages that
// the cut took away whole are the old ones.
func TestCrashDoesNotHalfUndoACut(t *testing.T) {
	mem := NewMem(MemOptions{Crashable: true})
	f, err := mem.Create("f")
	check(t, err)
	_, err = f.WriteAt(bytes.Repeat([]byte{'a'}, 3*pageSize), 0)
	check(t, err)
	check(t, f.Sync())
	check(t, mem.SyncDir("/"))
	check(t, f.Truncate(100))
	_, err = f.WriteAt(bytes.Repeat([]byte{'b'}, 2*pageSize), 100)
	check(t, err)
	mixed := false
	for seed := range uint64(200) {
		p := contents(t, mem.CrashClone(seed, 0.5), "f")
		if len(p) < 3*pageSize {
			continue
		}
		if got := runs(p[pageSize:]); got != "[a*8192]" {
			t.Fatalf("clone seed %d has the old size and, past the page that was cut, %s", seed, got)
		}
		mixed = mixed || bytes.IndexByte(p, 'b') >= 0
	}
	if !mixed {
		t.Error("no clone has the old size and a new sector in the page that was cut")
	}
}

// TestSkippedSyncsAreNoticed shows that a crash takes what a left-out sync would have kept.
func TestSkippedSyncsAreNoticed(t *testing.T) {
	for _, c := range []struct {
		skip OpKind
		want string
	}{{OpSize, "f [text]\n"}, {OpSync, "f []\n"}, {OpSyncDir, "nothing\n"}} {
		mem := NewMem(MemOptions{Crashable: true})
		fsys := SkipSyncs(mem, func(o Op) bool { return o.Kind == c.skip })
		f, err := fsys.Create("f")
		check(t, err)
		_, err = f.WriteAt([]byte("text"), 0)
		check(t, err)
		check(t, f.Sync())
		check(t, fsys.SyncDir("/"))
		if got := texts(t, mem.CrashClone(1, 0)); got != c.want {
			t.Errorf("skip %v: the crash leaves %q, want %q", c.skip, got, c.want)
		}
	}
}

func TestCloneNeedsCrashable(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("CrashClone of a Mem that is not Crashable returned")
		}
	}()
	NewMem(MemOptions{}).CrashClone(1, 0)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
