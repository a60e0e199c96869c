package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
)

// clientRules are those of a topic with Kafka's defaults.
func clientRules() Rules {
	return Rules{NowMs: demoNow, BeforeMaxMs: math.MaxInt64, AfterMaxMs: 3_600_000, TargetProducer: true, FromClient: true}
}

// with returns a copy of b after change, with the CRC made right.
func with(b Batch, change func(b Batch)) Batch {
	b = bytes.Clone(b)
	change(b)
	b.setCRC()
	return b
}

func putInt32(pos int, v int32) func(Batch) {
	return func(b Batch) { binary.BigEndian.PutUint32(b[pos:], uint32(v)) }
}

func TestGoodBatchesPassUnchanged(t *testing.T) {
	var v Validator
	for _, shape := range []struct{ n, size int }{{1, 0}, {1000, 100}, {5, 400_000}} {
		for _, codec := range codecs {
			b := build(BuilderOptions{Codec: codec, HasProducer: true, ProducerID: 9, Transactional: true}, someRecords(shape.n, shape.size))
			before := bytes.Clone(b)
			got, err := v.Validate(b, clientRules())
			if err != nil {
				t.Errorf("%v, %d records: %v", codec, shape.n, err)
				continue
			}
			maximum := min(shape.n-1, 6)
			if got.Rebuilt || !bytes.Equal(got.Batch, before) || got.MaxTimestamp != demoNow+int64(maximum) ||
				got.MaxTimestampOffsetDelta != int32(maximum) || got.LogAppendTimeMs != -1 {
				t.Errorf("%v, %d records: rebuilt %v, max timestamp %d of record %d, append time %d; want the same bytes, %d, %d, -1", codec, shape.n,
					got.Rebuilt, got.MaxTimestamp, got.MaxTimestampOffsetDelta, got.LogAppendTimeMs, demoNow+int64(maximum), maximum)
			}
		}
	}
}

func TestBatchesThatClientsMayNotWrite(t *testing.T) {
	records := someRecords(3, 10)
	plain := build(BuilderOptions{}, records)
	for _, c := range []struct {
		name   string
		b      Batch
		reason string
	}{
		{"count 2 and last offset delta 5", with(plain, func(b Batch) { putInt32(CountPos, 2)(b); putInt32(LastOffsetDeltaPos, 5)(b) }), "last offset delta 5 and record count 2"},
		{"count 0", with(plain, putInt32(CountPos, 0)), "record count 0"},
		{"count -1", with(plain, putInt32(CountPos, -1)), "record count -1"},
		{"last offset delta -1", with(plain, putInt32(LastOffsetDeltaPos, -1)), "last offset delta -1"},
		{"count and last offset delta at their maximum", with(plain, func(b Batch) {
			putInt32(CountPos, math.MinInt32)(b)
			putInt32(LastOffsetDeltaPos, math.MaxInt32)(b)
		}), "record count -2147483648"},
		{"four records of three", with(plain, func(b Batch) { putInt32(CountPos, 4)(b); putInt32(LastOffsetDeltaPos, 3)(b) }), "record 3"},
		{"two records of three", with(plain, func(b Batch) { putInt32(CountPos, 2)(b); putInt32(LastOffsetDeltaPos, 1)(b) }), "bytes follow the last of 2 records"},
		{"control", with(plain, func(b Batch) { b[AttributesPos+1] |= controlBit }), "control"},
		{"producer id without a sequence", with(plain, func(b Batch) { binary.BigEndian.PutUint64(b[ProducerIDPos:], 4) }), "base sequence -1"},
		{"a record length of -1", with(plain, func(b Batch) { b[HeaderSize] = 1 }), "record 0"},
		{"a record length beyond the end", with(plain, func(b Batch) { b[HeaderSize] = 0x7e }), "record 0"},
	} {
		var v Validator
		_, err := v.Validate(c.b, clientRules())
		var invalid *InvalidError
		if !errors.As(err, &invalid) || invalid.Kind != InvalidRecord || invalid.Records != nil || !strings.Contains(invalid.Reason, c.reason) {
			t.Errorf("%s: error %v, want InvalidRecord with %q", c.name, err, c.reason)
		}
	}
}

func TestCoordinatorsMayWriteControlBatches(t *testing.T) {
	var v Validator
	r := clientRules()
	r.FromClient, r.TargetProducer, r.Target = false, false, Zstd
	b := EndTxnMarker(7, 3, Marker{Commit: true, CoordinatorEpoch: 12}, demoNow, 4)
	before := bytes.Clone(b)
	got, err := v.Validate(b, r)
	if err != nil || got.Rebuilt || !bytes.Equal(got.Batch, before) {
		t.Errorf("marker: rebuilt %v, error %v; want the same bytes", got.Rebuilt, err)
	}
}

func TestUnknownCodecIsItsOwnError(t *testing.T) {
	var v Validator
	for codec := byte(5); codec < 8; codec++ {
		b := with(demoBatch(), func(b Batch) { b[AttributesPos+1] |= codec })
		if _, err := v.Validate(b, clientRules()); !errors.Is(err, ErrUnknownCodec) {
			t.Errorf("codec %d: error %v, want %v", codec, err, ErrUnknownCodec)
		}
	}
}

func TestRecordsThatDoNotDecompress(t *testing.T) {
	for _, codec := range codecs[1:] {
		b := with(demoBatch(), func(b Batch) { b[AttributesPos+1] |= byte(codec) })
		var v Validator
		_, err := v.Validate(b, clientRules())
		var invalid *InvalidError
		if !errors.As(err, &invalid) || invalid.Kind != Undecodable {
			t.Errorf("%v: error %v, want Undecodable", codec, err)
		}
	}
}

func TestKeylessRecordsOnACompactedTopic(t *testing.T) {
	for _, codec := range codecs {
		b := build(BuilderOptions{Codec: codec}, []Record{{Key: []byte("a")}, {Value: []byte("x")}, {Key: []byte{}}, {}})
		r := clientRules()
		r.KeyRequired = true
		var v Validator
		_, err := v.Validate(b, r)
		var invalid *InvalidError
		if !errors.As(err, &invalid) || invalid.Kind != InvalidRecord || len(invalid.Records) != 2 || invalid.Records[0].Index != 1 || invalid.Records[1].Index != 3 || invalid.Records[0].Message == "" {
			t.Errorf("%v: error %+v, want InvalidRecord at records 1 and 3", codec, err)
		}
	}
}

// A small batch that decompresses to very many records must not cost memory for each that is at fault.
func TestRecordErrorsAreBounded(t *testing.T) {
	const n = 3 * maxRecordErrors
	for name, change := range map[string]func(*Rules){
		"keyless": func(r *Rules) { r.KeyRequired = true },
		"late":    func(r *Rules) { r.BeforeMaxMs = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBuilder(BuilderOptions{Codec: Zstd, LeaderEpoch: NoLeaderEpoch})
			for range n {
				b.Append(Record{Timestamp: 1})
			}
			rules := clientRules()
			change(&rules)
			var v Validator
			_, err := v.Validate(b.Bytes(), rules)
			e, ok := errors.AsType[*InvalidError](err)
			if !ok || len(e.Records) != maxRecordErrors || !strings.Contains(e.Reason, strconv.Itoa(n)+" records") {
				t.Errorf("got %v, want an InvalidError of %d records that names %d", err, n, maxRecordErrors)
			}
		})
	}
}

func TestTimestampsOutOfRange(t *testing.T) {
	const hour = 3_600_000
	times := func(ts ...int64) (out []Record) {
		for _, t := range ts {
			out = append(out, Record{Timestamp: t, Key: []byte("k")})
		}
		return out
	}
	for _, c := range []struct {
		name          string
		records       []Record
		before, after int64
		want          []int32
	}{
		{"now, an hour ahead, none", times(demoNow, demoNow+hour, -1), math.MaxInt64, hour, nil},
		{"a millisecond too far ahead", times(demoNow, demoNow+hour+1), math.MaxInt64, hour, []int32{1}},
		{"very old, unlimited", times(0, 1), math.MaxInt64, hour, nil},
		{"at the limit and beyond", times(demoNow-hour, demoNow-hour-1, demoNow, 5), hour, hour, []int32{1, 3}},
		{"none with no room", times(-1, -1), 0, 0, nil},
	} {
		r := clientRules()
		r.BeforeMaxMs, r.AfterMaxMs = c.before, c.after
		for _, appendTime := range []bool{false, true} {
			r.LogAppendTime = appendTime
			var v Validator
			_, err := v.Validate(bytes.Clone(build(BuilderOptions{}, c.records)), r)
			var invalid *InvalidError
			var got []int32
			if errors.As(err, &invalid) {
				for _, e := range invalid.Records {
					got = append(got, e.Index)
				}
			}
			want := c.want
			if appendTime {
				want = nil
			}
			if len(got) != len(want) || (err != nil) != (want != nil) || err != nil && (invalid.Kind != InvalidTimestamp || got[0] != want[0]) {
				t.Errorf("%s, LogAppendTime %v: records %v refused, error %v; want %v", c.name, appendTime, got, err, want)
			}
		}
	}
}

func TestOneBadTimestampDecidesTheKind(t *testing.T) {
	r := clientRules()
	r.KeyRequired = true
	b := build(BuilderOptions{}, []Record{{Timestamp: demoNow}, {Timestamp: demoNow + 1<<40, Key: []byte("k")}})
	var v Validator
	_, err := v.Validate(b, r)
	var invalid *InvalidError
	if !errors.As(err, &invalid) || invalid.Kind != InvalidTimestamp || len(invalid.Records) != 2 {
		t.Errorf("error %+v, want InvalidTimestamp with both records", err)
	}
}

func TestLogAppendTimeOfClients(t *testing.T) {
	build := func(ts int64) Batch {
		return build(BuilderOptions{LogAppendTime: true, AppendTimeMs: ts}, []Record{{Timestamp: demoNow - 5}, {Timestamp: demoNow - 4}})
	}
	for _, c := range []struct {
		name       string
		timestamp  int64
		appendTime bool
		refused    int
	}{
		{"on a LogAppendTime topic", demoNow, true, 2},
		{"on a CreateTime topic without a timestamp", -1, false, 2},
		{"on a CreateTime topic with one", demoNow, false, 0},
	} {
		r := clientRules()
		r.LogAppendTime = c.appendTime
		var v Validator
		got, err := v.Validate(build(c.timestamp), r)
		var invalid *InvalidError
		if c.refused > 0 {
			if !errors.As(err, &invalid) || invalid.Kind != InvalidTimestamp || len(invalid.Records) != c.refused {
				t.Errorf("%s: error %+v, want InvalidTimestamp of %d records", c.name, err, c.refused)
			}
			continue
		}
		if err != nil || got.Batch.LogAppendTime() || got.Batch.MaxTimestamp() != c.timestamp || got.Batch.VerifyCRC() != nil {
			t.Errorf("%s: error %v, append time %v, max %d; want CreateTime and %d", c.name, err, got.Batch.LogAppendTime(), got.Batch.MaxTimestamp(), c.timestamp)
		}
	}
}

func TestLogAppendTimeIsStamped(t *testing.T) {
	for _, codec := range codecs {
		for _, rebuild := range []bool{false, true} {
			r := clientRules()
			r.LogAppendTime = true
			if rebuild {
				r.TargetProducer, r.Target = false, (codec+1)%5
			}
			var v Validator
			got, err := v.Validate(build(BuilderOptions{Codec: codec}, []Record{{Timestamp: 1000}, {Timestamp: 1001}}), r)
			if err != nil {
				t.Fatalf("%v: %v", codec, err)
			}
			b := got.Batch
			if got.Rebuilt != rebuild || !b.LogAppendTime() || b.MaxTimestamp() != demoNow || b.BaseTimestamp() != 1000 || b.VerifyCRC() != nil ||
				got.LogAppendTimeMs != demoNow || got.MaxTimestamp != demoNow || got.MaxTimestampOffsetDelta != 1 {
				t.Errorf("%v, rebuilt %v: %+v, base timestamp %d, crc %v", codec, got.Rebuilt, got, b.BaseTimestamp(), b.VerifyCRC())
			}
			for _, rec := range collect(t, b) {
				if rec.Timestamp != demoNow {
					t.Errorf("%v: record timestamp %d, want %d", codec, rec.Timestamp, demoNow)
				}
			}
		}
	}
}

func TestLyingMaxTimestampIsCorrected(t *testing.T) {
	for _, codec := range codecs {
		b := with(build(BuilderOptions{Codec: codec}, someRecords(10, 50)), func(b Batch) {
			binary.BigEndian.PutUint64(b[MaxTimestampPos:], 1<<60)
		})
		body := bytes.Clone(b.Body())
		var v Validator
		got, err := v.Validate(b, clientRules())
		if err != nil || got.Rebuilt || got.Batch.MaxTimestamp() != demoNow+6 || got.Batch.VerifyCRC() != nil || !bytes.Equal(got.Batch.Body(), body) {
			t.Errorf("%v: error %v, rebuilt %v, max timestamp %d; want %d in place", codec, err, got.Rebuilt, got.Batch.MaxTimestamp(), demoNow+6)
		}
	}
}

func TestOffsetDeltasWithGapsAreRebuilt(t *testing.T) {
	for _, codec := range codecs {
		builder := NewBuilder(BuilderOptions{Codec: codec, HasProducer: true, ProducerID: 3, ProducerEpoch: 1, BaseSequence: 10})
		want := someRecords(3, 50)
		for i, r := range want {
			builder.AppendAt(int64(i*i), r) // 0, 1, 4
		}
		b := with(builder.Bytes(), putInt32(LastOffsetDeltaPos, 2))
		var v Validator
		got, err := v.Validate(b, clientRules())
		if err != nil || !got.Rebuilt || got.Batch.Codec() != codec || got.Batch.LastOffsetDelta() != 2 || got.Batch.LastSequence() != 12 || got.Batch.ProducerEpoch() != 1 {
			t.Errorf("%v: rebuilt %v as %v, error %v", codec, got.Rebuilt, got.Batch, err)
			continue
		}
		if diff := compareRecords(collect(t, got.Batch), want, 0); diff != "" {
			t.Errorf("%v: %s", codec, diff)
		}
	}
}

func TestRecompression(t *testing.T) {
	want := someRecords(200, 3000)
	var v Validator
	for _, from := range codecs {
		for _, to := range codecs {
			r := clientRules()
			r.TargetProducer, r.Target, r.Level = false, to, 1
			b := build(BuilderOptions{Codec: from, HasProducer: true, ProducerID: 3, ProducerEpoch: 1, BaseSequence: 10, Transactional: true}, want)
			got, err := v.Validate(b, r)
			if err != nil {
				t.Fatalf("%v to %v: %v", from, to, err)
			}
			g := got.Batch
			if got.Rebuilt != (from != to) || g.Codec() != to || g.VerifyCRC() != nil || g.ProducerID() != 3 || g.ProducerEpoch() != 1 || g.BaseSequence() != 10 ||
				!g.Transactional() || g.MaxTimestamp() != demoNow+6 || got.MaxTimestamp != demoNow+6 || got.MaxTimestampOffsetDelta != 6 {
				t.Errorf("%v to %v: %+v", from, to, got)
			}
			if diff := compareRecords(collect(t, g), want, 0); diff != "" {
				t.Errorf("%v to %v: %s", from, to, diff)
			}
		}
	}
}

func TestRebuiltBatchIsBounded(t *testing.T) {
	b := build(BuilderOptions{Codec: Gzip}, []Record{{Timestamp: demoNow, Value: make([]byte, 200_000)}})
	var v Validator
	for _, c := range []struct {
		target Codec
		want   error
	}{{None, ErrTooLarge}, {Zstd, nil}} {
		r := clientRules()
		r.TargetProducer, r.Target, r.MaxBytes = false, c.target, 10_000
		if _, err := v.Validate(b, r); !errors.Is(err, c.want) {
			t.Errorf("to %v with at most 10000 bytes: error %v, want %v", c.target, err, c.want)
		}
	}
}

func TestNegativeTimestampCannotBeRebuilt(t *testing.T) {
	var v Validator
	b := build(BuilderOptions{}, []Record{{Timestamp: -7}})
	if got, err := v.Validate(b, clientRules()); err != nil || got.MaxTimestamp != -1 {
		t.Errorf("in place: max timestamp %d, error %v; want -1", got.MaxTimestamp, err)
	}
	r := clientRules()
	r.TargetProducer, r.Target = false, Gzip
	var invalid *InvalidError
	if _, err := v.Validate(b, r); !errors.As(err, &invalid) || invalid.Kind != Undecodable {
		t.Errorf("rebuilt: error %v, want Undecodable", err)
	}
}

func TestValidatingAllocatesNothingPerRecord(t *testing.T) {
	var v Validator
	for _, codec := range codecs {
		b := build(BuilderOptions{Codec: codec}, someRecords(300, 300))
		if n := testing.AllocsPerRun(20, func() {
			if _, err := v.Validate(b, clientRules()); err != nil {
				t.Fatal(err)
			}
		}); n > 0 && codec == None || n > 10 { // decompressors make tables, for a block and not for a record
			t.Errorf("%v: %v allocations for a batch of 300 records", codec, n)
		}
	}
}
