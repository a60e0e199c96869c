package cleaner

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// TestOpenTransactionReplacesNothing writes a key anew in a transaction that is open during a pass, behind a segment that
// ends with a gap, so that reading on from there leads beyond the ceiling.
func TestOpenTransactionReplacesNothing(t *testing.T) {
	r := newRig(t)
	l := r.log(small("delete.retention.ms", "1000"))
	r.put(l, "a", []byte("stays"), r.now)
	r.transaction(l, 7, 0, "b", false)
	if err := l.Roll(); err != nil {
		t.Fatal(err)
	}
	r.data(l, 7, 1, "a")
	for range 4 { // the data goes, the marker gets its horizon and goes, and nothing goes
		st, err := r.c.Force(context.Background(), l)
		if err != nil || st.Ceiling != 3 || st.Keys != 1 {
			t.Errorf("pass %+v, %v, want one key below offset 3", st, err)
		}
		r.now = r.now.Add(time.Minute)
	}
	r.end(l, 7, 2, false)
	if got, want := r.read(l, 0), "0:a 3:a 4:"; !strings.HasPrefix(got, want) {
		t.Errorf("records: got %s, want %s and the marker", got, want)
	}
}

// TestKeylessRecordReplacesNoEmptyKey lets a log have records without a key from before it was compacted.
func TestKeylessRecordReplacesNoEmptyKey(t *testing.T) {
	r := newRig(t)
	l := r.log(small("cleanup.policy", "delete"))
	for _, key := range [][]byte{{}, nil} {
		b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
		b.Append(record.Record{Key: key, Value: []byte("v"), Timestamp: r.now.UnixMilli()})
		appendDurably(t, l, b.Bytes(), storage.OriginClient)
	}
	topic, _ := r.store.Topic("orders")
	if err := r.store.SetTopicConfigs(topic.ID(), small()); err != nil {
		t.Fatal(err)
	}
	st := r.force(l)
	if got := r.read(l, 0); got != "0:" || st.Keys != 1 || st.Keyless != 1 {
		t.Errorf("records: got %q after %+v, want the one with an empty key", got, st)
	}
}

// TestPassSurvivesHashCollisions compacts logs with maps whose hashes collide. Each key is once in the part that is clean
// and some are again in the dirty part, so that keys of either would take others with them.
func TestPassSurvivesHashCollisions(t *testing.T) {
	for name, hash := range collisions {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			l := r.log(small("internal.segment.bytes", "100000"))
			keys := keysOfAllKinds(rand.New(rand.NewPCG(1, 0)), 150)
			last := map[string]int64{}
			for _, key := range keys {
				last[key] = r.put(l, key, []byte("clean"), r.now)
			}
			r.force(l)
			for i, key := range keys {
				if i%3 == 0 {
					last[key] = r.put(l, key, []byte("dirty"), r.now)
				}
			}
			if err := l.Roll(); err != nil {
				t.Fatal(err)
			}
			ch, err := choose(l, l.CleanedTo(), r.now.UnixMilli())
			if err != nil {
				t.Fatal(err)
			}
			own := r.c.compactor(DefaultConfig())
			own.offsets.hash = hash
			st, err := own.pass(context.Background(), l, ch, r.now.UnixMilli())
			if err != nil {
				t.Fatal(err)
			}
			if st.FirstDirty != 150 || st.End != 200 || st.Keys != 50 {
				t.Errorf("pass %+v, want one over 50 keys from offset 150 to 200", st)
			}
			found := map[string]int64{}
			records(t, l, 0, func(_ record.Batch, rec record.Record) {
				if _, twice := found[string(rec.Key)]; twice {
					t.Errorf("%q is there twice", rec.Key)
				}
				found[string(rec.Key)] = rec.Offset
			})
			for key, want := range last {
				if got, ok := found[key]; !ok || got != want {
					t.Errorf("%q: at offset %d, %v, want its last value at %d", key, got, ok, want)
				}
			}
		})
	}
}

// TestPassesGetBeyondLargeKeys lets the map have no room for most of the keys, and gives it the worst of samples: a key that
// is not like those behind it.
func TestPassesGetBeyondLargeKeys(t *testing.T) {
	r := newRig(t)
	l := r.log(small("internal.segment.bytes", "500000"))
	var keys []string
	for i := range 40 {
		keys = append(keys, strings.Repeat(string(rune('a'+i%20)), 3000), fmt.Sprint("key ", i%20), strings.Repeat("x", 200_000))
	}
	for i, key := range keys {
		r.put(l, key, fmt.Append(nil, i), r.now)
	}
	if err := l.Roll(); err != nil {
		t.Fatal(err)
	}
	own := r.c.compactor(Config{DedupeBytes: 8000, LoadFactor: 0.9})
	passes := 0
	for ; ; passes++ {
		ch, err := choose(l, l.CleanedTo(), r.now.UnixMilli())
		if err != nil {
			t.Fatal(err)
		}
		if ch.firstDirty == ch.ceiling {
			break
		}
		st, err := own.pass(context.Background(), l, ch, r.now.UnixMilli())
		if err != nil || st.End <= ch.firstDirty {
			t.Fatalf("pass %+v, %v, want to get beyond offset %d", st, err, ch.firstDirty)
		}
		if got := own.offsets.taken(); got > 8000+int64(longKeyBytes([]byte(keys[2]))) {
			t.Errorf("the map takes %d bytes", got)
		}
	}
	found := ""
	records(t, l, 0, func(_ record.Batch, rec record.Record) { found += fmt.Sprint(" ", rec.Offset) })
	want := ""
	for i := 60; i < 120; i++ {
		if i%3 != 2 || i == 119 {
			want += fmt.Sprint(" ", i)
		}
	}
	if found != want || passes < 40 || passes > 80 {
		t.Errorf("after %d passes the records are at%s, want%s", passes, found, want)
	}
}

// TestPassDividesTheMapByItsFirstRecords has keys for which the map has room only when it is left for their length.
func TestPassDividesTheMapByItsFirstRecords(t *testing.T) {
	r := newRig(t)
	l := r.log(small("internal.segment.bytes", "500000"))
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
	for i := range 3600 {
		b.Append(record.Record{Key: fmt.Appendf(nil, "%036d", i%1200), Value: []byte("v"), Timestamp: r.now.UnixMilli()})
	}
	appendDurably(t, l, b.Bytes(), storage.OriginClient)
	r.c.o.Config = func() Config { return Config{DedupeBytes: 64 << 10, LoadFactor: 0.9} }
	if st := r.force(l); st.Keys != 1200 || st.End != 3600 {
		t.Errorf("pass %+v, want one over all keys", st)
	}
}

// TestPassOverNothingDirtyForgetsTheMap has a compactor that made a pass over another log before.
func TestPassOverNothingDirtyForgetsTheMap(t *testing.T) {
	r := newRig(t)
	own := r.c.compactor(DefaultConfig())
	pass := func(name string, more int) PassStats {
		l := topicLog(t, r.store, name, small())
		fill(t, l, 10+more, 5, r.now)
		if err := l.Roll(); err != nil {
			t.Fatal(err)
		}
		end := int64(10 + more)
		st, err := own.pass(context.Background(), l, choice{firstDirty: end - int64(more), ceiling: end}, r.now.UnixMilli())
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	pass("table", 10)
	if st := pass("another", 0); st.RecordsRead != 10 || st.RecordsKept != 10 || st.Keys != 0 {
		t.Errorf("pass %+v over a log of which nothing is dirty, want all 10 records kept", st)
	}
}
