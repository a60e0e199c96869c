package record

import (
	"encoding/binary"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
)

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// bomb is a small batch of one record whose value has size zeros.
func bomb(codec Codec, size int) Batch {
	b := NewBuilder(BuilderOptions{Codec: codec})
	rest := AppendVarint([]byte{1}, int64(size)) // no key
	b.beginLarge(demoNow, len(rest)+size+1)
	b.appendPiece(rest)
	zeros := make([]byte, flushSize)
	for left := size; left > 0; left -= len(zeros) {
		b.appendPiece(zeros[:min(left, len(zeros))])
	}
	b.appendPiece([]byte{0}) // no headers
	return b.Bytes()
}

func rebuildRules(target Codec) Rules {
	r := clientRules()
	r.TargetProducer, r.Target, r.MaxBytes = false, target, 1<<20
	return r
}

func TestRebuildOfALargeRecordNeedsNoMemoryForIt(t *testing.T) {
	const size = 96 << 20
	for _, c := range []struct{ from, to Codec }{{LZ4, Gzip}, {Zstd, LZ4}, {Gzip, Zstd}, {Zstd, Snappy}, {Gzip, None}, {Zstd, None}} {
		b := bomb(c.from, size)
		r := rebuildRules(c.to)
		r.Level = 1
		var v Validator
		var got Validated
		var err error
		n := allocated(func() { got, err = v.Validate(b, r) })
		// Of zeros snappy keeps more than a twentieth, which is over MaxBytes.
		want := error(nil)
		if c.to == None || c.to == Snappy {
			want = ErrTooLarge
		}
		if !errors.Is(err, want) {
			t.Errorf("%v to %v: error %v, want %v", c.from, c.to, err, want)
		}
		if n > 48<<20 {
			t.Errorf("%v to %v: %d bytes allocated for a record of %d", c.from, c.to, n, size)
		}
		if want == nil {
			if records, err := readAll(new(Reader), got.Batch); err != nil || len(records) != 1 || len(records[0].Value) != size || records[0].Timestamp != demoNow {
				t.Errorf("%v to %v: %d records, error %v; want the record", c.from, c.to, len(records), err)
			}
		}
		v.Trim()
		if v.builder != nil && cap(v.builder.out)+cap(v.builder.raw) > 2*keepWindow || cap(v.reader.scratch) > keepWindow {
			t.Errorf("%v to %v: a trimmed validator keeps %d, %d and %d bytes", c.from, c.to, cap(v.builder.out), cap(v.builder.raw), cap(v.reader.scratch))
		}
	}
}

func TestClaimedLengthIsRefusedBeforeItIsRead(t *testing.T) {
	// The records are a length of 900 MB and little more, so reading them would end in another error.
	claim := AppendVarint(nil, 900_000_000)
	claim = append(claim, make([]byte, 100)...)
	for _, codec := range codecs[1:] {
		b := Batch(AppendCompressed(make([]byte, HeaderSize), claim, codec, 0))
		putHeader(b, header{attributes: uint16(codec), count: 1, producerID: NoProducerID, baseTimestamp: demoNow, maxTimestamp: demoNow})
		for _, target := range []Codec{None, codec%4 + 1} {
			var v Validator
			if _, err := v.Validate(b, rebuildRules(target)); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%v to %v: error %v, want ErrTooLarge", codec, target, err)
			}
		}
	}
}

func TestManyRecordsAreRefusedWhenTheyCannotFit(t *testing.T) {
	records := make([]Record, 200_000)
	for i := range records {
		records[i] = Record{Timestamp: demoNow, Value: make([]byte, 100)}
	}
	b := build(BuilderOptions{Codec: Gzip}, records)
	r := rebuildRules(None)
	var v Validator
	if _, err := v.Validate(b, r); !errors.Is(err, ErrTooLarge) {
		t.Errorf("20 MB of records where 1 MiB fits: error %v, want ErrTooLarge", err)
	}
	if v.reader.total > rebuildShrink<<20+windowSize {
		t.Errorf("%d bytes were decompressed, at most 4 MiB could matter", v.reader.total)
	}
	r = clientRules()
	r.MaxDecompressed = 1 << 20
	if _, err := v.Validate(b, r); !errors.Is(err, ErrTooLarge) {
		t.Errorf("20 MB of records where 1 MiB may be decompressed: error %v, want ErrTooLarge", err)
	}
	if _, err := v.Validate(b, clientRules()); err != nil {
		t.Errorf("without a limit: %v", err)
	}
}

// zstdBatch is a batch of one record in a frame that asks for a window of 1<<bits bytes.
func zstdBatch(bits int) Batch {
	p := appendRecord(nil, &Record{Value: []byte("v")}, 0, 0)
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, byte(bits-10) << 3}
	var block [4]byte
	binary.LittleEndian.PutUint32(block[:], uint32(len(p))<<3|1) // raw, the last
	frame = append(append(frame, block[:3]...), p...)
	b := Batch(append(make([]byte, HeaderSize), frame...))
	putHeader(b, header{attributes: uint16(Zstd), count: 1, producerID: NoProducerID, baseTimestamp: demoNow, maxTimestamp: demoNow})
	return b
}

func TestAbsurdZstdWindowIsRefused(t *testing.T) {
	for _, bits := range []int{28, 31, 41} {
		var v Validator
		var err error
		n := allocated(func() { _, err = v.Validate(zstdBatch(bits), clientRules()) })
		var invalid *InvalidError
		if !errors.As(err, &invalid) || invalid.Kind != Undecodable {
			t.Errorf("window of 2^%d bytes: error %v, want Undecodable", bits, err)
		}
		if n > 2<<20 {
			t.Errorf("window of 2^%d bytes: %d bytes allocated", bits, n)
		}
	}
}

func TestLargeBatchesTakeTurns(t *testing.T) {
	for what, c := range map[string]struct {
		batch Batch
		rules Rules
	}{
		"rebuild":     {bomb(LZ4, 2*LargeRebuild), rebuildRules(Zstd)},
		"zstd window": {zstdBatch(24), clientRules()},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := c.rules
			r.Slots = make(chan struct{}, 1)
			r.Slots <- struct{}{}
			done := make(chan error, 1)
			go func() {
				var v Validator
				_, err := v.Validate(c.batch, r)
				done <- err
			}()
			synctest.Wait()
			select {
			case err := <-done:
				t.Errorf("%s: done while the slot was taken, error %v", what, err)
			default:
			}
			small := someRecords(3, 10)
			var v Validator
			if _, err := v.Validate(build(BuilderOptions{Codec: Gzip}, small), r); err != nil {
				t.Errorf("a small batch meanwhile: %v", err)
			}
			<-r.Slots
			if err := <-done; err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if len(r.Slots) != 0 {
				t.Errorf("%s: the slot was kept", what)
			}
		})
	}
}
