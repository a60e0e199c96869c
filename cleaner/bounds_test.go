package cleaner

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// TestCommittedOffsetsStayBounded is CLN-14: a million commits to three partitions of a topic, in the form in which groups
// store them, leave a log that never takes more than a few segments of the disk, and is short to read after a restart.
func TestCommittedOffsetsStayBounded(t *testing.T) {
	const commits, segment = 1_000_000, 1 << 20
	now := time.UnixMilli(1_700_000_000_000)
	clock := func() time.Time { return now }
	d := newDisk(clock)
	open := func() (*storage.Store, *storage.Log) {
		s, err := storage.Open("data", storage.Options{FS: d, Now: clock})
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
		}
	}
	if largest := d.highest(); largest > 4*segment {
		t.Errorf("the disk held %d bytes, want at most four segments of %d", largest, segment)
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

// disk is a file system in memory that notes how much it held at most: in all files, those that wait for
// file.delete.delay.ms or for a reader among them.
type disk struct {
	vfs.FS
	mem *vfs.Mem

	mu   sync.Mutex
	most int64 // bytes; guarded by mu
}

func newDisk(clock func() time.Time) *disk {
	d := &disk{mem: vfs.NewMem(vfs.MemOptions{Now: clock})}
	d.FS = vfs.After(d.mem, func(op vfs.Op, _ error) {
		if op.Kind != vfs.OpWriteAt {
			return
		}
		used := d.used()
		d.mu.Lock()
		defer d.mu.Unlock()
		d.most = max(d.most, used)
	})
	return d
}

// used is what it holds now.
func (d *disk) used() int64 {
	free, total, err := d.mem.Free(".")
	if err != nil {
		panic(err)
	}
	return total - free
}

// forget begins anew with what it holds now.
func (d *disk) forget() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.most = d.used()
	return d.most
}

// highest is the most that it held since it was made or told to forget.
func (d *disk) highest() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.most
}

// TestADayStaysBounded writes a day's records, a minute at a time, and lets the cleaner look every minute. An hour's take 39 kB,
// and 50 take 4 kB. Where there is retention the keys are all different, so that nothing else bounds the log.
func TestADayStaysBounded(t *testing.T) {
	const perMinute, minutes, segment = 8, 24 * 60, 5000
	for _, c := range []struct {
		policy string
		keys   int
		most   int64 // bytes
	}{
		{"delete", math.MaxInt, 39_000 + 2*segment + 1000},         // the oldest segment, one that is deleted
		{"compact", 50, 2*4_000 + 2*segment + 1000},                // as much dirty as clean, the open segment, a new one
		{"compact,delete", math.MaxInt, 39_000 + 3*segment + 1000}, // as the first, a new one
	} {
		t.Run(c.policy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDisk(time.Now)
				s, err := storage.Open("data", storage.Options{FS: d, Now: time.Now})
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { s.Run(ctx) }) // removes deleted files
				l := topicLog(t, s, "orders", map[string]string{
					"cleanup.policy": c.policy, "internal.segment.bytes": fmt.Sprint(segment), "retention.ms": "3600000",
					"segment.ms": "600000", "min.cleanable.dirty.ratio": "0.5", "file.delete.delay.ms": "60000",
				})
				r := &rig{t: t, store: s, c: New(Options{Store: s, Now: time.Now})}
				key := func(offset int) string { return fmt.Sprintf("k%d", offset%c.keys) }
				for minute := range minutes {
					time.Sleep(time.Minute)
					synctest.Wait()
					if minute == 120 {
						d.forget()
					}
					for i := range perMinute {
						r.put(l, key(minute*perMinute+i), []byte("some value"), time.Now())
					}
					r.c.Retain(ctx)
					r.c.Compact(ctx)
				}
				if got := d.highest(); got > c.most {
					t.Errorf("the disk held %d bytes, want at most %d", got, c.most)
				}
				o, err := l.Offsets()
				if err != nil || o.End != perMinute*minutes || (o.LogStart > 0) != l.Config().Delete {
					t.Errorf("the log is %+v, %v, want %d records, and a start that retention alone moves", o, err, perMinute*minutes)
				}
				if passes := r.c.Stats().Passes; (passes > 0) != l.Config().Compact {
					t.Errorf("%d passes of compaction, want some: %v", passes, l.Config().Compact)
				}
				left := map[string]bool{}
				records(t, l, o.LogStart, func(_ record.Batch, rec record.Record) { left[string(rec.Key)] = true })
				for offset := perMinute * (minutes - 61); offset < perMinute*minutes; offset++ {
					if !left[key(offset)] {
						t.Errorf("%s is lost, which was written in the last hour", key(offset))
						break
					}
				}
				stop()
				running.Wait()
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestPassTakesTheRoomOfOneSegment makes passes over many segments, and wants each to need no more room than one group of them
// does, whatever the log has.
func TestPassTakesTheRoomOfOneSegment(t *testing.T) {
	const keys, segment, index = 2000, 10_000, 100
	now := time.UnixMilli(1_700_000_000_000)
	clock := func() time.Time { return now }
	d := newDisk(clock)
	s, err := storage.Open("data", storage.Options{FS: d, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, now: now, store: s, c: New(Options{Store: s, Now: clock})}
	l := r.log(small("internal.segment.bytes", fmt.Sprint(segment), "segment.index.bytes", fmt.Sprint(index)))
	write := func(which func(key int) bool) {
		for key := range keys {
			if which(key) {
				r.put(l, fmt.Sprint("k", key), make([]byte, 100), now)
			}
		}
	}
	write(func(int) bool { return true })
	for _, c := range []struct {
		name     string
		which    func(key int) bool // are written anew
		replaced int                // groups, at least
	}{
		{"a little of each segment goes", func(key int) bool { return key%20 == 0 }, 30},
		{"most of each segment goes", func(key int) bool { return key%4 > 0 }, 30},
		{"several segments become one", func(int) bool { return false }, 5},
	} {
		write(c.which)
		if err := l.Roll(); err != nil {
			t.Fatal(err)
		}
		before := d.forget()
		if st := r.force(l); st.Replaced < c.replaced {
			t.Errorf("%s: %d groups of %d segments were rewritten, want %d", c.name, st.Replaced, st.Segments, c.replaced)
		}
		if got, most := d.highest()-before, int64(segment+2*index); got > most {
			t.Errorf("%s: the pass took %d bytes, want at most %d, a segment and its indexes", c.name, got, most)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
