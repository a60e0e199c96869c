package vfs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestScripts runs the scripts in testdata. Each line of a run command is one operation on a Mem behind Log:
//
//	create NAME | write NAME OFFSET TEXT | truncate NAME SIZE | sync NAME | close NAME
//	open NAME | remove NAME | remove-all NAME | rename OLD NEW | mkdir-all NAME | sync-dir NAME
//	set-mod-time NAME SECONDS | lock NAME | unlock NAME | lose NAME (a sync that fails and loses)
//
// and the output is the trace. TEXT*N repeats it. The other commands show trees: tree; crash seed=1 keep=0.5; kill.
// With "go" the clone takes the place of the Mem. crashes seeds=N keep=K counts what N seeds leave.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script{t: t}
		s.start(NewMem(MemOptions{Crashable: true, Now: func() time.Time { return time.Unix(0, 0) }}))
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t = t
			return s.run(d)
		})
	})
}

type script struct {
	t     *testing.T
	mem   *Mem
	fs    FS
	files map[string]File
	locks map[string]interface{ Close() error }
	lose  bool
	trace strings.Builder
}

func (s *script) start(m *Mem) {
	s.mem, s.files, s.locks = m, map[string]File{}, map[string]interface{ Close() error }{}
	s.fs = Log(Inject(m, func(o Op) error {
		if o.Kind == OpSync && s.lose {
			return &LostSync{Err: errors.New("disk error")}
		}
		return nil
	}), func(line string) { fmt.Fprintln(&s.trace, line) })
}

func (s *script) run(d *datadriven.TestData) string {
	var seed, n int
	keep := 1.0
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "seed":
			d.ScanArgs(s.t, "seed", &seed)
		case "seeds":
			d.ScanArgs(s.t, "seeds", &n)
		case "keep":
			fmt.Sscan(arg.Vals[0], &keep)
		}
	}
	switch d.Cmd {
	case "run":
		s.trace.Reset()
		for line := range strings.Lines(d.Input) {
			if err := s.op(strings.Fields(line)); err != nil {
				fmt.Fprintf(&s.trace, "  %s\n", class(err))
			}
		}
		return s.trace.String()
	case "tree":
		return texts(s.t, s.mem)
	case "crash", "kill":
		c := s.mem.KillClone
		if d.Cmd == "crash" {
			c = func() *Mem { return s.mem.CrashClone(uint64(seed), keep) }
		}
		m := c()
		if d.HasArg("go") {
			s.start(m)
		}
		return texts(s.t, m)
	case "crashes":
		count := map[string]int{}
		for seed := range n {
			count[strings.ReplaceAll(strings.TrimSpace(texts(s.t, s.mem.CrashClone(uint64(seed), keep))), "\n", "; ")]++
		}
		var b strings.Builder
		for _, k := range sortedKeys(count) {
			fmt.Fprintln(&b, k)
		}
		return b.String()
	}
	s.t.Fatalf("unknown command %s", d.Cmd)
	return ""
}

func (s *script) op(f []string) error {
	name := f[1]
	switch f[0] {
	case "create", "open":
		open := s.fs.Create
		if f[0] == "open" {
			open = s.fs.Open
		}
		file, err := open(name)
		if err == nil {
			s.files[name] = file
		}
		return err
	case "write":
		var off int64
		times := 1
		fmt.Sscan(f[2], &off)
		text, n, many := strings.Cut(f[3], "*")
		if many {
			fmt.Sscan(n, &times)
		}
		_, err := s.files[name].WriteAt([]byte(strings.Repeat(text, times)), off)
		return err
	case "truncate":
		var size int64
		fmt.Sscan(f[2], &size)
		return s.files[name].Truncate(size)
	case "sync":
		return s.files[name].Sync()
	case "lose":
		s.lose = true
		defer func() { s.lose = false }()
		return s.files[name].Sync()
	case "close":
		return s.files[name].Close()
	case "remove":
		return s.fs.Remove(name)
	case "remove-all":
		return s.fs.RemoveAll(name)
	case "rename":
		return s.fs.Rename(name, f[2])
	case "mkdir-all":
		return s.fs.MkdirAll(name)
	case "sync-dir":
		return s.fs.SyncDir(name)
	case "set-mod-time":
		var sec int64
		fmt.Sscan(f[2], &sec)
		return s.fs.SetModTime(name, time.Unix(sec, 0))
	case "lock":
		l, err := s.fs.Lock(name)
		if err == nil {
			s.locks[name] = l
		}
		return err
	case "unlock":
		return s.locks[name].Close()
	}
	return fmt.Errorf("unknown operation %s", f[0])
}

// texts returns the tree of fsys with the bytes of the files: a run of more than 8 equal ones as c*n, zeros as 0.
func texts(t testing.TB, fsys FS) string {
	var b strings.Builder
	for line := range strings.Lines(tree(t, fsys, "/")) {
		name := strings.TrimPrefix(strings.Fields(line)[0], "/")
		if name == "" {
			continue
		}
		b.WriteString(name)
		if !strings.HasSuffix(name, "/") {
			b.WriteString(" " + runs(contents(t, fsys, name)))
		}
		b.WriteString("\n")
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

func runs(p []byte) string {
	var parts []string
	plain := ""
	for len(p) > 0 {
		n := 1
		for n < len(p) && p[n] == p[0] {
			n++
		}
		switch {
		case p[0] == 0:
			parts, plain = append(parts, plain, fmt.Sprintf("zeros*%d", n)), ""
		case n > 8:
			parts, plain = append(parts, plain, fmt.Sprintf("%c*%d", p[0], n)), ""
		default:
			plain += string(p[:n])
		}
		p = p[n:]
	}
	return "[" + strings.Join(strings.Fields(strings.Join(append(parts, plain), " ")), " ") + "]"
}
