package vfs

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// lockEnv makes TestOSLockExcludesProcesses, run as a child, try the lock that it names.
const lockEnv = "VFS_TEST_LOCK"

func TestOSLockExcludesProcesses(t *testing.T) {
	if name := os.Getenv(lockEnv); name != "" {
		l, err := OS().Lock(name)
		if err != nil {
			os.Stdout.WriteString(class(err) + "\n")
			return
		}
		l.Close()
		os.Stdout.WriteString("taken\n")
		return
	}
	name := filepath.Join(t.TempDir(), ".lock")
	child := func() string {
		t.Helper()
		exe, err := os.Executable()
		check(t, err)
		cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestOSLockExcludesProcesses$")
		cmd.Env = append(os.Environ(), lockEnv+"="+name)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("child: %v\n%s", err, out)
		}
		for line := range splitLines(out) {
			return line
		}
		return ""
	}
	l, err := OS().Lock(name)
	check(t, err)
	if got := child(); got != "locked" {
		t.Errorf("another process: got %q, want locked", got)
	}
	if _, err := OS().Lock(name); !errors.Is(err, ErrLocked) {
		t.Errorf("this process: got %v, want ErrLocked", err)
	}
	link := filepath.Join(t.TempDir(), "other")
	if os.Link(name, link) == nil {
		if _, err := OS().Lock(link); !errors.Is(err, ErrLocked) {
			t.Errorf("this process by another name: got %v, want ErrLocked", err)
		}
	}
	if got := child(); got != "locked" {
		t.Errorf("another process, after this one tried again: got %q, want locked", got)
	}
	check(t, l.Close())
	if got := child(); got != "taken" {
		t.Errorf("another process, after the lock was released: got %q, want taken", got)
	}
	l, err = OS().Lock(name)
	check(t, err)
	check(t, l.Close())
}

// splitLines yields the lines of a child's output without their ends.
func splitLines(out []byte) func(func(string) bool) {
	return func(yield func(string) bool) {
		start := 0
		for i, c := range out {
			if c == '\n' {
				if !yield(string(out[start:i])) {
					return
				}
				start = i + 1
			}
		}
	}
}

func TestOSFullDiskIsErrNoSpace(t *testing.T) {
	f, err := OS().Open("/dev/full")
	if err != nil {
		t.Skip("no /dev/full here")
	}
	defer f.Close()
	n, err := f.WriteAt([]byte("x"), 0)
	if n != 0 || !errors.Is(err, ErrNoSpace) || !IsNoSpace(err) {
		t.Errorf("got %d, %v; want 0, ErrNoSpace", n, err)
	}
	var pe *fs.PathError
	if !errors.As(err, &pe) {
		t.Errorf("got %T, want a *fs.PathError within", err)
	}
}

func TestOSOpensForReadingWhatItMayNotWrite(t *testing.T) {
	if runtime.GOOS == "windows" || os.Geteuid() == 0 {
		t.Skip("this user may write everything")
	}
	name := filepath.Join(t.TempDir(), "f")
	check(t, os.WriteFile(name, []byte("text"), 0o400))
	if got := string(contents(t, OS(), name)); got != "text" {
		t.Errorf("got %q, want text", got)
	}
	f, err := OS().Open(name)
	check(t, err)
	defer f.Close()
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("a write to a file that may not be written succeeded")
	}
}

func TestOSFreeIsOfTheFileSystem(t *testing.T) {
	free, total, err := OS().Free(t.TempDir())
	if err != nil || free <= 0 || total < free {
		t.Errorf("got %d of %d, %v", free, total, err)
	}
	if _, _, err := OS().Free(filepath.Join(t.TempDir(), "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing directory: got %v, want ErrNotExist", err)
	}
}
