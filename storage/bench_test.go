package storage

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
	"github.com/kaen-log/gateway/storage/vfs/vfstest"
)

// benchBatch is a batch of about size bytes.
func benchBatch(size int) record.Batch {
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: -1})
	value := bytes.Repeat([]byte("x"), 1000)
	for b.UncompressedSize()+1100 < size || b.Count() == 0 {
		b.Append(record.Record{Timestamp: 1_700_000_000_000, Value: value})
	}
	return bytes.Clone(b.Bytes())
}

// benchRig is a logRig on the disk of the machine, or in memory.
func benchRig(b *testing.B, fsName string) *logRig {
	b.Helper()
	fsys := vfs.FS(vfs.NewMem(vfs.MemOptions{}))
	dir := "data"
	if fsName == "disk" {
		vfstest.PrintPlace(b)
		fsys, dir = vfs.OS(), b.TempDir()
	}
	rig := newLogRigAt(b, fsys, dir)
	rig.configs["max.message.bytes"] = "10000000"
	rig.configs["segment.bytes"] = "104857600"
	return rig
}

// BenchmarkAppend appends batches one after the other; with sync=each it waits for each, else for the last.
func BenchmarkAppend(b *testing.B) {
	for _, fsName := range []string{"mem", "disk"} {
		for _, size := range []int{1 << 10, 16 << 10, 256 << 10} {
			for _, sync := range []string{"each", "last"} {
				if fsName == "mem" && sync == "each" {
					continue
				}
				b.Run(fmt.Sprintf("batch=%dKiB/sync=%s/fs=%s", size>>10, sync, fsName), func(b *testing.B) {
					rig := benchRig(b, fsName)
					l := rig.start()
					batch := benchBatch(size)
					buf := bytes.Clone(batch)
					b.SetBytes(int64(len(batch)))
					b.ReportAllocs()
					var a Appended
					written := 0
					for b.Loop() {
						copy(buf, batch)
						a = appendTo(b, l, buf)
						if sync == "each" {
							if err := l.WaitDurable(context.Background(), a); err != nil {
								b.Fatal(err)
							}
						}
						if written += len(batch); written > 1<<30 {
							b.StopTimer()
							if err := l.WaitDurable(context.Background(), a); err != nil {
								b.Fatal(err)
							}
							if _, err := l.DeleteBefore(-1); err != nil {
								b.Fatal(err)
							}
							l.removeDeleted()
							written = 0
							b.StartTimer()
						}
					}
					if err := l.WaitDurable(context.Background(), a); err != nil {
						b.Fatal(err)
					}
					b.StopTimer()
					rig.kill(l)
				})
			}
		}
	}
}

// BenchmarkCommitMany has producers of single records on many logs at once, each waiting for each of its appends.
func BenchmarkCommitMany(b *testing.B) {
	for _, c := range []struct{ producers, logs int }{{1, 1}, {16, 1}, {64, 1}, {16, 16}, {64, 16}} {
		b.Run(fmt.Sprintf("producers=%d/logs=%d/fs=disk", c.producers, c.logs), func(b *testing.B) {
			rig := benchRig(b, "disk")
			l := rig.start()
			logs := []*Log{l}
			for i := 1; i < c.logs; i++ {
				logs = append(logs, newLog(rig.ctx, "orders", int32(i), testTopicID, filepath.Join(rig.dir, fmt.Sprintf("orders-%d", i)), l.config, logOrigin{}))
			}
			batch := testBatch("value")
			b.ReportAllocs()
			b.SetParallelism(c.producers / 2)
			n := make(chan int, c.producers*2)
			for i := range c.producers * 2 {
				n <- i
			}
			b.RunParallel(func(pb *testing.PB) {
				l := logs[<-n%len(logs)]
				buf := bytes.Clone(batch)
				for pb.Next() {
					copy(buf, batch)
					a, err := l.Append(buf, AppendOptions{})
					if err == nil {
						err = l.WaitDurable(context.Background(), a)
					}
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.StopTimer()
			for _, l := range logs {
				l.markDeleted()
			}
			rig.ctx.commits.close()
		})
	}
}

// filled returns a log of batches of a size, total bytes in all.
func filled(b *testing.B, rig *logRig, size, total int) *Log {
	b.Helper()
	l := rig.start()
	batch := benchBatch(size)
	buf := bytes.Clone(batch)
	var a Appended
	for n := 0; n < total; n += len(batch) {
		copy(buf, batch)
		a = appendTo(b, l, buf)
	}
	if err := l.WaitDurable(context.Background(), a); err != nil {
		b.Fatal(err)
	}
	return l
}

// BenchmarkRead reads a log from its start to its end, again and again.
func BenchmarkRead(b *testing.B) {
	for _, fsName := range []string{"mem", "disk"} {
		for _, size := range []int{1 << 10, 16 << 10} {
			for _, max := range []int{64 << 10, 1 << 20} {
				b.Run(fmt.Sprintf("batch=%dKiB/max=%dKiB/fs=%s", size>>10, max>>10, fsName), func(b *testing.B) {
					rig := benchRig(b, fsName)
					l := filled(b, rig, size, 256<<20)
					dst := make([]byte, 0, max)
					b.SetBytes(int64(max))
					b.ReportAllocs()
					offset, bytes := int64(0), int64(0)
					for b.Loop() {
						res, err := l.Read(dst, ReadRequest{Offset: offset, MaxBytes: max, MinOneBatch: true})
						if err != nil {
							b.Fatal(err)
						}
						if len(res.Data) == 0 {
							offset = 0
							continue
						}
						bytes += int64(len(res.Data))
						offset = lastNextOffset(res.Data)
					}
					b.StopTimer()
					rig.kill(l)
				})
			}
		}
	}
}

// lastNextOffset is the offset after whole batches.
func lastNextOffset(data []byte) (next int64) {
	for len(data) > 0 {
		n, err := record.PeekSize(data)
		if err != nil {
			panic(err)
		}
		next = record.Batch(data[:n]).NextOffset()
		data = data[n:]
	}
	return next
}

// BenchmarkIndexLookup reads one batch at offsets all over a log.
func BenchmarkIndexLookup(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10} {
		b.Run(fmt.Sprintf("batch=%dKiB/fs=disk", size>>10), func(b *testing.B) {
			rig := benchRig(b, "disk")
			l := filled(b, rig, size, 256<<20)
			if err := l.flush(); err != nil {
				b.Fatal(err)
			}
			offsets, err := l.Offsets()
			if err != nil {
				b.Fatal(err)
			}
			dst := make([]byte, 0, 32<<10)
			b.ReportAllocs()
			offset := int64(0)
			for b.Loop() {
				offset = (offset*6364136223846793005 + 1442695040888963407) & (1<<62 - 1)
				res, err := l.Read(dst, ReadRequest{Offset: offset % offsets.End, MaxBytes: 1, MinOneBatch: true})
				if err != nil || len(res.Data) == 0 {
					b.Fatal(len(res.Data), err)
				}
			}
			b.StopTimer()
			rig.kill(l)
		})
	}
}

// BenchmarkRecovery starts a log after a crash: everything past the recovery point is read.
func BenchmarkRecovery(b *testing.B) {
	for _, clean := range []bool{false, true} {
		for _, size := range []int{1 << 10, 16 << 10} {
			b.Run(fmt.Sprintf("clean=%v/batch=%dKiB/fs=disk", clean, size>>10), func(b *testing.B) {
				rig := benchRig(b, "disk")
				const total = 256 << 20
				l := filled(b, rig, size, total)
				rig.end(l, clean)
				b.SetBytes(total)
				b.ReportAllocs()
				for b.Loop() {
					l = rig.start()
					if offsets, err := l.Offsets(); err != nil || offsets.End == 0 {
						b.Fatal(offsets, err)
					}
					b.StopTimer()
					rig.kill(l)
					rig.clean = clean
					b.StartTimer()
				}
			})
		}
	}
}
