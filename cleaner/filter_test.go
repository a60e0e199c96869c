package cleaner

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// batchOf builds a batch from offset 10 on. A record is key=value, key alone is a tombstone, =value has no key; its
// timestamp is 1000 plus its place.
func batchOf(o record.BuilderOptions, records ...string) record.Batch {
	o.BaseOffset, o.LeaderEpoch = 10, 4
	b := record.NewBuilder(o)
	for i, text := range records {
		key, value, found := strings.Cut(text, "=")
		r := record.Record{Timestamp: 1000 + int64(i), Headers: []record.Header{{Key: []byte("h"), Value: []byte(text)}}}
		if key != "" {
			r.Key = []byte(key)
		}
		if found {
			r.Value = []byte(value)
		}
		b.Append(r)
	}
	return bytes.Clone(b.Bytes())
}

// filterFor is a filter with a map up to the offset mapped, in which each key has the offset.
func filterFor(mapped int64, last map[string]int64) *filter {
	m := newOffsetMap(1<<10, 0.9)
	m.reset(20, 0)
	m.put(m.wanted([]byte("the first")), 0)
	for k, o := range last {
		m.put(m.wanted([]byte(k)), o)
	}
	return &filter{
		large:   unpacksToMuch,
		offsets: m, mapped: mapped, nowMs: 5000, retentionMs: 200, highWatermark: 1000,
		transactions: newTransactions(nil), stats: &PassStats{}, producers: map[int64]storage.ProducerInfo{},
	}
}

// show prints what a batch is and what it holds.
func show(t *testing.T, b record.Batch) string {
	t.Helper()
	if b == nil {
		return "gone"
	}
	if err := b.VerifyCRC(); err != nil {
		t.Error(err)
	}
	var out []string
	var reader record.Reader
	for r, err := range reader.Records(b) {
		if err != nil {
			t.Fatal(err)
		}
		text := string(r.Key)
		if r.Value != nil {
			text += "=" + string(r.Value)
		}
		if !b.Control() && (len(r.Headers) != 1 || string(r.Headers[0].Value) != text && r.Key != nil) {
			t.Errorf("record %s has headers %+v", text, r.Headers)
		}
		out = append(out, fmt.Sprintf("%d@%d:%s", r.Offset, r.Timestamp, text))
	}
	s := fmt.Sprintf("%d-%d %v", b.BaseOffset(), b.LastOffset(), out)
	if b.HasDeleteHorizon() {
		s += fmt.Sprintf(" horizon %d", b.BaseTimestamp())
	}
	return s
}

func TestFilterKeepsTheLastOfEachKey(t *testing.T) {
	for codec := record.None; codec <= record.Zstd; codec++ {
		b := batchOf(record.BuilderOptions{Codec: codec, HasProducer: true, ProducerID: 7, ProducerEpoch: 2, BaseSequence: 40}, "a=1", "b=2", "a=3", "c=4", "=5")
		f := filterFor(100, map[string]int64{"a": 12, "b": 20})
		got, err := f.batch(b)
		if err != nil {
			t.Fatal(err)
		}
		if s, want := show(t, got), "10-14 [12@1002:a=3 13@1003:c=4]"; s != want {
			t.Errorf("%v: got %s, want %s", codec, s, want)
		}
		if got.Codec() != codec || got.ProducerID() != 7 || got.ProducerEpoch() != 2 || got.BaseSequence() != 40 || got.LastSequence() != 44 || got.LeaderEpoch() != 4 || got.MaxTimestamp() != 1003 {
			t.Errorf("%v: header %+v", codec, got[:record.HeaderSize])
		}
		if f.stats.Keyless != 1 || f.stats.RecordsRead != 5 || f.stats.RecordsKept != 2 {
			t.Errorf("%v: stats %+v", codec, f.stats)
		}
	}
}

func TestFilterLeavesWholeBatchesAsTheyAre(t *testing.T) {
	b := batchOf(record.BuilderOptions{Codec: record.Gzip}, "a=1", "b=2")
	for _, c := range []struct {
		name   string
		mapped int64
		last   map[string]int64
	}{
		{"all are the last", 100, map[string]int64{"a": 10, "b": 11}},
		{"keys that the map does not know", 100, nil},
		{"beyond the map", 10, map[string]int64{"a": 50, "b": 60}},
	} {
		got, err := filterFor(c.mapped, c.last).batch(b)
		if err != nil || len(got) != len(b) || &got[0] != &b[0] {
			t.Errorf("%s: got another batch, %v", c.name, err)
		}
	}
	keyless := batchOf(record.BuilderOptions{}, "=1", "=2")
	if got, _ := filterFor(11, nil).batch(keyless); show(t, got) != "10-11 [11@1001:=2]" {
		t.Errorf("CLN-15: got %s, want the record beyond the map", show(t, got))
	}
}

func TestFilterGivesTombstonesTime(t *testing.T) {
	f := filterFor(100, map[string]int64{"b": 90})
	b := batchOf(record.BuilderOptions{}, "a", "b=2", "c=3")
	stamped, err := f.batch(b)
	if err != nil || show(t, stamped) != "10-12 [10@1000:a 12@1002:c=3] horizon 5200" {
		t.Fatalf("CLN-08 first pass: got %s, %v, want the tombstone with a horizon of 5200", show(t, stamped), err)
	}
	stamped = bytes.Clone(stamped)
	for _, c := range []struct {
		nowMs int64
		want  string
	}{
		{5000, "10-12 [10@1000:a 12@1002:c=3] horizon 5200"},
		{5199, "10-12 [10@1000:a 12@1002:c=3] horizon 5200"},
		{5200, "10-12 [12@1002:c=3] horizon 5200"},
		{9999, "10-12 [12@1002:c=3] horizon 5200"},
	} {
		f.nowMs = c.nowMs
		got, err := f.batch(stamped)
		if err != nil || show(t, got) != c.want {
			t.Errorf("at %d: got %s, %v, want %s", c.nowMs, show(t, got), err, c.want)
		}
		if same := &got[0] == &stamped[0]; same != (c.nowMs < 5200) {
			t.Errorf("at %d: the same bytes: %v", c.nowMs, same)
		}
	}
	f.nowMs, f.mapped = 9999, 10
	if got, _ := f.batch(stamped); &got[0] != &stamped[0] {
		t.Errorf("beyond the map: got %s, want the batch as it is", show(t, got))
	}
}

func TestFilterKeepsWhatProducersNeed(t *testing.T) {
	b := batchOf(record.BuilderOptions{HasProducer: true, ProducerID: 7, ProducerEpoch: 2, BaseSequence: 40}, "a=1", "a=2")
	replaced := map[string]int64{"a": 50}
	for _, c := range []struct {
		name     string
		producer storage.ProducerInfo
		hw       int64
		want     string
	}{
		{"its last batch", storage.ProducerInfo{ProducerID: 7, Epoch: 2, LastOffset: 11}, 1000, "10-11 []"},
		{"not its last batch", storage.ProducerInfo{ProducerID: 7, Epoch: 2, LastOffset: 30}, 1000, "gone"},
		{"a producer that is forgotten", storage.ProducerInfo{ProducerID: 8, LastOffset: 11}, 1000, "gone"},
		{"the last before the high watermark", storage.ProducerInfo{ProducerID: 8, LastOffset: 11}, 12, "10-11 []"},
	} {
		f := filterFor(100, replaced)
		f.highWatermark, f.producers[c.producer.ProducerID] = c.hw, c.producer
		got, err := f.batch(b)
		if err != nil || show(t, got) != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.name, show(t, got), err, c.want)
			continue
		}
		if got == nil {
			continue
		}
		if got.ProducerID() != 7 || got.LastSequence() != 41 || got.MaxTimestamp() != 1001 {
			t.Errorf("%s: producer %d, last sequence %d, timestamp %d", c.name, got.ProducerID(), got.LastSequence(), got.MaxTimestamp())
		}
		empty := bytes.Clone(got)
		if again, err := f.batch(empty); err != nil || &again[0] != &empty[0] {
			t.Errorf("%s: the empty batch did not stay as it is: %v", c.name, err)
		}
	}
}

func TestFilterForgetsTransactions(t *testing.T) {
	data := batchOf(record.BuilderOptions{HasProducer: true, ProducerID: 7, Transactional: true}, "a=1", "b=2")
	marker := func(commit bool) record.Batch {
		m := record.EndTxnMarker(7, 0, record.Marker{Commit: commit}, 1500, 4)
		m.SetBaseOffset(12)
		return m
	}
	stamp := func(b record.Batch) record.Batch {
		f := filterFor(100, nil)
		got, err := f.batch(b)
		if err != nil || !got.HasDeleteHorizon() || got.BaseTimestamp() != 5200 {
			t.Fatalf("a marker without data: got %s, %v, want a horizon of 5200", show(t, got), err)
		}
		return bytes.Clone(got)
	}
	abort := []storage.AbortedTxn{{ProducerID: 7, FirstOffset: 10, LastOffset: 12, LastStableOffset: 10}}
	for _, c := range []struct {
		name    string
		aborted []storage.AbortedTxn
		nowMs   int64
		last    map[string]int64
		batches []record.Batch
		want    []string
	}{
		{"committed data is data", nil, 5000, map[string]int64{"a": 50}, []record.Batch{data, marker(true)},
			[]string{"10-11 [11@1001:b=2]", "same"}},
		{"a commit marker stays as long as a batch was there", nil, 5000, map[string]int64{"a": 50, "b": 50}, []record.Batch{data, marker(true)},
			[]string{"gone", "same"}},
		{"aborted data goes at once", abort, 5000, nil, []record.Batch{data, marker(false)},
			[]string{"gone", "same"}},
		{"a marker with nothing left waits", nil, 5199, nil, []record.Batch{stamp(marker(true))}, []string{"same"}},
		{"and then goes", nil, 5200, nil, []record.Batch{stamp(marker(true))}, []string{"gone"}},
		{"an abort marker likewise", nil, 5200, nil, []record.Batch{stamp(marker(false))}, []string{"gone"}},
		{"not while there is data", nil, 9999, nil, []record.Batch{data, stamp(marker(true))}, []string{"same", "same"}},
	} {
		f := filterFor(100, c.last)
		f.nowMs, f.transactions = c.nowMs, newTransactions(c.aborted)
		for i, b := range c.batches {
			got, err := f.batch(b)
			s := show(t, got)
			if got != nil && len(got) == len(b) && &got[0] == &b[0] {
				s = "same"
			}
			if err != nil || s != c.want[i] {
				t.Errorf("%s: batch %d: got %s, %v, want %s", c.name, i, s, err, c.want[i])
			}
			if got != nil && (got.Transactional() != b.Transactional() || got.Control() != b.Control()) {
				t.Errorf("%s: batch %d: attributes %b, want those of before, %b", c.name, i, got.Attributes(), b.Attributes())
			}
		}
	}
	for _, c := range []struct {
		name  string
		epoch int16 // of the producer, of which no data is known
		batch record.Batch
		want  string
	}{
		{"the last marker of a live producer", 0, stamp(marker(true)), "12-12 []"},
		{"a marker of an epoch before", 1, stamp(marker(true)), "gone"},
		{"data that was replaced", 0, data, "gone"},
	} {
		f := filterFor(100, map[string]int64{"a": 50, "b": 50})
		f.nowMs, f.producers[7] = 9999, storage.ProducerInfo{ProducerID: 7, Epoch: c.epoch, LastOffset: -1}
		got, err := f.batch(c.batch)
		if s := show(t, got); err != nil || !strings.HasPrefix(s, c.want) {
			t.Errorf("%s: got %s, %v, want %s", c.name, s, err, c.want)
		}
	}
}

func TestFilterKeepsTheFirstBatchOfALog(t *testing.T) {
	b := batchOf(record.BuilderOptions{HasProducer: true, ProducerID: 7}, "a=1")
	b.SetBaseOffset(0)
	f := filterFor(100, map[string]int64{"a": 50})
	f.producers[7] = storage.ProducerInfo{ProducerID: 7, LastOffset: 0}
	if got, err := f.batch(b); err != nil || show(t, got) != "0-0 []" {
		t.Errorf("the last batch of its producer, at offset 0: got %s, %v, want it without records", show(t, got), err)
	}
}

func TestFilterKeepsTombstonesForEver(t *testing.T) {
	f := filterFor(100, nil)
	f.retentionMs = math.MaxInt64
	got, err := f.batch(batchOf(record.BuilderOptions{}, "a"))
	if want := fmt.Sprintf("10-10 [10@1000:a] horizon %d", int64(math.MaxInt64)); err != nil || show(t, got) != want {
		t.Errorf("got %s, %v, want %s", show(t, got), err, want)
	}
}

func TestFilterKeepsLogAppendTime(t *testing.T) {
	b := batchOf(record.BuilderOptions{LogAppendTime: true, AppendTimeMs: 3000}, "a=1", "b=2")
	got, err := filterFor(100, map[string]int64{"a": 50}).batch(b)
	if err != nil || show(t, got) != "10-11 [11@3000:b=2]" || !got.LogAppendTime() {
		t.Errorf("got %s, %v, want the broker's time", show(t, got), err)
	}
}
