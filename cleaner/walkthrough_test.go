package cleaner

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

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
