package cleaner

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// TestCommittedOffsetsStayBounded is CLN-14: a million commits to three partitions of a topic, in the form in which groups
// store them, leave a log that never has more than a few segments, and is short to read after a restart.
func TestCommittedOffsetsStayBounded(t *testing.T) {
	const commits, segment = 1_000_000, 1 << 20
	now := time.UnixMilli(1_700_000_000_000)
	clock := func() time.Time { return now }
	fsys := vfs.NewMem(vfs.MemOptions{Now: clock})
	open := func() (*storage.Store, *storage.Log) {
		s, err := storage.Open("data", storage.Options{FS: fsys, Now: clock})
		if err != nil {
			t.Fatal(err)
		}
		topic, ok := s.Topic("offsets")
		if !ok {
			return s, topicLog(t, s, "offsets", map[string]string{
				"cleanup.policy": "compact", "internal.segment.bytes": fmt.Sprint(segment), "file.delete.delay.ms": "0",
			})
		}
		l, _ := topic.Partition(0)
		return s, l
	}
	s, l := open()
	c := New(Options{Store: s, Now: clock})
	var keys [3][]byte
	for p := range keys { // Kafka: OffsetCommitKey
		keys[p] = append([]byte{0, 1, 0, 5}, "group"...)
		keys[p] = append(append(keys[p], 0, 6), "orders"...)
		keys[p] = binary.BigEndian.AppendUint32(keys[p], uint32(p))
	}
	value := make([]byte, 60)
	largest := int64(0)
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
	for n := 0; n < commits; {
		b.Reset(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
		for range 100 {
			binary.BigEndian.PutUint64(value, uint64(n))
			b.Append(record.Record{Key: keys[n%3], Value: value, Timestamp: now.UnixMilli()})
			n++
		}
		a, err := l.Append(b.Bytes(), storage.AppendOptions{Origin: storage.OriginCoordinator})
		if err == nil && n%1000 == 0 {
			err = l.WaitDurable(context.Background(), a)
		}
		if err != nil {
			t.Fatal(err)
		}
		if n%20_000 == 0 { // about two segments
			now = now.Add(time.Second)
			c.Compact(context.Background())
			largest = max(largest, l.Size())
		}
	}
	if largest > 4*segment {
		t.Errorf("the log reached %d bytes, want at most four segments of %d", largest, segment)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, l = open()
	last, read := map[string]uint64{}, 0
	records(t, l, 0, func(_ record.Batch, r record.Record) {
		last[string(r.Key)] = binary.BigEndian.Uint64(r.Value)
		read++
	})
	if read > commits/20 {
		t.Errorf("%d records are read after a restart, want few of %d", read, commits)
	}
	for p, key := range keys {
		want := uint64((commits-1-p)/3*3 + p)
		if got := last[string(key)]; got != want {
			t.Errorf("partition %d: last offset %d, want %d", p, got, want)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestADayStaysBounded writes a day's records, a minute at a time, and lets the cleaner look every minute.
func TestADayStaysBounded(t *testing.T) {
	for _, c := range []struct {
		policy string
		most   int64 // bytes
	}{{"delete", 60_000}, {"compact", 25_000}, {"compact,delete", 25_000}} {
		t.Run(c.policy, func(t *testing.T) {
			r := newRig(t)
			l := r.log(map[string]string{
				"cleanup.policy": c.policy, "internal.segment.bytes": "5000", "retention.ms": "3600000", "segment.ms": "600000",
				"min.cleanable.dirty.ratio": "0.5", "file.delete.delay.ms": "0",
			})
			largest := int64(0)
			for minute := range 24 * 60 {
				r.now = r.now.Add(time.Minute)
				for i := range 8 {
					r.put(l, fmt.Sprintf("k%d", (minute*8+i)%50), []byte("some value"), r.now)
				}
				r.c.Retain(context.Background())
				r.c.Compact(context.Background())
				if minute > 120 {
					largest = max(largest, l.Size())
				}
			}
			if largest > c.most {
				t.Errorf("the log reached %d bytes, want at most %d", largest, c.most)
			}
			o, _ := l.Offsets()
			if o.End != 8*24*60 || (o.LogStart > 0) != (c.policy == "delete") {
				t.Errorf("the log is %+v", o)
			}
		})
	}
}
