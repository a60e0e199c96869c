package record

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// benchBatch is about a megabyte (or one record) of records of a size, half random letters as real values often are.
func benchBatch(size int, codec Codec) Batch {
	rnd := rand.New(rand.NewPCG(1, uint64(size)))
	b := NewBuilder(BuilderOptions{Codec: codec})
	for i := 0; i == 0 || b.UncompressedSize() < 1<<20-size; i++ {
		value := make([]byte, size)
		for j := range value {
			value[j] = 'a'
			if j%2 == 0 {
				value[j] += byte(rnd.IntN(26))
			}
		}
		b.Append(Record{Timestamp: demoNow + int64(i/10), Key: fmt.Appendf(nil, "%08d", i), Value: value})
	}
	return b.Bytes()
}

func BenchmarkCut(b *testing.B) {
	batch := benchBatch(1<<10, None)
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Cut(batch); err != nil {
			b.Fatal(err)
		}
	}
}

func benchSizes(b *testing.B, f func(b *testing.B, batch Batch, uncompressed int)) {
	for _, codec := range codecs {
		for _, size := range []int{100, 1 << 10, 10 << 10} {
			plain := len(benchBatch(size, None))
			batch := benchBatch(size, codec)
			b.Run(fmt.Sprintf("codec=%v/record=%d", codec, size), func(b *testing.B) {
				b.SetBytes(int64(plain)) // records as they are when decompressed
				b.ReportAllocs()
				f(b, batch, plain)
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(batch.Count()), "ns/record")
			})
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	rules := Rules{NowMs: demoNow, BeforeMaxMs: 1 << 62, AfterMaxMs: 3_600_000, TargetProducer: true, FromClient: true, KeyRequired: true}
	benchSizes(b, func(b *testing.B, batch Batch, _ int) {
		var v Validator
		for b.Loop() {
			if _, err := v.Validate(batch, rules); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkRecords(b *testing.B) {
	benchSizes(b, func(b *testing.B, batch Batch, _ int) {
		var r Reader
		for b.Loop() {
			n := 0
			for rec, err := range r.Records(batch) {
				if err != nil {
					b.Fatal(err)
				}
				n += len(rec.Value)
			}
		}
	})
}

func BenchmarkRebuild(b *testing.B) {
	rules := Rules{NowMs: demoNow, BeforeMaxMs: 1 << 62, AfterMaxMs: 3_600_000, FromClient: true}
	batch := benchBatch(1<<10, Zstd)
	for _, codec := range codecs[:4] {
		b.Run("to="+codec.String(), func(b *testing.B) {
			rules.Target = codec
			b.SetBytes(int64(len(benchBatch(1<<10, None))))
			b.ReportAllocs()
			var v Validator
			for b.Loop() {
				if _, err := v.Validate(batch, rules); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, codec := range codecs {
		b.Run("codec="+codec.String(), func(b *testing.B) {
			records := collect(b, benchBatch(1<<10, None))
			b.SetBytes(1 << 20)
			b.ReportAllocs()
			builder := new(Builder)
			for b.Loop() {
				builder.Reset(BuilderOptions{Codec: codec})
				for i := range records {
					builder.Append(records[i])
				}
				builder.Bytes()
			}
		})
	}
}
