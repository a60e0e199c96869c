package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/kaen-log/gateway/storage"
)

// maxSmallFile bounds the files that are read whole: over five million producers.
const maxSmallFile = 256 << 20

// small prints a file that is read whole.
func (d *dumper) small(f *dumpFile) error {
	if f.kind.form == formLock {
		return nil // its bytes mean nothing
	}
	if f.size > maxSmallFile {
		d.fault(0, "got %s, want at most %s in such a file", bytesText(f.size), bytesText(maxSmallFile))
		return nil
	}
	if f.kind.form == formReaches {
		d.reaches(f)
		return nil
	}
	b := make([]byte, f.size)
	n, err := f.r.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	b = b[:n]
	switch f.kind.form {
	case formSnapshot:
		err = d.snapshot(b)
	case formLeaderEpochs:
		err = d.leaderEpochs(b)
	case formOffsets:
		err = d.offsets(b)
	case formPartitionMetadata:
		err = d.partitionMetadata(b)
	case formMetaProperties:
		err = d.metaProperties(b)
	case formCleanShutdown:
		var epoch int64
		if epoch, err = storage.DecodeCleanShutdown(b); err == nil {
			d.printf("  broker epoch %s\n", orNone(epoch))
		}
	case formText:
		d.printf("  %s\n", d.text(b))
		err = nil
	}
	if bad, ok := decodeFault(err); ok {
		position, line := bad.Position, ""
		if bad.Line > 0 {
			position = max(position, linePosition(b, bad.Line))
			line = fmt.Sprintf("line %d: ", bad.Line)
		}
		d.fault(position, "%s%s", line, bad.Reason)
		err = nil
	}
	if d.flags.hex {
		end := int64(n)
		if limit := int64(d.flags.limit); limit > 0 {
			end = min(end, limit)
		}
		d.hexRange(0, end)
	}
	return err
}

// linePosition is where a line of b, counted from 1, begins; the end when there are fewer.
func linePosition(b []byte, line int) int64 {
	at := 0
	for ; line > 1; line-- {
		n := bytes.IndexByte(b[at:], '\n')
		if n < 0 {
			return int64(len(b))
		}
		at += n + 1
	}
	return int64(at)
}

// reaches prints a note, which says all in its name.
func (d *dumper) reaches(f *dumpFile) {
	base, reach, ok := storage.ParseNote(path.Base(f.name))
	switch {
	case !ok:
		d.fault(0, "its name is not BASE.REACH.reaches, with a reach above the base")
	case f.size > 0:
		d.fault(0, "got %s, want an empty file", bytesText(f.size))
	default:
		d.printf("  the segment at %d holds what is left of the offsets below %d\n", base, reach)
	}
}

func (d *dumper) snapshot(b []byte) error {
	producers, err := storage.DecodeProducerSnapshot(b)
	for i, p := range producers {
		if i == 0 {
			d.printf("  %10s  %6s  %14s  %12s  %12s  %13s  %-24s  %17s  %16s\n", "producer", "epoch", "last sequence", "last offset", "offset delta",
				"timestamp", "(UTC)", "coordinator epoch", "txn first offset")
		}
		d.printf("  %10d  %6d  %14s  %12s  %12d  %13s  %-24s  %17s  %16s\n", p.ProducerID, p.Epoch, orNone(p.LastSequence), orNone(p.LastOffset), p.OffsetDelta,
			orNone(p.Timestamp), isoTime(p.Timestamp), orNone(p.CoordinatorEpoch), orNone(p.TxnFirstOffset))
	}
	d.printf("  %s\n", plural(len(producers), "producer", "producers"))
	return err
}

func (d *dumper) leaderEpochs(b []byte) error {
	epochs, err := storage.DecodeLeaderEpochs(b)
	for i, e := range epochs {
		if i == 0 {
			d.printf("  %10s  %14s\n", "epoch", "start offset")
		}
		d.printf("  %10d  %14d\n", e.Epoch, e.StartOffset)
	}
	d.printf("  %s\n", plural(len(epochs), "epoch", "epochs"))
	return err
}

func (d *dumper) offsets(b []byte) error {
	offsets, err := storage.DecodeOffsetCheckpoint(b)
	width := len("topic")
	for _, o := range offsets {
		width = max(width, min(len(o.Topic), 249))
	}
	for i, o := range offsets {
		if i == 0 {
			d.printf("  %-*s  %9s  %14s\n", width, "topic", "partition", "offset")
		}
		d.printf("  %-*s  %9d  %14d\n", width, printable(o.Topic), o.Partition, o.Offset)
	}
	d.printf("  %s\n", plural(len(offsets), "partition", "partitions"))
	return err
}

// printable is a name as it is, or quoted when it has bytes that no topic has.
func printable(name string) string {
	if storage.ValidateTopicName(name) != nil {
		return fmt.Sprintf("%q", name)
	}
	return name
}

func (d *dumper) partitionMetadata(b []byte) error {
	m, err := storage.DecodePartitionMetadata(b)
	if err == nil {
		d.printf("  version   %d\n  topic id  %s\n", m.Version, m.TopicID)
	}
	return err
}

func (d *dumper) metaProperties(b []byte) error {
	m, err := storage.DecodeMetaProperties(b)
	if err == nil {
		d.printf("  version       %d\n  cluster id    %q\n  node id       %s\n", m.Version, m.ClusterID, orNone(m.NodeID))
		if !m.DirectoryID.IsZero() {
			d.printf("  directory id  %s\n", m.DirectoryID)
		}
	}
	return err
}
