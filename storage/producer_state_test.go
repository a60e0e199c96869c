package storage

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/kaen-log/gateway/storage/record"
)

// batchHeader is what the producer state reads of a batch.
type batchHeader struct {
	producer      int64
	epoch         int16
	sequence      int32
	count         int32
	offset        int64
	timestamp     int64
	transactional bool
}

func (h batchHeader) batch() record.Batch {
	b := make(record.Batch, record.HeaderSize)
	binary.BigEndian.PutUint64(b[record.BaseOffsetPos:], uint64(h.offset))
	binary.BigEndian.PutUint32(b[record.LengthPos:], record.HeaderSize-record.LogOverhead)
	b[record.MagicPos] = record.Magic
	if h.transactional {
		b[record.AttributesPos+1] = 0x10
	}
	count := max(h.count, 1)
	binary.BigEndian.PutUint32(b[record.LastOffsetDeltaPos:], uint32(count-1))
	binary.BigEndian.PutUint64(b[record.MaxTimestampPos:], uint64(h.timestamp))
	binary.BigEndian.PutUint64(b[record.ProducerIDPos:], uint64(h.producer))
	binary.BigEndian.PutUint16(b[record.ProducerEpochPos:], uint16(h.epoch))
	binary.BigEndian.PutUint32(b[record.BaseSequencePos:], uint32(h.sequence))
	binary.BigEndian.PutUint32(b[record.CountPos:], uint32(count))
	return b
}

// commit and abort are markers of coordinator epoch 0.
var (
	commit = record.Marker{Commit: true}
	abort  = record.Marker{}
)

// appendAll puts batches into the state as the log does, each checked as a client's that needs no verification.
func appendAll(t *testing.T, s *producerState, headers ...batchHeader) {
	t.Helper()
	for _, h := range headers {
		if _, dup, err := s.check(h.batch(), AppendOptions{Unverified: true}); dup || err != nil {
			t.Fatalf("check(%+v): duplicate %t, %v", h, dup, err)
		}
		s.update(h.batch())
	}
}

func TestProducerSequence(t *testing.T) {
	client, coordinator := AppendOptions{Unverified: true}, AppendOptions{Origin: OriginCoordinator, Unverified: true}
	for _, c := range []struct {
		name  string
		prior []batchHeader
		batch batchHeader
		o     AppendOptions
		err   error // nil for none
		dup   int64 // first offset of the original, -1 for none
	}{
		{"no producer id", nil, batchHeader{producer: -1, epoch: -1, sequence: -1}, client, nil, -1},
		{"unknown producer may start anywhere", nil, batchHeader{producer: 1, sequence: 77}, client, nil, -1},
		{"next", []batchHeader{{producer: 1, count: 3}}, batchHeader{producer: 1, sequence: 3}, client, nil, -1},
		{"gap", []batchHeader{{producer: 1, count: 3}}, batchHeader{producer: 1, sequence: 4}, client, ErrOutOfOrderSequence, -1},
		{"duplicate", []batchHeader{{producer: 1, count: 3, offset: 40}}, batchHeader{producer: 1, count: 3}, client, nil, 40},
		{"same start, other end", []batchHeader{{producer: 1, count: 3}}, batchHeader{producer: 1, count: 2}, client, ErrOutOfOrderSequence, -1},
		{"same end, other start", []batchHeader{{producer: 1, count: 3}}, batchHeader{producer: 1, sequence: 1, count: 2}, client, ErrOutOfOrderSequence, -1},
		{"oldest of five", fiveBatches(5), batchHeader{producer: 1, sequence: 0}, client, nil, 0},
		{"evicted", fiveBatches(6), batchHeader{producer: 1, sequence: 0}, client, ErrOutOfOrderSequence, -1},
		{"oldest kept of six", fiveBatches(6), batchHeader{producer: 1, sequence: 1}, client, nil, 1},
		{"wrap inside a batch", []batchHeader{{producer: 1, sequence: math.MaxInt32 - 1, count: 4}}, batchHeader{producer: 1, sequence: 2}, client, nil, -1},
		{"duplicate that wraps", []batchHeader{{producer: 1, sequence: math.MaxInt32 - 1, count: 4, offset: 9}}, batchHeader{producer: 1, sequence: math.MaxInt32 - 1, count: 4}, client, nil, 9},
		{"wrap between batches", []batchHeader{{producer: 1, sequence: math.MaxInt32}}, batchHeader{producer: 1, sequence: 0}, client, nil, -1},
		{"no wrap to 1", []batchHeader{{producer: 1, sequence: math.MaxInt32}}, batchHeader{producer: 1, sequence: 1}, client, ErrOutOfOrderSequence, -1},
		{"stale epoch", []batchHeader{{producer: 1, epoch: 5}}, batchHeader{producer: 1, epoch: 4, sequence: 1}, client, ErrInvalidProducerEpoch, -1},
		{"duplicate of a stale epoch", []batchHeader{{producer: 1, epoch: 4}, {producer: 1, epoch: 5}}, batchHeader{producer: 1, epoch: 4}, client, ErrInvalidProducerEpoch, -1},
		{"new epoch at 0", []batchHeader{{producer: 1, epoch: 5, count: 9}}, batchHeader{producer: 1, epoch: 6}, client, nil, -1},
		{"new epoch not at 0", []batchHeader{{producer: 1, epoch: 5, count: 9}}, batchHeader{producer: 1, epoch: 6, sequence: 9}, client, ErrOutOfOrderSequence, -1},
		{"other producer", []batchHeader{{producer: 1, epoch: 5}}, batchHeader{producer: 2, epoch: 1}, client, nil, -1},
		{"not in its transaction", []batchHeader{{producer: 1, transactional: true}}, batchHeader{producer: 1, sequence: 1}, client, ErrInvalidTxnState, -1},
		{"coordinator has no sequence", []batchHeader{{producer: 1, sequence: -1, transactional: true}}, batchHeader{producer: 1, sequence: -1, transactional: true}, coordinator, nil, -1},
		{"coordinator, stale epoch", []batchHeader{{producer: 1, epoch: 3, sequence: 0}}, batchHeader{producer: 1, epoch: 2, sequence: -1}, coordinator, ErrInvalidProducerEpoch, -1},
	} {
		var s producerState
		for _, h := range c.prior {
			s.update(h.batch())
		}
		m, dup, err := s.check(c.batch.batch(), c.o)
		if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) || dup != (c.dup >= 0) || dup && m.firstOffset() != c.dup {
			t.Errorf("%s: check = first offset %d, duplicate %t, %v, want %v, original at %d", c.name, m.firstOffset(), dup, err, c.err, c.dup)
		}
	}
}

func fiveBatches(n int32) (headers []batchHeader) {
	for i := range n {
		headers = append(headers, batchHeader{producer: 1, sequence: i, offset: int64(i)})
	}
	return headers
}

func TestMarkerEndsTransactions(t *testing.T) {
	var s producerState
	appendAll(t, &s,
		batchHeader{producer: 1, offset: 10, count: 2, transactional: true},
		batchHeader{producer: 2, offset: 12, transactional: true},
		batchHeader{producer: 1, offset: 13, sequence: 2, transactional: true},
	)
	if got, ok := s.firstUnstable(); !ok || got != 10 {
		t.Errorf("first unstable offset %d, %t, want 10", got, ok)
	}
	if p := s.producers[1]; !p.inTransaction(0) || p.inTransaction(1) || unknownProducer.inTransaction(-1) {
		t.Errorf("inTransaction is wrong: %+v", s.open)
	}

	c, ok := s.endTxn(batchHeader{producer: 1, offset: 14, transactional: true}.batch(), abort, 500)
	if want := (completedTxn{AbortedTxn{ProducerID: 1, FirstOffset: 10, LastOffset: 14, LastStableOffset: 12}, true}); !ok || c != want {
		t.Errorf("abort of producer 1 = %+v, %t, want %+v", c, ok, want)
	}
	if got, _ := s.firstUnstable(); got != 10 {
		t.Errorf("first unstable offset %d, want 10 until the marker is durable", got)
	}
	s.onHighWatermark(14)
	if got, _ := s.firstUnstable(); got != 10 {
		t.Errorf("first unstable offset %d, want 10: the high watermark is at the marker, not past it", got)
	}
	s.onHighWatermark(15)
	if got, _ := s.firstUnstable(); got != 12 {
		t.Errorf("first unstable offset %d, want 12", got)
	}

	c, ok = s.endTxn(batchHeader{producer: 2, offset: 15, transactional: true}.batch(), commit, 500)
	if want := (completedTxn{AbortedTxn{ProducerID: 2, FirstOffset: 12, LastOffset: 15, LastStableOffset: 16}, false}); !ok || c != want {
		t.Errorf("commit of producer 2 = %+v, %t, want %+v", c, ok, want)
	}
	s.onHighWatermark(16)
	if got, ok := s.firstUnstable(); ok {
		t.Errorf("first unstable offset %d, want none", got)
	}

	if c, ok := s.endTxn(batchHeader{producer: 3, epoch: 7, offset: 16, transactional: true}.batch(), commit, 500); ok {
		t.Errorf("marker without data ended %+v", c)
	}
	if got := s.infos()[2]; got != (ProducerInfo{ProducerID: 3, Epoch: 7, LastOffset: -1, LastSequence: -1, LastTimestamp: 500, TxnFirstOffset: -1}) {
		t.Errorf("producer 3 after a marker without data is %+v", got)
	}
}

func TestMarkerEpochs(t *testing.T) {
	open := batchHeader{producer: 1, epoch: 5, transactional: true}
	for _, c := range []struct {
		name        string
		open        bool
		known       int16 // epoch of the producer
		epoch       int16 // of the marker
		version     int16
		coordinator int32 // epoch; 3 is known
		want        error
	}{
		{"same epoch, version 0", true, 5, 5, 0, 3, nil},
		{"same epoch, version 1", true, 5, 5, 1, 3, nil},
		{"stale, version 0", true, 5, 4, 0, 3, ErrInvalidProducerEpoch},
		{"raised, version 2", true, 5, 6, 2, 3, nil},
		{"same epoch of an open transaction, version 2", true, 5, 5, 2, 3, ErrInvalidProducerEpoch},
		{"sent again, version 2", false, 5, 5, 2, 3, nil},
		{"stale, version 2", false, 5, 4, 2, 3, ErrInvalidProducerEpoch},
		{"last epoch there is, version 2", true, math.MaxInt16, math.MaxInt16, 2, 3, nil},
		{"old coordinator", true, 5, 6, 2, 2, ErrCoordinatorFenced},
		{"new coordinator", true, 5, 6, 2, 4, nil},
		{"stale epoch comes before old coordinator", true, 5, 4, 2, 2, ErrInvalidProducerEpoch},
	} {
		var s producerState
		s.endTxn(batchHeader{producer: 1, epoch: c.known}.batch(), record.Marker{CoordinatorEpoch: 3}, 0)
		if c.open {
			open.epoch = c.known
			s.update(open.batch())
		}
		err := s.checkMarker(batchHeader{producer: 1, epoch: c.epoch}.batch(), record.Marker{CoordinatorEpoch: c.coordinator}, c.version)
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	var s producerState
	if err := s.checkMarker(batchHeader{producer: 1, epoch: 0}.batch(), commit, 2); err != nil {
		t.Errorf("marker for an unknown producer: %v", err)
	}
}

func TestMarkerFencesTheOldEpoch(t *testing.T) {
	var s producerState
	appendAll(t, &s, batchHeader{producer: 1, epoch: 5, transactional: true})
	s.endTxn(batchHeader{producer: 1, epoch: 6, offset: 1, transactional: true}.batch(), abort, 0)
	_, dup, err := s.check(batchHeader{producer: 1, epoch: 5, transactional: true}.batch(), AppendOptions{})
	if dup || !errors.Is(err, ErrInvalidProducerEpoch) || !strings.Contains(err.Error(), "epoch 5, last seen is 6") {
		t.Errorf("batch of the old epoch: duplicate %t, %v", dup, err)
	}
	// The batches of the old epoch are forgotten, so the new one begins at 0.
	for sequence, want := range map[int32]error{0: nil, 1: ErrOutOfOrderSequence} {
		if _, _, err := s.check(batchHeader{producer: 1, epoch: 6, sequence: sequence}.batch(), AppendOptions{}); !errors.Is(err, want) {
			t.Errorf("sequence %d of the new epoch: %v, want %v", sequence, err, want)
		}
	}
}

func TestExpiryDropsIdleProducers(t *testing.T) {
	var s producerState
	appendAll(t, &s,
		batchHeader{producer: 1, timestamp: 1000},
		batchHeader{producer: 2, timestamp: 1000, offset: 1, transactional: true},
		batchHeader{producer: 3, timestamp: 1001, offset: 2},
	)
	if n := s.expire(1999, 1000); n != 0 {
		t.Errorf("%d expired at 1999, want 0", n)
	}
	if n := s.expire(2000, 1000); n != 1 || s.count() != 2 {
		t.Errorf("%d expired at 2000, %d left, want 1, 2", n, s.count())
	}
	if n := s.expire(math.MaxInt32, 1000); n != 1 || !s.producers[2].inTransaction(0) {
		t.Errorf("%d expired, transaction open %t; an open transaction must stay", n, s.producers[2].inTransaction(0))
	}
	if _, _, err := s.check(batchHeader{producer: 1, sequence: 50}.batch(), AppendOptions{}); err != nil {
		t.Errorf("an expired producer may start anywhere: %v", err)
	}
}

func TestCutUndoesWhatIsNotDurable(t *testing.T) {
	var s producerState
	appendAll(t, &s,
		batchHeader{producer: 1, offset: 0, transactional: true},
		batchHeader{producer: 2, offset: 1},
	)
	s.onHighWatermark(2)
	appendAll(t, &s,
		batchHeader{producer: 2, offset: 2, sequence: 1},
		batchHeader{producer: 3, offset: 3, transactional: true},
	)
	s.endTxn(batchHeader{producer: 1, epoch: 1, offset: 4, transactional: true}.batch(), abort, 9)
	if s.cut(1) {
		t.Error("cut(1) below the high watermark 2 succeeded")
	}
	if !s.cut(2) {
		t.Fatal("cut(2) failed")
	}
	if !s.producers[1].inTransaction(0) || s.count() != 2 || len(s.ended) != 0 || len(s.open) != 1 {
		t.Errorf("after the cut: %+v, open %+v, ended %+v", s.infos(), s.open, s.ended)
	}
	// What was cut is not a duplicate; what was kept is.
	if _, dup, err := s.check(batchHeader{producer: 2, sequence: 1}.batch(), AppendOptions{}); dup || err != nil {
		t.Errorf("the batch that was cut: duplicate %t, %v", dup, err)
	}
	if _, dup, err := s.check(batchHeader{producer: 2}.batch(), AppendOptions{}); !dup || err != nil {
		t.Errorf("the batch that was kept: duplicate %t, %v", dup, err)
	}
	if s.journal != nil {
		t.Errorf("journal of %d after the cut", len(s.journal))
	}
}

func BenchmarkProducerState(b *testing.B) {
	var s producerState
	h := batchHeader{producer: 1, count: 16}
	batch := h.batch()
	var sequence int32
	var offset int64
	b.ReportAllocs()
	for b.Loop() {
		binary.BigEndian.PutUint32(batch[record.BaseSequencePos:], uint32(sequence))
		batch.SetBaseOffset(offset)
		if _, _, err := s.check(batch, AppendOptions{}); err != nil {
			b.Fatal(err)
		}
		s.update(batch)
		sequence, offset = record.AddSequence(sequence, 16), offset+16
		if offset%256 == 0 {
			s.onHighWatermark(offset)
		}
	}
}
