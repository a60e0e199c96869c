package share

import (
	"encoding/hex"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/kaen-log/gateway/groups/runtime"
	"github.com/kaen-log/gateway/storage"
)

var sampleKey = Key{"grp", storage.TopicID{0: 0xaa, 15: 0xbb}, 7}

// The bytes are Kafka's, by its message definitions.
func TestRecordsAreAsKafkaWritesThem(t *testing.T) {
	for _, test := range []struct {
		name string
		got  []byte
		want string
	}{
		{"key of a snapshot", appendKey(nil, typeSnapshot, sampleKey), "0000" + "0003677270" + "aa0000000000000000000000000000bb" + "00000007"},
		{"key of an update", appendKey(nil, typeUpdate, sampleKey), "0001" + "0003677270" + "aa0000000000000000000000000000bb" + "00000007"},
		{
			"snapshot", appendSnapshot(nil, &stored{snapshotEpoch: 1, stateEpoch: 2, leaderEpoch: 3, start: 4, complete: 9, createdMs: 5, writtenMs: 6, batches: []Batch{{Extent{4, 8}, Archived, 2}}}),
			"0000" + "00000001" + "00000002" + "00000003" + "0000000000000004" + "0000000000000005" + "0000000000000006" +
				"02" + "0000000000000004" + "0000000000000008" + "04" + "0002" + "00" + "01" + "00" + "04" + "00000009",
		},
		{"update", appendUpdate(nil, &update{snapshotEpoch: 1, leaderEpoch: -1, start: -1, complete: -1}), "0000" + "00000001" + "ffffffff" + "ffffffffffffffff" + "01" + "00"},
	} {
		if got := hex.EncodeToString(test.got); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.name, got, test.want)
		}
	}
}

// TestBatchesAreAsKafkaWritesThem looks at the producer fields: a coordinator of Kafka's
// has no producer id, and yet numbers its batches.
func TestBatchesAreAsKafkaWritesThem(t *testing.T) {
	w := newWorld(t, Config{})
	w.initialize(0, 0)
	found := 0
	for _, s := range w.st.all() {
		for b, err := range runtime.Batches(s.log) {
			if err != nil {
				t.Fatal(err)
			}
			found++
			if b.ProducerID() != -1 || b.ProducerEpoch() != -1 || b.BaseSequence() != 0 || b.Count() != 1 {
				t.Errorf("batch of producer %d, epoch %d, from sequence %d with %d records, want -1, -1, 0, 1", b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), b.Count())
			}
		}
	}
	if found != 1 {
		t.Errorf("found %d batches, want 1", found)
	}
}

// Where a partition's records are is Kafka's choice: the hash of "group:topic:partition".
func TestPartitionOfTheStateTopicIsKafkas(t *testing.T) {
	for _, test := range []struct {
		k    Key
		want int32
	}{
		// "g:AAAAAAAAAAAAAAAAAAAAAA:0", worked out by hand from String.hashCode.
		{Key{Group: "g"}, hashByHand("g:AAAAAAAAAAAAAAAAAAAAAA:0") % 50},
		{sampleKey, hashByHand("grp:qgAAAAAAAAAAAAAAAAAAuw:7") % 50},
	} {
		if got := test.k.partitionOf(50); got != test.want {
			t.Errorf("partition of %+v: got %d, want %d", test.k, got, test.want)
		}
	}
}

// hashByHand is the absolute value of String.hashCode for ASCII, by powers of 31.
func hashByHand(s string) int32 {
	var h, power int32 = 0, 1
	for i := len(s) - 1; i >= 0; i-- {
		h += int32(s[i]) * power
		power *= 31
	}
	return max(h, -h)
}

func FuzzStateRecord(f *testing.F) {
	f.Add(appendKey(nil, typeSnapshot, sampleKey), appendSnapshot(nil, &stored{start: 4, complete: 9, batches: []Batch{{Extent{4, 8}, Archived, 2}}}))
	f.Add(appendKey(nil, typeUpdate, sampleKey), appendUpdate(nil, &update{start: 4, complete: -1, batches: []Batch{{Extent{4, 8}, Acknowledged, 2}}}))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		if kind, k, ok, err := parseKey(key); err == nil && ok {
			again, k2, _, err := parseKey(appendKey(nil, kind, k))
			if err != nil || again != kind || k2 != k {
				t.Fatalf("key %x: got %d %+v, then %d %+v %v", key, kind, k, again, k2, err)
			}
		}
		if s, err := parseSnapshot(value); err == nil {
			again, err := parseSnapshot(appendSnapshot(nil, s))
			if err != nil || !reflect.DeepEqual(again, s) {
				t.Fatalf("snapshot %x: got %+v, then %+v %v", value, s, again, err)
			}
			NewPartition(max(0, s.start), s.batches, func() Limits { return Limits{} })
		}
		if u, err := parseUpdate(value); err == nil {
			again, err := parseUpdate(appendUpdate(nil, u))
			if err != nil || !reflect.DeepEqual(again, u) {
				t.Fatalf("update %x: got %+v, then %+v %v", value, u, again, err)
			}
			(&stored{}).updated(u)
		}
	})
}

// combine is compared with a table of offsets.
func TestBatchesAreCombinedOffsetByOffset(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 5))
		some := func() (list []Batch) {
			for range r.IntN(6) {
				first := r.Int64N(20)
				list = append(list, Batch{Extent{first, first + r.Int64N(8)}, []RecordState{Available, Acknowledged, Archived}[r.IntN(3)], int16(r.IntN(3))})
			}
			return list
		}
		under, over, start := some(), some(), r.Int64N(6)-1
		var want []Batch
		for o := max(0, start); o < 40; o++ {
			best := Batch{Deliveries: -1}
			for _, b := range slices.Concat(under, over) {
				if b.First <= o && o <= b.Last && (b.Deliveries > best.Deliveries || b.Deliveries == best.Deliveries && b.State > best.State) {
					best = b
				}
			}
			if best.Deliveries < 0 {
				continue
			}
			if n := len(want); n > 0 && want[n-1].Last+1 == o && want[n-1].State == best.State && want[n-1].Deliveries == best.Deliveries {
				want[n-1].Last = o
				continue
			}
			want = append(want, Batch{Extent{o, o}, best.State, best.Deliveries})
		}
		if got := combine(under, over, start); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %v over %v from %d:\n got %v\nwant %v", seed, over, under, start, got, want)
		}
	}
}
