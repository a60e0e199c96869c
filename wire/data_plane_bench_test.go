package wire

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// newBenchBroker is a broker on the real clock, in memory or on the disk.
func newBenchBroker(b *testing.B, where string) *broker {
	b.Helper()
	r := &broker{t: b, dir: "data"}
	if where == "os" {
		r.fs, r.dir = vfs.OS(), b.TempDir()
	} else {
		r.fs = vfs.NewMem(vfs.MemOptions{})
	}
	r.open(nil)
	return r
}

// BenchmarkProduce measures the handler, decoding and waiting included, one request at a time.
func BenchmarkProduce(b *testing.B) {
	for _, where := range []string{"mem", "os"} {
		for _, size := range []int{1 << 10, 16 << 10, 900 << 10} {
			b.Run(fmt.Sprintf("batch=%dKiB/acks=all/fs=%s", size>>10, where), func(b *testing.B) {
				r := newBenchBroker(b, where)
				r.topic("t", 1, "segment.bytes", "1073741824")
				build := record.NewBuilder(record.BuilderOptions{LeaderEpoch: -1})
				for build.UncompressedSize() < size-100 {
					build.Append(record.Record{Timestamp: r.nowMs(), Value: []byte(strings.Repeat("v", 900))})
				}
				sent := r.produceRequest(13, "t", produced{0, build.Bytes()}).AppendTo(nil)
				frame := make([]byte, len(sent))
				call := r.r
				call.key, call.version = 0, 13
				b.SetBytes(int64(len(build.Bytes())))
				b.ReportAllocs()
				for b.Loop() {
					copy(frame, sent)
					req := &kmsg.ProduceRequest{Version: 13}
					if err := req.ReadFrom(frame); err != nil {
						b.Fatal(err)
					}
					finish, err := r.s.produce(&call, req)
					if err != nil {
						b.Fatal(err)
					}
					resp, err := finish(context.Background())
					if err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
						b.Fatalf("error %v, answer %+v", err, resp)
					}
				}
			})
		}
	}
}

// BenchmarkProduceInTransaction measures the handler for batches of a transaction that is open in the partition already.
func BenchmarkProduceInTransaction(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10} {
		b.Run(fmt.Sprintf("batch=%dKiB/acks=all/fs=mem", size>>10), func(b *testing.B) {
			r := withTransactions(newBenchBroker(b, "mem"))
			r.topic("t", 1, "segment.bytes", "1073741824")
			p := r.txnProducer("tx")
			build := record.NewBuilder(record.BuilderOptions{LeaderEpoch: -1, HasProducer: true, ProducerID: p.ID, ProducerEpoch: p.Epoch, Transactional: true})
			for build.UncompressedSize() < size-100 {
				build.Append(record.Record{Timestamp: r.nowMs(), Value: []byte(strings.Repeat("v", 900))})
			}
			batch := record.Batch(build.Bytes())
			count := batch.LastOffsetDelta() + 1
			call := r.r
			call.key, call.version = 0, 13
			b.SetBytes(int64(len(batch)))
			b.ReportAllocs()
			for sequence := int32(0); b.Loop(); sequence += count {
				binary.BigEndian.PutUint64(batch, 0) // the base offset, which the log stamped
				binary.BigEndian.PutUint32(batch[record.BaseSequencePos:], uint32(sequence))
				finish, err := r.s.produce(&call, p.request(13, "t", produced{0, setCRC(batch)}))
				if err != nil {
					b.Fatal(err)
				}
				resp, err := finish(context.Background())
				if err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
					b.Fatalf("error %v, answer %+v", err, resp)
				}
			}
		})
	}
}

// BenchmarkFetch measures the handler: from the decoded request to pieces that are ready to be written.
func BenchmarkFetch(b *testing.B) {
	for _, where := range []string{"mem", "os"} {
		for _, partitions := range []int{1, 16} {
			for _, size := range []int{1 << 10, 64 << 10, 1000 << 10} {
				b.Run(fmt.Sprintf("partitions=%d/bytes=%dKiB/fs=%s", partitions, size>>10, where), func(b *testing.B) {
					r := newBenchBroker(b, where)
					r.topic("t", int32(partitions))
					var from []asked
					for i := range partitions {
						for written := 0; written < 2*size; written += 16 << 10 {
							r.mustProduce("t", int32(i), r.batch(strings.Repeat("v", min(size, 16<<10)-100)))
						}
						from = append(from, asked{"t", int32(i), 0})
					}
					req := r.fetchRequest(18, from...)
					for i := range req.Topics[0].Partitions {
						req.Topics[0].Partitions[i].PartitionMaxBytes = int32(size)
					}
					topics := req.Topics // the handler takes them out of the request
					call := r.r
					call.key, call.version = 1, 18
					e, err := r.s.fetch(&call, req)
					if err != nil {
						b.Fatal(err)
					}
					want := e.size()
					b.SetBytes(int64(want))
					e.release()
					b.ReportAllocs()
					for b.Loop() {
						req.Topics = topics
						e, err := r.s.fetch(&call, req)
						if err != nil || e.size() != want {
							b.Fatalf("error %v, an answer of %d bytes, want %d", err, e.size(), want)
						}
						e.release()
					}
				})
			}
		}
	}
}

// BenchmarkFetchIdle measures a fetch of a session in which nothing is new, as a consumer of many quiet partitions
// sends it.
func BenchmarkFetchIdle(b *testing.B) {
	for _, partitions := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			r := newBenchBroker(b, "mem")
			r.topic("t", int32(partitions))
			var from []asked
			for i := range partitions {
				from = append(from, asked{"t", int32(i), 0})
			}
			req := r.fetchRequest(18, from...)
			req.SessionEpoch = 0
			resp := ask[*kmsg.FetchResponse](r, req)
			call := r.r
			call.key, call.version = 1, 18
			next := kmsg.NewPtrFetchRequest()
			next.Version, next.MinBytes, next.SessionID, next.SessionEpoch = 18, 1, resp.SessionID, 1
			b.ReportAllocs()
			for b.Loop() {
				e, err := r.s.fetch(&call, next)
				if err != nil {
					b.Fatal(err)
				}
				e.release()
				next.SessionEpoch++
			}
		})
	}
}
