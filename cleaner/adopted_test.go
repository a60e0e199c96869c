package cleaner

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/vfs"
)

// TestAdoptedDirectoryIsLeftAlone lets the cleaner loose on the files of a Kafka broker ten years later, when all are old
// and much could be compacted: nothing of a partition changes before its first append.
func TestAdoptedDirectoryIsLeftAlone(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	const from = "../storage/testdata/adopt"
	err := filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		to := filepath.Join("data", rel)
		if d.IsDir() {
			if err := mem.MkdirAll(to); err != nil {
				return err
			}
			return nil
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f, err := mem.Create(to)
		if err != nil {
			return err
		}
		_, err = f.WriteAt(b, 0)
		return errors.Join(err, f.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
	var changes []string
	armed := false
	fsys := vfs.After(mem, func(op vfs.Op, _ error) {
		partition := filepath.Base(filepath.Dir(op.Name))
		if armed && op.Kind.Mutates() && strings.Contains(partition, "-") && partition != "__gateway_metadata-0" {
			changes = append(changes, op.String())
		}
	})
	now := time.Now().Add(10 * 365 * 24 * time.Hour)
	clock := func() time.Time { return now }
	s, err := storage.Open("data", storage.Options{FS: fsys, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	loaded := 0
	for _, topic := range s.Topics() {
		for p := range topic.Partitions() {
			l, _ := topic.Partition(p)
			if o, err := l.Offsets(); err == nil && o.End > o.LogStart {
				loaded++
			}
		}
	}
	if loaded < 4 {
		t.Fatalf("%d partitions with records, want those of the directory", loaded)
	}
	orders, _ := s.Topic("orders")
	l, _ := orders.Partition(0)
	before, err := l.Offsets()
	if err != nil {
		t.Fatal(err)
	}
	c := New(Options{Store: s, Now: clock})
	for _, limits := range [][2]string{{"-1", "300"}, {"1000", "-1"}} { // some of it goes, all of it
		configs := orders.Overrides()
		configs["retention.ms"], configs["retention.bytes"] = limits[0], limits[1]
		if err := s.SetTopicConfigs(orders.ID(), configs); err != nil {
			t.Fatal(err)
		}
		armed = true
		c.Retain(context.Background())
		c.Compact(context.Background())
		armed = false
		if o, err := l.Offsets(); len(changes) > 0 || err != nil || o != before {
			t.Errorf("retention %v before any append: the log is %+v, %v, changed is %v, want %+v and nothing", limits, o, err, changes, before)
		}
	}
	fill(t, l, 1, 1, now)
	c.Retain(context.Background())
	if o, err := l.Offsets(); err != nil || o.LogStart < 20 || o.End != 21 {
		t.Errorf("after an append the log is %+v, %v, want its old records gone", o, err)
	}
	if other, _ := orders.Partition(1); other.Size() == 0 {
		t.Error("the other partition lost its records")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
