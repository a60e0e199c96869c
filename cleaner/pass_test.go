package cleaner

import (
	"strings"
	"testing"

	"github.com/kaen-log/gateway/storage/record"
)

// TestOpenTransactionReplacesNothing writes a key anew in a transaction that is open during a pass and then aborted.
func TestOpenTransactionReplacesNothing(t *testing.T) {
	r := newRig(t)
	l := r.log(small())
	r.put(l, "a", []byte("stays"), r.now)
	if err := l.Roll(); err != nil {
		t.Fatal(err)
	}
	r.data(l, 7, 0, "a")
	st := r.force(l)
	if st.Ceiling != 1 || st.Keys != 1 {
		t.Errorf("pass %+v, want one key below offset 1", st)
	}
	r.end(l, 7, 0, false)
	r.force(l)
	r.force(l)
	if got, want := r.read(l, 0), "0:a"; !strings.HasPrefix(got, want) {
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
		r.append(l, b.Bytes())
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
