package cleaner

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// rig is a store in memory with a clock that tests move.
type rig struct {
	t     *testing.T
	now   time.Time
	store *storage.Store
	c     *Cleaner
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, now: time.UnixMilli(1_700_000_000_000)}
	clock := func() time.Time { return r.now }
	s, err := storage.Open("data", storage.Options{FS: vfs.NewMem(vfs.MemOptions{Now: clock}), Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	r.store = s
	r.c = New(Options{Store: s, Now: clock})
	return r
}

// log makes a topic of one partition and returns that.
func (r *rig) log(configs map[string]string) *storage.Log {
	r.t.Helper()
	topic, err := r.store.CreateTopic(storage.TopicSpec{Name: "orders", Partitions: 1, Configs: configs})
	if err != nil {
		r.t.Fatal(err)
	}
	l, _ := topic.Partition(0)
	return l
}

// put appends one record in a batch of its own; a nil value is a tombstone.
func (r *rig) put(l *storage.Log, key string, value []byte, at time.Time) int64 {
	r.t.Helper()
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
	b.Append(record.Record{Key: []byte(key), Value: value, Timestamp: at.UnixMilli()})
	a, err := l.Append(b.Bytes(), storage.AppendOptions{})
	if err == nil {
		err = l.WaitDurable(context.Background(), a)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return a.BaseOffset
}

// read returns the records from offset on as offset:key.
func (r *rig) read(l *storage.Log, offset int64) string {
	r.t.Helper()
	var out []string
	var reader record.Reader
	for {
		res, err := l.Read(nil, storage.ReadRequest{Offset: offset, MaxBytes: 1 << 20, MinOneBatch: true})
		if err != nil {
			r.t.Fatal(err)
		}
		if len(res.Data) == 0 {
			return strings.Join(out, " ")
		}
		for rest := res.Data; len(rest) > 0; {
			var b record.Batch
			if b, rest, err = record.Cut(rest); err != nil {
				r.t.Fatal(err)
			}
			for rec, err := range reader.Records(b) {
				if err != nil {
					r.t.Fatal(err)
				}
				if rec.Offset >= offset {
					out = append(out, fmt.Sprintf("%d:%s", rec.Offset, rec.Key))
				}
			}
			offset = max(offset, b.NextOffset())
		}
	}
}

func TestWalkThrough(t *testing.T) {
	r := newRig(t)
	l := r.log(map[string]string{
		"cleanup.policy": "delete,compact", "internal.segment.bytes": "512", "retention.ms": "604800000",
		"delete.retention.ms": "86400000", "message.timestamp.before.max.ms": "9223372036854775807",
	})
	value := []byte(strings.Repeat("x", 57))
	for i := range 21 {
		at := r.now.Add(-8*24*time.Hour + time.Duration(i)*time.Minute)
		if i >= 6 {
			at = r.now.Add(-13*time.Hour + time.Duration(i)*time.Minute)
		}
		r.put(l, fmt.Sprintf("ORD-%d", 1042+i%3), value, at)
	}
	r.c.retain(l)
	o, _ := l.Offsets()
	if o.LogStart != 6 || o.End != 21 {
		t.Errorf("after retention the log is %+v, want 6 to 21", o)
	}
	r.put(l, "ORD-1043", nil, r.now.Add(-12*time.Hour))
	for i := range 6 {
		r.put(l, fmt.Sprintf("ORD-%d", 1042+i%2*2), value, r.now.Add(-11*time.Hour))
	}
	type outcome struct {
		ceiling                                             int64
		keys, segments                                      int
		recordsBefore, records, before, after, tombs, drops int64
		stamped                                             int64
	}
	pass := func(want outcome) {
		t.Helper()
		s, err := r.c.Force(context.Background(), l)
		got := outcome{s.Ceiling, s.Keys, s.Segments, s.RecordsRead, s.RecordsKept, s.SizeBefore, s.SizeAfter, s.TombstonesKept, s.TombstonesDropped, s.HorizonsStamped}
		if err != nil || got != want {
			t.Errorf("pass: got %+v, %v, want %+v", got, err, want)
		}
	}
	pass(outcome{25, 3, 6, 19, 3, 2488, 347, 1, 0, 1})
	pass(outcome{25, 3, 6, 3, 3, 347, 347, 1, 0, 0})
	r.now = r.now.Add(86400001 * time.Millisecond)
	pass(outcome{25, 3, 1, 3, 2, 347, 268, 0, 1, 0})
	if got, want := r.read(l, 6), "23:ORD-1044 24:ORD-1042 25:ORD-1044 26:ORD-1042 27:ORD-1044"; got != want {
		t.Errorf("records: got %s, want %s", got, want)
	}
	if o, _ := l.Offsets(); o.End != 28 {
		t.Errorf("log ends at %d, want 28", o.End)
	}
}
