package cleaner

import (
	"testing"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// consume reads a log from the beginning as a read_committed client does, up to the offset `to`, so many bytes at a time, and
// calls do with each record. What a producer wrote in an aborted transaction is dropped until a marker says that it ended.
func consume(t testing.TB, l *storage.Log, to int64, maxBytes int, do func(record.Batch, record.Record)) {
	t.Helper()
	o, err := l.Offsets()
	if err != nil {
		t.Fatal(err)
	}
	var reader record.Reader
	for offset := o.LogStart; offset < to; {
		res, err := l.Read(nil, storage.ReadRequest{Offset: offset, MaxBytes: maxBytes, MinOneBatch: true, Isolation: storage.ReadCommitted})
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Data) == 0 {
			break
		}
		dropped := map[int64]bool{} // producers whose data is of an aborted transaction
		for rest := res.Data; len(rest) > 0; {
			var b record.Batch
			if b, rest, err = record.Cut(rest); err != nil {
				t.Fatal(err)
			}
			offset = b.NextOffset()
			for len(res.Aborted) > 0 && res.Aborted[0].FirstOffset <= b.LastOffset() {
				dropped[res.Aborted[0].ProducerID] = true
				res.Aborted = res.Aborted[1:]
			}
			skip := b.Control() || b.Transactional() && dropped[b.ProducerID()]
			for r, err := range reader.Records(b) {
				if err != nil {
					t.Fatal(err)
				}
				if end, ok, err := record.ParseEndTxnMarker(r); b.Control() && err == nil && ok && !end.Commit {
					delete(dropped, b.ProducerID())
				}
				if !skip {
					do(b, r)
				}
			}
		}
	}
}

// endState is the state that a read_committed client of a log ends with: of each key the last value, unless it is null.
func endState(t testing.TB, l *storage.Log, to int64, maxBytes int) map[string]string {
	t.Helper()
	state := map[string]string{}
	consume(t, l, to, maxBytes, func(_ record.Batch, r record.Record) {
		if state[string(r.Key)] = string(r.Value); r.Value == nil {
			delete(state, string(r.Key))
		}
	})
	return state
}
