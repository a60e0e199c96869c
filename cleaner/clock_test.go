package cleaner

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage"
)

// The clock of a rig stands years before that of the machine, so what goes by the latter is due at once.

// TestMaxCompactionLagGoesByTheClock has a log that only its age makes due: all of it is dirty, which is not more than the
// ratio.
func TestMaxCompactionLagGoesByTheClock(t *testing.T) {
	r := newRig(t)
	l := r.log(small("max.compaction.lag.ms", "60000", "min.cleanable.dirty.ratio", "1"))
	written := r.now
	fill(t, l, 40, 5, written)
	for _, c := range []struct {
		after  time.Duration
		passes int64
	}{{0, 0}, {time.Minute, 0}, {time.Minute + time.Millisecond, 1}, {time.Hour, 1}} {
		r.now = written.Add(c.after)
		r.c.Compact(context.Background())
		if got := r.c.Stats().Passes; got != c.passes {
			t.Errorf("%v after the records: %d passes, want %d", c.after, got, c.passes)
		}
	}
	if n := len(strings.Fields(r.read(l, 0))); n >= 40 || n < 5 {
		t.Errorf("%d records are left, want a few", n)
	}
}

// TestMinCompactionLagGoesByTheClock has a log that is due at once and of which half is a second younger than the rest.
func TestMinCompactionLagGoesByTheClock(t *testing.T) {
	r := newRig(t)
	l := r.log(small("min.compaction.lag.ms", "60000"))
	written := r.now
	for _, at := range []time.Time{written, written.Add(time.Second)} {
		fill(t, l, 30, 3, at)
		if err := l.Roll(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		after   time.Duration
		records int
	}{
		{0, 60},
		{time.Minute - time.Millisecond, 60},
		{time.Minute, 3 + 30},
		{time.Minute + time.Second - time.Millisecond, 3 + 30},
		{time.Minute + time.Second, 3},
	} {
		r.now = written.Add(c.after)
		r.c.Compact(context.Background())
		if got := len(strings.Fields(r.read(l, 0))); got != c.records {
			t.Errorf("%v after the older half: %d records are left, want %d", c.after, got, c.records)
		}
	}
}

// TestTombstonesGoByTheClock has a tombstone stay for delete.retention.ms after the pass that first met it.
func TestTombstonesGoByTheClock(t *testing.T) {
	r := newRig(t)
	l := r.log(small("delete.retention.ms", "60000"))
	r.put(l, "gone", nil, r.now)
	met := r.now
	for _, c := range []struct {
		after time.Duration
		stays bool
	}{{0, true}, {time.Minute - time.Millisecond, true}, {time.Minute, false}} {
		r.now = met.Add(c.after)
		fill(t, l, 20, 1, r.now) // makes it due
		r.c.Compact(context.Background())
		if got := r.read(l, 0); strings.HasPrefix(got, "0:gone") != c.stays {
			t.Errorf("%v after the first pass: records %s, want the tombstone: %v", c.after, got, c.stays)
		}
	}
	if got := r.c.Stats().Passes; got != 3 {
		t.Errorf("%d passes, want 3", got)
	}
}

// TestRetentionOfLogAppendTime writes records with timestamps of 1970 and of the next century to a topic that stamps its
// own: each stays for retention.ms after it was appended, and the open segment goes like the others.
func TestRetentionOfLogAppendTime(t *testing.T) {
	for policy, retain := range map[string]func(*rig){
		"delete":         func(r *rig) { r.c.Retain(context.Background()) },
		"compact,delete": func(r *rig) { r.c.Compact(context.Background()) },
	} {
		t.Run(policy, func(t *testing.T) {
			r := newRig(t)
			l := r.log(map[string]string{
				"cleanup.policy": policy, "internal.segment.bytes": "500", "message.timestamp.type": "LogAppendTime", "retention.ms": "3600000",
				"min.compaction.lag.ms": "604800000", // retention alone is at work
			})
			appended := r.now
			for i := range 40 {
				if i == 20 {
					r.now = appended.Add(time.Minute)
				}
				claimed := time.UnixMilli(0)
				if i%2 == 1 {
					claimed = appended.AddDate(100, 0, 0)
				}
				r.put(l, fmt.Sprint("k", i), []byte("value"), claimed)
			}
			older := int64(0) // the end of the last segment that has nothing of the second minute
			segments, err := l.Segments()
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range segments {
				if s.NextOffset <= 20 {
					older = s.NextOffset
				}
			}
			if older < 10 || len(segments) < 5 {
				t.Fatalf("segments %+v, want several and the older ones of the first 20 records", segments)
			}
			for _, c := range []struct {
				after time.Duration
				start int64
			}{
				{time.Minute, 0},
				{time.Hour, 0},
				{time.Hour + time.Millisecond, older},
				{time.Hour + time.Minute, older},
				{time.Hour + time.Minute + time.Millisecond, 40},
			} {
				r.now = appended.Add(c.after)
				retain(r)
				want := storage.Offsets{LogStart: c.start, LastStable: 40, HighWatermark: 40, End: 40}
				if got, err := l.Offsets(); err != nil || got != want {
					t.Errorf("%v after the first append: %+v, %v, want %+v", c.after, got, err, want)
				}
			}
			if n := l.Size(); n != 0 {
				t.Errorf("the log has %d bytes, want none", n)
			}
		})
	}
}
