package storage

import (
	"fmt"
	"sync"
	"testing"

	"github.com/kaen-log/gateway/storage/vfs"
	"github.com/kaen-log/gateway/storage/vfs/vfstest"
)

// manyTopics returns a memory file system with a store of n topics, closed in order or not.
func manyTopics(b *testing.B, fsys vfs.FS, dir string, n int, clean bool) {
	b.Helper()
	s, err := Open(dir, Options{FS: fsys})
	if err != nil {
		b.Fatal(err)
	}
	specs := make([]TopicSpec, n)
	for i := range specs {
		specs[i] = TopicSpec{Name: fmt.Sprintf("topic-with-a-usual-name-%05d", i), Partitions: 1, Configs: map[string]string{"retention.ms": "86400000"}}
	}
	_, errs := s.CreateTopics(specs)
	for _, err := range errs {
		if err != nil {
			b.Fatal(err)
		}
	}
	if clean {
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		return
	}
	s.lock.Close()
}

// BenchmarkReplay reads the metadata log of a directory with topics.
func BenchmarkReplay(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("topics=%d/fs=mem", n), func(b *testing.B) {
			mem := vfs.NewMem(vfs.MemOptions{})
			manyTopics(b, mem, testDir, n, true)
			b.ReportAllocs()
			for b.Loop() {
				r, err := replayMetadata(mem, testDir+"/__gateway_metadata-0", 0, 0)
				if err != nil || len(r.state.topics) != n {
					b.Fatalf("%v, want %d topics", err, n)
				}
				b.SetBytes(r.bytes)
			}
		})
	}
}

// BenchmarkOpen opens and unlocks a directory with topics, after a clean stop and after a kill.
func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{0, 10_000} {
		for _, fs := range []string{"mem", "os"} {
			b.Run(fmt.Sprintf("topics=%d/fs=%s", n, fs), func(b *testing.B) {
				var fsys vfs.FS = vfs.NewMem(vfs.MemOptions{})
				dir := testDir
				if fs == "os" {
					vfstest.PrintPlace(b)
					fsys, dir = vfs.OS(), b.TempDir()
				}
				manyTopics(b, fsys, dir, n, false)
				b.ReportAllocs()
				for b.Loop() {
					s, err := Open(dir, Options{FS: fsys})
					if err != nil || len(s.byName) != n {
						b.Fatalf("%v, want %d topics", err, n)
					}
					s.lock.Close()
				}
			})
		}
	}
}

// BenchmarkCreateTopic creates topics one after the other and from many goroutines that share commits.
func BenchmarkCreateTopic(b *testing.B) {
	for _, clients := range []int{1, 64} {
		for _, fs := range []string{"mem", "os"} {
			b.Run(fmt.Sprintf("clients=%d/fs=%s", clients, fs), func(b *testing.B) {
				var fsys vfs.FS = vfs.NewMem(vfs.MemOptions{})
				dir := testDir
				if fs == "os" {
					vfstest.PrintPlace(b)
					fsys, dir = vfs.OS(), b.TempDir()
				}
				s, err := Open(dir, Options{FS: fsys})
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				b.ReportAllocs()
				n := 0
				for b.Loop() {
					var group sync.WaitGroup
					for c := range clients {
						group.Go(func() {
							if _, err := s.CreateTopic(TopicSpec{Name: fmt.Sprintf("t-%d-%d", n, c), Partitions: 1}); err != nil {
								b.Error(err)
							}
						})
					}
					group.Wait()
					n++
				}
				b.ReportMetric(float64(n*clients)/b.Elapsed().Seconds(), "topics/s")
			})
		}
	}
}

// BenchmarkTopics lists all topics, as a Metadata request for all does.
func BenchmarkTopics(b *testing.B) {
	mem := vfs.NewMem(vfs.MemOptions{})
	manyTopics(b, mem, testDir, 10_000, true)
	s, err := Open(testDir, Options{FS: mem})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		partitions := int32(0)
		for _, t := range s.Topics() {
			partitions += t.Partitions()
		}
		if partitions != 10_000 {
			b.Fatalf("%d partitions, want 10000", partitions)
		}
	}
}
