package storage

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kaen-log/gateway/storage/vfs"
)

func TestOffsetCheckpointWritesKafkasBytes(t *testing.T) {
	offsets := []PartitionOffset{{"orders", 0, 42}, {"__consumer_offsets", 17, 9223372036854775807}}
	b := encodeOffsetCheckpoint(offsets)
	if got, want := string(b), "0\n2\norders 0 42\n__consumer_offsets 17 9223372036854775807\n"; got != want {
		t.Errorf("encoded %q, want %q", got, want)
	}
	if got, err := DecodeOffsetCheckpoint(b); err != nil || !slices.Equal(got, offsets) {
		t.Errorf("decoded %+v, %v, want %+v", got, err, offsets)
	}
	if got, want := string(encodeOffsetCheckpoint(nil)), "0\n0\n"; got != want {
		t.Errorf("empty encodes to %q, want %q", got, want)
	}
}

func TestDecodeOffsetCheckpoint(t *testing.T) {
	for _, c := range []struct {
		text  string
		lines int
		want  string // of the error
	}{
		{"", 0, ""},
		{"0\n", 0, ""},
		{"0\n0\n", 0, ""},
		{"0\n1\na 0 1", 1, ""},
		{"0\r\n1\r\na 0 1\r\n", 1, ""},
		{"0\n1\na \t 0  1 \n", 1, ""},
		{"0\n2\na 0 1\na 0 2\n", 2, ""},
		{"1\n0\n", 0, `line 1: version "1", want 0`},
		{"\n", 0, `line 1: version "", want 0`},
		{"\xff\xfe\n", 0, "line 1: version"},
		{"0\nmany\n", 0, `line 2: number of lines "many"`},
		{"0\n-1\n", 0, `line 2: number of lines "-1"`},
		{"0\n99999999999\n", 0, `line 2: number of lines "99999999999"`},
		{"0\n2147483647\na 0 1\n", 1, "line 4: 1 lines, the file announces 2147483647"},
		{"0\n2\na 0 1\n", 1, "line 4: 1 lines, the file announces 2"},
		{"0\n1\na 0 1\nb 0 1\n", 2, "2 lines, the file announces 1"},
		{"0\n2\na 0 1\n\n", 1, `line 4: "", want topic, partition and offset`},
		{"0\n2\na 0 1\nb 0\n", 1, `line 4: "b 0", want topic, partition and offset`},
		{"0\n1\na 0 1 extra\n", 0, `line 3: "a 0 1 extra", want topic`},
		{"0\n1\n a 0 1\n", 0, `line 3: " a 0 1", want topic`},
		{"0\n1\na x 1\n", 0, `line 3: partition "x"`},
		{"0\n1\na -1 1\n", 0, `line 3: partition "-1"`},
		{"0\n1\na 0 9223372036854775808\n", 0, `line 3: offset "9223372036854775808"`},
		{"0\n1\na 0 -1\n", 0, `line 3: offset "-1"`},
	} {
		got, err := DecodeOffsetCheckpoint([]byte(c.text))
		ok := err == nil
		if c.want != "" {
			ok = err != nil && strings.Contains(err.Error(), c.want)
		}
		if !ok || len(got) != c.lines {
			t.Errorf("%q: %d lines, error %v, want %d, %q", c.text, len(got), err, c.lines, c.want)
		}
	}
}

func TestCheckpointErrorsNameThePosition(t *testing.T) {
	_, err := DecodeOffsetCheckpoint([]byte("0\r\n2\r\na 0 1\r\nbroken\r\n"))
	var d *DecodeError
	if !errors.As(err, &d) || d.Position != 13 || d.Line != 4 {
		t.Errorf("error %+v, want position 13, line 4", d)
	}
	mem := vfs.NewMem(vfs.MemOptions{})
	if err := replaceFile(mem, "c", []byte("0\n2\na 0 1\nbroken\n")); err != nil {
		t.Fatal(err)
	}
	got, err := readOffsetCheckpoint(mem, "c")
	var damage *CorruptError
	if !errors.As(err, &damage) || damage.File != "c" || damage.Position != 10 || len(got) != 1 {
		t.Errorf("%d lines, error %v, want 1 and damage of c at 10", len(got), err)
	}
	if got, err := readOffsetCheckpoint(mem, "missing"); err != nil || len(got) != 0 {
		t.Errorf("missing file: %+v, %v, want an empty checkpoint", got, err)
	}
}

func TestReplaceFileSyncsBeforeItRenames(t *testing.T) {
	var trace []string
	fsys := vfs.Log(vfs.NewMem(vfs.MemOptions{}), func(line string) { trace = append(trace, line) })
	if err := fsys.MkdirAll("data"); err != nil {
		t.Fatal(err)
	}
	trace = nil
	if err := writeOffsetCheckpoint(fsys, "data/c", []PartitionOffset{{"a", 0, 1}}); err != nil {
		t.Fatal(err)
	}
	want := []string{"create data/c.tmp", "write data/c.tmp 0+10", "sync data/c.tmp", "rename data/c.tmp data/c", "sync-dir data"}
	if !slices.EqualFunc(trace, want, func(got, want string) bool { return strings.HasPrefix(got, want) }) {
		t.Errorf("trace:\n%s\nwant:\n%s", strings.Join(trace, "\n"), strings.Join(want, "\n"))
	}
}

func TestReplaceFileIsAllOrNothing(t *testing.T) {
	failed := errors.New("failed")
	for i := int64(0); ; i++ {
		mem := vfs.NewMem(vfs.MemOptions{})
		if err := replaceFile(mem, "f", []byte("old")); err != nil {
			t.Fatal(err)
		}
		n := int64(-1)
		fsys := vfs.Inject(mem, func(o vfs.Op) error {
			if n++; n == i {
				return failed
			}
			return nil
		})
		err := replaceFile(fsys, "f", []byte("new and longer"))
		got, readErr := readFile(mem, "f")
		if readErr != nil || string(got) != "old" && string(got) != "new and longer" || err == nil && string(got) == "old" {
			t.Fatalf("operation %d failed: replaceFile = %v, the file is %q, %v", i, err, got, readErr)
		}
		if n < i {
			if err != nil {
				t.Fatalf("no operation failed: %v", err)
			}
			return
		}
		if err == nil {
			t.Errorf("operation %d failed and was not reported", i)
		}
	}
}

func TestReplaceFileSurvivesACrash(t *testing.T) {
	for seed := range uint64(300) {
		mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
		if err := replaceFile(mem, "f", []byte("old")); err != nil {
			t.Fatal(err)
		}
		var clones []*vfs.Mem
		fsys := vfs.After(mem, func(vfs.Op, error) { clones = append(clones, mem.CrashClone(seed, 0.5)) })
		if err := replaceFile(fsys, "f", []byte("new and longer")); err != nil {
			t.Fatal(err)
		}
		clones = append(clones, mem.CrashClone(seed, 0))
		for i, c := range clones {
			got, err := readFile(c, "f")
			if err != nil || string(got) != "old" && string(got) != "new and longer" {
				t.Fatalf("seed %d, crash after operation %d: the file is %q, %v", seed, i, got, err)
			}
			if i == len(clones)-1 && string(got) == "old" {
				t.Fatalf("seed %d: the new content was lost after replaceFile returned", seed)
			}
		}
	}
}

func FuzzOffsetCheckpoint(f *testing.F) {
	f.Add([]byte("0\n2\na 0 1\nb 3 77\n"))
	f.Add([]byte("0\n2147483647\na 0 1\n"))
	f.Add([]byte("0\r\n1\r\na \t 0 1 \r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := DecodeOffsetCheckpoint(b)
		if err != nil {
			return
		}
		again, err := DecodeOffsetCheckpoint(encodeOffsetCheckpoint(got))
		if err != nil || !slices.Equal(got, again) {
			t.Fatalf("%q decodes to %+v, which comes back as %+v, %v", b, got, again, err)
		}
	})
}

func BenchmarkOffsetCheckpoint(b *testing.B) {
	var offsets []PartitionOffset
	for i := range 10_000 {
		offsets = append(offsets, PartitionOffset{fmt.Sprintf("some-topic-%d", i), 0, int64(i) * 1000})
	}
	data := encodeOffsetCheckpoint(offsets)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeOffsetCheckpoint(data); err != nil {
			b.Fatal(err)
		}
	}
}
