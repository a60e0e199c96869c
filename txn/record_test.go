package txn

import (
	"encoding/hex"
	"maps"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kaen-log/gateway/groups/runtime"
	"github.com/kaen-log/gateway/storage/record"
)

const sampleID = "größe-1"

// samples are the transactions that testdata/records has, by their names there.
func samples() map[string]*transaction {
	sample := func(id, previous, next int64, epoch int16, s state, startMs int64, version int16, in ...Partition) *transaction {
		return &transaction{
			id: sampleID, Producer: Producer{id, epoch}, previousID: previous, nextID: next, lastEpoch: -1, version: version,
			state: s, timeoutMs: 60000, startMs: startMs, updateMs: 1700000000123, partitions: in,
		}
	}
	const began = 1700000000001
	seventh := Partition{"orders", 7}
	out := map[string]*transaction{
		"v1 new":         sample(4711, -1, -1, 0, empty, -1, 0),
		"v1 initialized": sample(4711, 4711, -1, 5, empty, -1, 2),
		"v1 ongoing":     sample(4711, 4711, -1, 5, ongoing, began, 0, seventh),
		"v1 commit":      sample(4711, 4711, -1, 5, prepareCommit, began, 0, Partition{"orders", 0}, Partition{"orders", 2}),
		"v1 abort":       sample(4711, 4711, 4712, 32767, prepareAbort, began, 2, seventh),
		"v1 committed":   sample(4711, 4711, -1, 5, completeCommit, began, 0),
		"v1 aborted":     sample(4712, 4711, -1, 0, completeAbort, began, 2),
	}
	for name, t := range maps.Clone(out) {
		old := *t
		old.previousID, old.nextID, old.version = -1, -1, 0
		out["v0"+strings.TrimPrefix(name, "v1")] = &old
	}
	return out
}

// kafkaRecords are the keys and values in testdata/records/kafka.txt, by name.
func kafkaRecords(t testing.TB) map[string][2][]byte {
	t.Helper()
	data, err := os.ReadFile("testdata/records/kafka.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][2][]byte{}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	for i := 0; i+2 < len(lines); i += 3 {
		var r [2][]byte
		for n := range r {
			if r[n], err = hex.DecodeString(lines[i+1+n]); err != nil {
				t.Fatal(err)
			}
		}
		out[lines[i]] = r
	}
	return out
}

func TestRecordsAreAsKafkaWritesThem(t *testing.T) {
	all, found := samples(), kafkaRecords(t)
	if len(found) != len(all) {
		t.Fatalf("testdata has %d records, want %d", len(found), len(all))
	}
	for name, r := range found {
		want := all[name]
		if id, known, err := parseKey(r[0]); id != sampleID || !known || err != nil {
			t.Errorf("%s: key is of %q, known %t, error %v", name, id, known, err)
		}
		got, err := parseValue(sampleID, r[1])
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\nread %+v, error %v\nwant %+v", name, got, err, want)
		}
		if strings.HasPrefix(name, "v0") {
			continue // is read only
		}
		if key := appendKey(nil, sampleID); string(key) != string(r[0]) {
			t.Errorf("%s: wrote key %x, want %x", name, key, r[0])
		}
		if value := appendValue(nil, want); string(value) != string(r[1]) {
			t.Errorf("%s:\nwrote %x\nwant  %x", name, value, r[1])
		}
	}
}

func TestPartitionsOfSeveralTopicsAreStoredByTopic(t *testing.T) {
	want := samples()["v1 ongoing"]
	want.partitions = []Partition{{"a", 0}, {"a", 9}, {"b", 1}, {"c", 0}, {"c", 1}}
	got, err := parseValue(sampleID, appendValue(nil, want))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, error %v, want %+v", got, err, want)
	}
}

func TestRecordsThatCannotBeRead(t *testing.T) {
	for name, r := range kafkaRecords(t) {
		for n := range len(r[0]) {
			if _, known, err := parseKey(r[0][:n]); err == nil && known {
				t.Errorf("%s: a key of %d bytes was read", name, n)
			}
		}
		for n := range len(r[1]) {
			if got, err := parseValue(sampleID, r[1][:n]); err == nil {
				t.Errorf("%s: a value of %d bytes was read: %+v", name, n, got)
			}
		}
	}
	value := appendValue(nil, samples()["v1 ongoing"])
	for _, test := range []struct {
		name string
		at   int
		b    byte
	}{{"version 2", 1, 2}, {"version -1", 0, 0xff}, {"a dead transaction", 16, 6}, {"state -1", 16, 0xff}} {
		bad := append([]byte{}, value...)
		bad[test.at] = test.b
		if got, err := parseValue(sampleID, bad); err == nil {
			t.Errorf("%s was read: %+v", test.name, got)
		}
	}
	if id, known, err := parseKey([]byte{0, 1, 0, 1, 'x'}); known || err != nil {
		t.Errorf("a key of type 1: got %q, known %t, error %v; want it left alone", id, known, err)
	}
}

// A coordinator of transactions writes batches as a producer without an id does.
func TestBatchesAreAsKafkaWritesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		w.init("payments")
		log := w.c.ownerOf("payments").log
		found := 0
		for b, err := range runtime.Batches(log) {
			if err != nil {
				t.Fatal(err)
			}
			found++
			if b.ProducerID() != -1 || b.ProducerEpoch() != -1 || b.BaseSequence() != -1 || b.Count() != 1 || b.Codec() != record.None {
				t.Errorf("producer %d epoch %d sequence %d, %d records, %v; want -1, -1, -1, one and none", b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), b.Count(), b.Codec())
			}
		}
		if found != 1 {
			t.Errorf("found %d batches, want 1", found)
		}
	})
}

// What is read of any bytes is what is written of it, and may be asked for anything: what
// comes of that can be stored, too.
func FuzzRecord(f *testing.F) {
	for _, r := range kafkaRecords(f) {
		f.Add(r[0], r[1])
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		id, known, err := parseKey(key)
		if !known || err != nil {
			return
		}
		got, err := parseValue(id, value)
		if err != nil {
			return
		}
		again, err := parseValue(id, appendValue(nil, got))
		if err != nil || !reflect.DeepEqual(again, got) {
			t.Errorf("%x is %+v, and written again %+v, error %v", value, got, again, err)
		}
		pending := got.state.prepared()
		for _, f := range []step{
			initStep(id, 1000, nil), initStep(id, 1000, &got.Producer),
			addStep(AddRequest{Producer: got.Producer, Partitions: []Partition{{"t", 1}}}),
			endStep(EndRequest{Producer: got.Producer, Commit: true}), endStep(EndRequest{Producer: got.Producer, V2: true}),
			func(nowMs int64, t *transaction, pending bool, _ int64) (*transaction, error) {
				if pending {
					return t.complete(nowMs), nil
				}
				return t, nil
			},
		} {
			next, err := f(5, got, pending, 77)
			if err != nil {
				continue
			}
			stored, err := parseValue(id, appendValue(nil, next))
			if err != nil || stored.state != next.state || stored.Producer != next.Producer {
				t.Errorf("%+v is followed by %+v, and read as %+v, error %v", got, next, stored, err)
			}
		}
	})
}
