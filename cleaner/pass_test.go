package cleaner

import (
	"context"
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
