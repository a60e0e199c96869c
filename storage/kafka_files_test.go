package storage

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage/record"
)

// The files in testdata/kafka-4.4.0 were written by Kafka's own classes; its README says how to read them.

func kafkaFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "kafka-4.4.0", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestIndexesOfKafkaAreWrittenTheSame(t *testing.T) {
	const base = 1000
	b := kafkaFile(t, "00000000000000001000.index")
	offsets, err := DecodeOffsetIndex(b, base)
	if err != nil || len(offsets) != len(b)/offsetEntrySize {
		t.Fatalf("offset index: %d entries, %v", len(offsets), err)
	}
	x := newOffsetIndex(base, testIndexBytes)
	for _, e := range offsets {
		x.append(e.Offset, e.Position)
	}
	if own, _ := x.unwritten(); !bytes.Equal(own, b) {
		t.Error("the offset index is written in other bytes")
	}
	padded := kafkaFile(t, "preallocated.index")
	var d *DecodeError
	if got, err := DecodeOffsetIndex(padded, base); !slices.Equal(got, offsets) || !errors.As(err, &d) || !d.Padding {
		t.Errorf("preallocated offset index: %d entries, %v, want %d and padding", len(got), err, len(offsets))
	}
	if _, err := openOffsetIndex(bytes.NewReader(padded), int64(len(padded)), base, testIndexBytes, 1<<40, 1<<40, 0); !isIndexDamage(err) {
		t.Errorf("opening a preallocated offset index: %v, want that it is rebuilt", err)
	}

	b = kafkaFile(t, "00000000000000001000.timeindex")
	times, err := DecodeTimeIndex(b, base)
	if err != nil || len(times) != len(b)/timeEntrySize {
		t.Fatalf("time index: %d entries, %v", len(times), err)
	}
	y := newTimeIndex(base, testIndexBytes)
	for _, e := range times {
		y.append(e.Timestamp, e.Offset, false)
	}
	if own, _ := y.unwritten(); !bytes.Equal(own, b) {
		t.Error("the time index is written in other bytes")
	}
	padded = kafkaFile(t, "preallocated.timeindex")
	if got, err := DecodeTimeIndex(padded, base); !slices.Equal(got, times) || !errors.As(err, &d) || !d.Padding {
		t.Errorf("preallocated time index: %d entries, %v, want %d and padding", len(got), err, len(times))
	}

	b = kafkaFile(t, "00000000000000001000.txnindex")
	txns, err := DecodeTxnIndex(b)
	if err != nil {
		t.Fatal(err)
	}
	z := txnIndex{entries: txns}
	if own, _ := z.unwritten(); !bytes.Equal(own, b) {
		t.Error("the transaction index is written in other bytes")
	}
}

func TestIndexesAnswerAsKafkas(t *testing.T) {
	const base = 1000
	ib, tb := kafkaFile(t, "00000000000000001000.index"), kafkaFile(t, "00000000000000001000.timeindex")
	x, err := openOffsetIndex(bytes.NewReader(ib), int64(len(ib)), base, testIndexBytes, 1<<40, 1<<40, 0)
	if err != nil {
		t.Fatal(err)
	}
	y, err := openTimeIndex(bytes.NewReader(tb), int64(len(tb)), base, testIndexBytes, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	all, err := DecodeTxnIndex(kafkaFile(t, "00000000000000001000.txnindex"))
	if err != nil {
		t.Fatal(err)
	}
	z := txnIndex{entries: all}
	asked := 0
	for line := range strings.Lines(string(kafkaFile(t, "lookups"))) {
		line = strings.TrimSpace(line)
		var kind string
		var a, b int64
		fmt.Sscan(line, &kind, &a, &b)
		var got string
		switch kind {
		case "offset":
			e, err := x.lookup(bytes.NewReader(ib), a)
			if err != nil {
				t.Fatal(err)
			}
			got = fmt.Sprintf("offset %d %d %d", a, e.Offset, e.Position)
		case "after":
			e, ok, err := x.after(bytes.NewReader(ib), a)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				e = OffsetEntry{-1, -1}
			}
			got = fmt.Sprintf("after %d %d %d", a, e.Offset, e.Position)
		case "time":
			e, err := y.lookup(bytes.NewReader(tb), a)
			if err != nil {
				t.Fatal(err)
			}
			got = fmt.Sprintf("time %d %d %d", a, e.Timestamp, e.Offset)
		case "aborted":
			txns, more := z.collect(nil, a, b)
			got = fmt.Sprintf("aborted %d %d %t", a, b, more)
			for _, x := range txns {
				got += fmt.Sprintf(" %d:%d:%d:%d", x.ProducerID, x.FirstOffset, x.LastOffset, x.LastStableOffset)
			}
		}
		if got != line {
			t.Errorf("got  %s\nwant %s", got, line)
		}
		asked++
	}
	if asked < 100 {
		t.Errorf("only %d questions", asked)
	}
}

func TestProducerStateDecidesAsKafkas(t *testing.T) {
	for _, file := range []string{"producers-1", "producers-2"} {
		var s producerState
		number := 0
		for line := range strings.Lines(string(kafkaFile(t, file))) {
			number++
			step, after, _ := strings.Cut(strings.TrimSpace(line), " =")
			verdict, state, _ := strings.Cut(after, " | ")
			if got, want := s.kafkaStep(t, step), strings.TrimSpace(verdict); got != want {
				t.Fatalf("%s:%d: %s: got %q, Kafka says %q", file, number, step, got, want)
			}
			if got := s.kafkaState(); got != state {
				t.Fatalf("%s:%d: %s:\ngot   %s\nKafka %s", file, number, step, got, state)
			}
		}
		if number < 500 {
			t.Errorf("%s has only %d steps", file, number)
		}
		if file != "producers-1" {
			continue
		}
		b := kafkaFile(t, "00000000000000000746.snapshot")
		if got := encodeProducerSnapshot(s.snapshot()); !bytes.Equal(got, b) {
			t.Errorf("snapshot\n%x, Kafka's\n%x", got, b)
		}
		if got, err := DecodeProducerSnapshot(b); err != nil || !slices.Equal(got, s.snapshot()) {
			t.Errorf("Kafka's snapshot decodes to %+v, %v", got, err)
		}
	}
}

// kafkaStep does what a line says and returns the outcome in the words of the file.
func (s *producerState) kafkaStep(t *testing.T, step string) string {
	t.Helper()
	fields := strings.Fields(step)
	scan := func(into ...any) {
		if n, err := fmt.Sscan(strings.Join(fields[1:], " "), into...); err != nil {
			t.Fatalf("%q: %d fields, %v", step, n, err)
		}
	}
	failed := func(err error) string {
		for kafka, own := range map[string]error{
			"InvalidProducerEpochException": ErrInvalidProducerEpoch, "InvalidTxnStateException": ErrInvalidTxnState,
			"OutOfOrderSequenceException": ErrOutOfOrderSequence, "TransactionCoordinatorFencedException": ErrCoordinatorFenced,
		} {
			if errors.Is(err, own) {
				return kafka
			}
		}
		return err.Error()
	}
	switch fields[0] {
	case "batch":
		var h batchHeader
		o := AppendOptions{Unverified: true}
		var client, v2 bool
		scan(&h.producer, &h.epoch, &h.sequence, &h.count, &h.offset, &h.timestamp, &h.transactional, &v2, &client)
		if !client {
			o.Origin = OriginCoordinator
		}
		if v2 && h.transactional { // of no batch but this one
			s.startVerification(h.producer, h.epoch, h.sequence, v2, h.timestamp)
			defer delete(s.verifications, h.producer)
		}
		original, isDuplicate, err := s.check(h.batch(), o)
		switch {
		case isDuplicate:
			return fmt.Sprintf("duplicate %d %d", original.firstOffset(), original.timestamp)
		case err != nil:
			return failed(err)
		}
		s.update(h.batch())
		return "ok"
	case "marker":
		h := batchHeader{sequence: -1, transactional: true}
		var m record.Marker
		var version int16
		scan(&h.producer, &h.epoch, &h.offset, &h.timestamp, &m.Commit, &m.CoordinatorEpoch, &version)
		if err := s.checkMarker(h.batch(), m, version); err != nil {
			return failed(err)
		}
		c, ended := s.endTxn(h.batch(), m, h.timestamp)
		if !ended {
			return "ok"
		}
		return fmt.Sprintf("ended %d %d %t %d", c.FirstOffset, c.LastOffset, c.Aborted, c.LastStableOffset)
	case "high-watermark":
		var hw int64
		scan(&hw)
		s.onHighWatermark(hw)
	case "expire":
		var now int64
		scan(&now)
		s.expire(now, 1000)
	}
	return ""
}

func (s *producerState) kafkaState() string {
	unstable, ok := s.firstUnstable()
	if !ok {
		unstable = -1
	}
	state := fmt.Sprint("unstable ", unstable)
	for _, e := range s.snapshot() {
		state += fmt.Sprintf(" %d:%d:%d:%d:%d:%d:%d:%d", e.ProducerID, e.Epoch, e.LastSequence, e.LastOffset, e.OffsetDelta, e.Timestamp, e.CoordinatorEpoch, e.TxnFirstOffset)
	}
	return state
}

func TestSmallFilesOfKafka(t *testing.T) {
	id, err := ParseTopicID("KDGAvSGPT3OcvXcPbVEzHw")
	if err != nil {
		t.Fatal(err)
	}
	for name, own := range map[string][]byte{
		"recovery-point-offset-checkpoint": encodeOffsetCheckpoint([]PartitionOffset{{"orders", 0, 42}, {"__consumer_offsets", 17, 1<<63 - 1}}),
		"leader-epoch-checkpoint":          encodeLeaderEpochs(leaderEpochs{{0, 0}, {5, 1 << 40}}),
		"partition.metadata":               encodePartitionMetadata(id),
		"kafka_cleanshutdown":              encodeCleanShutdown(7),
	} {
		if kafka := kafkaFile(t, name); !bytes.Equal(own, kafka) {
			t.Errorf("%s is written %q, Kafka writes %q", name, own, kafka)
		}
	}
	want := MetaProperties{Version: 1, ClusterID: "a b=c:d", NodeID: 3, DirectoryID: id}
	kafka := kafkaFile(t, "meta.properties")
	if got, err := DecodeMetaProperties(kafka); err != nil || got != want {
		t.Errorf("Kafka's meta.properties decodes to %+v, %v, want %+v", got, err, want)
	}
	// Java writes the keys in the order of a hash table, and its own time.
	lines := func(b []byte) []string {
		l := strings.Split(string(b), "\n")
		l[1] = "#"
		slices.Sort(l)
		return l
	}
	if own := encodeMetaProperties(want, time.Unix(0, 0)); !slices.Equal(lines(own), lines(kafka)) {
		t.Errorf("meta.properties is written\n%s, Kafka writes\n%s", own, kafka)
	}
}
