package cleaner

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// TestCrashInAPass takes a crash clone after every operation of a pass. Whatever is left holds the last value of each key,
// no key that was deleted, and no record that was not written.
func TestCrashInAPass(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
	type point struct {
		mem   *vfs.Mem
		label string
	}
	var points []point
	armed, seed := false, uint64(0)
	fsys := vfs.After(mem, func(op vfs.Op, err error) {
		if armed && err == nil {
			for _, keep := range []float64{0, 0.5, 1} {
				seed++
				points = append(points, point{mem.CrashClone(seed, keep), fmt.Sprintf("after %v, keeping %.1f, seed %d", op, keep, seed)})
			}
		}
	})
	now := time.UnixMilli(1_700_000_000_000)
	clock := func() time.Time { return now }
	s, err := storage.Open("data", storage.Options{FS: fsys, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	l := topicLog(t, s, "orders", small("delete.retention.ms", "1000"))
	rig := &rig{t: t, now: now, store: s}
	fill(t, l, 40, 6, now)
	rig.put(l, "k1", nil, now)
	rig.put(l, "k2", nil, now)
	fill(t, l, 20, 1, now)
	c := New(Options{Store: s, Now: clock})
	armed = true
	for range 2 {
		if _, err := c.Force(context.Background(), l); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Hour) // the second pass drops the tombstones
	}
	armed = false
	if len(points) < 100 {
		t.Fatalf("%d crashes, want more", len(points))
	}
	for _, p := range points {
		t.Run(p.label, func(t *testing.T) {
			again, err := storage.Open("data", storage.Options{FS: p.mem, Now: clock})
			if err != nil {
				t.Fatal(err)
			}
			topic, _ := again.Topic("orders")
			l, _ := topic.Partition(0)
			state := map[string]string{}
			records(t, l, 0, func(_ record.Batch, r record.Record) {
				if state[string(r.Key)] = string(r.Value); r.Value == nil {
					delete(state, string(r.Key))
				}
			})
			if got, want := fmt.Sprint(state), "map[k0:value 19 k3:value 39 k4:value 34 k5:value 35]"; got != want {
				t.Errorf("a consumer ends with %s, want %s", got, want)
			}
			if err := again.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
