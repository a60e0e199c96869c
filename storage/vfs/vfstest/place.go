// Package vfstest has what benchmarks on the operating system's file system share.
package vfstest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage/vfs"
)

// placeOnce has the place that the benchmarks ran at printed once, in the form that benchstat takes over.
var placeOnce sync.Once

// PrintPlace prints once the file system of the benchmarks' temporary directory and the median time of a sync there.
func PrintPlace(b *testing.B) {
	placeOnce.Do(func() {
		dir := b.TempDir()
		fmt.Printf("fs: %s\nfdatasync-p50: %v\n", fileSystemOf(dir), syncTime(b, dir).Round(time.Microsecond))
	})
}

// fileSystemOf returns the type of the file system that holds dir, as the system's list of mounts has it.
func fileSystemOf(dir string) string {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "unknown"
	}
	kind, longest := "unknown", -1
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if len(f) < 3 || len(f[1]) <= longest {
			continue
		}
		if rel, err := filepath.Rel(f[1], dir); err == nil && !strings.HasPrefix(rel, "..") {
			kind, longest = f[2], len(f[1])
		}
	}
	return kind
}

// syncTime is the median time of a sync after a write of 4 KiB.
func syncTime(b *testing.B, dir string) time.Duration {
	f, err := vfs.OS().Create(filepath.Join(dir, "sync"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	var took []time.Duration
	for i := range int64(51) {
		if _, err := f.WriteAt(make([]byte, 4096), i*4096); err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took[len(took)/2]
}
