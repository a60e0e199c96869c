package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kaen-log/gateway/cleaner"
	"github.com/kaen-log/gateway/groups"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// newDemoCleanerCommand walks through what a log forgets: whole segments by age, records that a later one of their key has
// replaced, and tombstones by appointment.
func newDemoCleanerCommand() *cobra.Command {
	d := &cleanerDemo{}
	cmd := d.command("cleaner", "Watch a log forget: retention, compaction, delete horizons",
		"Fills a small log in memory, lets retention and compaction loose on it, and moves the\n"+
			"clock past the delete horizon of a tombstone. The same flags always print the same.", d.run)
	cmd.Flags().Int64Var(&d.retentionMs, "retention-ms", 604800000, "retention.ms of the topic")
	cmd.Flags().Int64Var(&d.deleteRetentionMs, "delete-retention-ms", 86400000, "delete.retention.ms of the topic")
	cmd.Flags().IntVar(&d.passes, "passes", 2, "passes of compaction before the clock moves past the delete horizon")
	return cmd
}

type cleanerDemo struct {
	walkThrough
	retentionMs       int64
	deleteRetentionMs int64
	passes            int

	store   *storage.Store
	cleaner *cleaner.Cleaner
	log     *storage.Log
}

func (d *cleanerDemo) run() error {
	if d.passes < 1 || d.retentionMs < 0 || d.deleteRetentionMs < 0 {
		return &exitError{Code: exitUsage, Err: fmt.Errorf("passes %d, retention %d ms, delete retention %d ms: want at least 1, 0 and 0",
			d.passes, d.retentionMs, d.deleteRetentionMs)}
	}
	// The clock moves past the delete horizon at the end, and the first records are older than it by days.
	if oldest, latest := demoOldest.Milliseconds(), math.MaxInt64-1-d.deleteRetentionMs; d.nowMs < oldest || d.nowMs > latest {
		return &exitError{Code: exitUsage, Err: fmt.Errorf("--now-ms: got %d with a delete retention of %d ms, want %d to %d",
			d.nowMs, d.deleteRetentionMs, oldest, latest)}
	}
	store, err := storage.Open("data", storage.Options{FS: vfs.NewMem(vfs.MemOptions{Now: d.clock}), Now: d.clock})
	if err != nil {
		return err
	}
	d.store = store
	d.cleaner = cleaner.New(cleaner.Options{Store: store, Now: d.clock})
	for _, step := range []func() error{d.fill, d.retain, d.replace, d.compact, d.forget, d.offsets, store.Close} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

const (
	demoHours  = 13                 // how long ago what stays was written
	demoOldest = 8 * 24 * time.Hour // how long ago the first two segments were
)

// fill writes 21 records in segments of three, the first two segments older than a week.
func (d *cleanerDemo) fill() error {
	topic, err := d.store.CreateTopic(storage.TopicSpec{Name: "orders", Partitions: 1, Configs: map[string]string{
		"cleanup.policy": "delete,compact", "internal.segment.bytes": "512",
		"retention.ms": fmt.Sprint(d.retentionMs), "delete.retention.ms": fmt.Sprint(d.deleteRetentionMs),
		"message.timestamp.before.max.ms": "9223372036854775807",
	}})
	if err != nil {
		return err
	}
	d.log, _ = topic.Partition(0)
	for i := range int64(21) {
		ago := time.Duration(demoHours) * time.Hour
		if i < 6 {
			ago = demoOldest
		}
		if err := d.append(fmt.Sprintf("ORD-%d", 1042+i%3), demoOrder, d.nowMs-ago.Milliseconds()+i); err != nil {
			return err
		}
	}
	d.printf("A log of %d records, each in a batch of its own, in segments of 512 bytes\n\n", 21)
	return d.segments()
}

// demoOrder makes a batch of one order 134 bytes long.
var demoOrder = []byte(`{"event":"OrderPlaced","order":"paid","total_cents":1299}`)

// append writes a record in a batch of its own and waits until it is durable; a nil value is a tombstone.
func (d *cleanerDemo) append(key string, value []byte, timestampMs int64) error {
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
	b.Append(record.Record{Key: []byte(key), Value: value, Timestamp: timestampMs})
	a, err := d.log.Append(b.Bytes(), storage.AppendOptions{})
	if err != nil {
		return err
	}
	return d.log.WaitDurable(context.Background(), a)
}

// segments prints where the segments of the log begin, and the log's bounds.
func (d *cleanerDemo) segments() error {
	segments, err := d.log.Segments()
	if err != nil {
		return err
	}
	for _, s := range segments {
		age := time.Duration(d.nowMs-s.MaxTimestamp) * time.Millisecond
		d.printf("  segment %2d  %4d bytes  newest record %s old\n", s.BaseOffset, s.Size, age.Round(time.Hour))
	}
	o, err := d.log.Offsets()
	if err != nil {
		return err
	}
	d.printf("  log start %d, end %d\n\n", o.LogStart, o.End)
	return nil
}

// bases are the base offsets of the log's segments.
func (d *cleanerDemo) bases() (map[int64]bool, []int64, error) {
	segments, err := d.log.Segments()
	bases := map[int64]bool{}
	var order []int64
	for _, s := range segments {
		bases[s.BaseOffset] = true
		order = append(order, s.BaseOffset)
	}
	return bases, order, err
}

// retain applies retention.
func (d *cleanerDemo) retain() error {
	before, err := d.log.Offsets()
	if err != nil {
		return err
	}
	_, order, err := d.bases()
	if err != nil {
		return err
	}
	if err := d.cleaner.RetainLog(d.log); err != nil {
		return err
	}
	left, _, err := d.bases()
	if err != nil {
		return err
	}
	var gone []int64
	for _, base := range order {
		if !left[base] {
			gone = append(gone, base)
		}
	}
	after, err := d.log.Offsets()
	if err != nil {
		return err
	}
	retention := fmt.Sprint(d.retentionMs, " ms")
	if d.retentionMs <= math.MaxInt64/int64(time.Millisecond) {
		retention = fmt.Sprint(time.Duration(d.retentionMs) * time.Millisecond)
	}
	d.printf("Retention drops whole segments whose newest record is older than %s\n\n", retention)
	d.printf("  segments %v go, %d records; log start %d -> %d, end stays %d\n\n",
		gone, after.LogStart-before.LogStart, before.LogStart, after.LogStart, after.End)
	return nil
}

// replace writes a tombstone and newer values of the other keys.
func (d *cleanerDemo) replace() error {
	at := d.nowMs - (demoHours-1)*time.Hour.Milliseconds()
	if err := d.append("ORD-1043", nil, at); err != nil {
		return err
	}
	for i := range int64(6) {
		if err := d.append(fmt.Sprintf("ORD-%d", 1042+i%2*2), demoOrder, at+1+i); err != nil {
			return err
		}
	}
	d.printf("A tombstone for ORD-1043, and newer values for ORD-1042 and ORD-1044\n\n")
	return d.segments()
}

// compact makes the passes, forced over all that may be cleaned.
func (d *cleanerDemo) compact() error {
	d.printf("Compaction keeps the last record of each key; a pass goes up to the open segment\n\n")
	for i := range d.passes {
		if err := d.pass(fmt.Sprintf("pass %d", i+1)); err != nil {
			return err
		}
	}
	d.printf("\n")
	return nil
}

func (d *cleanerDemo) pass(name string) error {
	s, err := d.cleaner.Force(context.Background(), d.log)
	if err != nil {
		return err
	}
	d.printf("  %s: ceiling %d, %d keys in the head, %d segments, records %d -> %d, bytes %d -> %d\n",
		name, s.Ceiling, s.Keys, s.Segments, s.RecordsRead, s.RecordsKept, s.SizeBefore, s.SizeAfter)
	d.printf("  %*s  tombstones kept %d dropped %d, horizons stamped %d\n",
		len(name)-1, "", s.TombstonesKept, s.TombstonesDropped, s.HorizonsStamped)
	return nil
}

// forget moves the clock past the tombstone's delete horizon.
func (d *cleanerDemo) forget() error {
	d.nowMs += d.deleteRetentionMs + 1
	d.printf("The clock moves on by delete.retention.ms and 1: the tombstone's horizon is reached\n\n")
	if err := d.pass("pass"); err != nil {
		return err
	}
	o, err := d.log.Offsets()
	if err != nil {
		return err
	}
	var records []string
	if err := eachRecord(d.log, o.LogStart, func(r record.Record) { records = append(records, fmt.Sprintf("%d %s", r.Offset, r.Key)) }); err != nil {
		return err
	}
	d.printf("\n  reading at offset %d gives %s\n  log start %d, end still %d\n\n", o.LogStart, strings.Join(records, ", "), o.LogStart, o.End)
	return nil
}

// offsets cleans the log of committed offsets by the same code.
func (d *cleanerDemo) offsets() error {
	coordinator := groups.New(groups.Options{Store: d.store, Now: d.clock, OffsetsPartitions: 1})
	topic, err := d.store.CreateTopic(storage.TopicSpec{Name: groups.OffsetsTopic, Partitions: 1, Configs: map[string]string{
		"cleanup.policy": "compact", "internal.segment.bytes": "600",
	}})
	if err != nil {
		return err
	}
	orders, _ := d.store.Topic("orders")
	for i := range int64(12) {
		commit := groups.Commit{Topic: "orders", TopicID: orders.ID(), Partition: int32(i / 4), Offset: i + 1, LeaderEpoch: -1}
		request := &groups.CommitRequest{Group: "kitchen", Generation: -1, Commits: []groups.Commit{commit}, Retention: -1}
		if errs, err := coordinator.CommitOffsets(context.Background(), request); err != nil || errs[0] != nil {
			return fmt.Errorf("commit: %w, %v", err, errs)
		}
	}
	d.log, _ = topic.Partition(0)
	before, err := liveKeys(d.log)
	if err != nil {
		return err
	}
	s, err := d.cleaner.Force(context.Background(), d.log)
	if err != nil {
		return err
	}
	after, err := liveKeys(d.log)
	if err != nil {
		return err
	}
	o, err := d.log.Offsets()
	if err != nil {
		return err
	}
	d.printf("The log of committed offsets is cleaned by the same code: 12 commits of 3 keys\n\n")
	d.printf("  records in the cleanable part %d -> %d, live keys %d -> %d, end %d\n", s.RecordsRead, s.RecordsKept, before, after, o.End)
	return nil
}
