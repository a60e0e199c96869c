package groups

import (
	"testing"

	"github.com/kaen-log/gateway/groups/runtime"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// FuzzReplayRecord reads records that anybody may have written to __consumer_offsets,
// and lets the groups that they make load, be listed and be removed.
func FuzzReplayRecord(f *testing.F) {
	o := Offset{Offset: 3, LeaderEpoch: 1, Metadata: "m", CommitMs: 4, ExpireMs: -1}
	f.Add(appendOffsetKey(nil, "g", offsetKey{"t", 1}), appendOffsetValue(nil, &o), classicKey("g"), []byte{0, 3, 0, 0})
	f.Add([]byte{0, 3, 0, 1, 'g'}, []byte{0, 0, 0, 0, 0, 1, 0}, []byte{0, 5, 0, 1, 'g', 0, 1, 'm'}, []byte{0, 0})
	f.Add([]byte{0, 2}, []byte{}, []byte{0, 99}, []byte{1})
	_, c := open(f, vfs.NewMem(vfs.MemOptions{}))
	f.Fuzz(func(t *testing.T, key1, value1, key2, value2 []byte) {
		s := newShard(c.env)
		replay := func(key, value []byte) {
			r := record.Record{Key: key, Value: value}
			b := runtime.NewBatch()
			b.Append(r)
			_ = s.replayRecord(b.Bytes(), r)
		}
		replay(key1, value1)
		replay(key2, value2)
		for id, e := range s.entries {
			if e.id != id || e.known() == nil {
				t.Fatalf("%q: entry %+v, want one that is known by its name", id, e)
			}
			if e.machine != nil {
				e.machine.loaded(start)
				e.machine.next()
			}
			if l, ok := e.listed(); !ok || l.ID != id {
				t.Errorf("%q: listed as %+v, %v", id, l, ok)
			}
		}
		replay(key1, nil)
		replay(key2, nil)
	})
}
