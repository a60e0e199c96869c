package storage

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/kaen-log/gateway/storage/record"
)

// producerBatches is how many of a producer's last batches are recognised when they are sent again.
// Kafka: ProducerStateEntry.NUM_BATCHES_TO_RETAIN.
const producerBatches = 5

// batchMeta is what is kept of a producer's batch.
type batchMeta struct {
	lastOffset   int64
	timestamp    int64 // largest of the batch, milliseconds
	lastSequence int32 // -1 when the coordinator appended it
	offsetDelta  int32 // last offset - first offset
}

func (m batchMeta) firstOffset() int64 { return m.lastOffset - int64(m.offsetDelta) }

func (m batchMeta) firstSequence() int32 {
	if m.lastSequence < m.offsetDelta {
		return math.MaxInt32 - (m.offsetDelta - m.lastSequence) + 1
	}
	return m.lastSequence - m.offsetDelta
}

// producer is the state of one producer id in one log.
type producer struct {
	batches          [producerBatches]batchMeta // the first n, oldest first
	lastTimestamp    int64                      // of its last batch or marker, milliseconds
	txnFirst         int64                      // first offset of its open transaction, -1 for none
	coordinatorEpoch int32                      // of its last marker, -1 for none
	epoch            int16                      // -1 when unknown
	n                int8
}

// unknownProducer is what is known of a producer that has no state.
var unknownProducer = producer{lastTimestamp: noTimestamp, txnFirst: -1, coordinatorEpoch: -1, epoch: -1}

func (p *producer) lastSequence() int32 {
	if p.n == 0 {
		return record.NoSequence
	}
	return p.batches[p.n-1].lastSequence
}

// lastOffset is the offset of the last record that is remembered of it, -1 for none.
func (p *producer) lastOffset() int64 {
	if p.n == 0 {
		return -1
	}
	return p.batches[p.n-1].lastOffset
}

// inTransaction reports whether the producer has a transaction open in that epoch.
func (p *producer) inTransaction(epoch int16) bool { return p.txnFirst >= 0 && p.epoch == epoch }

// checkEpoch is the rule for a batch that is no duplicate, and no marker.
func (p *producer) checkEpoch(id int64, epoch int16) error {
	if epoch < p.epoch {
		return fmt.Errorf("%w: producer %d sent epoch %d, last seen is %d", ErrInvalidProducerEpoch, id, epoch, p.epoch)
	}
	return nil
}

func (p *producer) setEpoch(epoch int16) {
	if p.epoch != epoch {
		p.n, p.epoch = 0, epoch
	}
}

func (p *producer) add(m batchMeta) {
	if p.n == producerBatches {
		copy(p.batches[:], p.batches[1:])
		p.n--
	}
	p.batches[p.n] = m
	p.n++
}

// txn is a transaction in a log. last is the offset of its marker, -1 while it is open.
type txn struct {
	producerID, first, last int64
}

// completedTxn is a transaction that a marker just ended.
type completedTxn struct {
	AbortedTxn      // what goes into the transaction index when Aborted
	Aborted    bool // else committed
}

// producerState is what a log knows of its idempotent and transactional producers: it tells duplicates, lost and
// stale batches from good ones, and bounds the last stable offset. It has no lock, clock or I/O; the log's appender
// owns it. The zero value is the state of an empty log and takes no memory beyond itself.
//
// For each batch with a producer id the appender calls check (or checkMarker), writes the batch, then calls update
// (or endTxn) with the batch stamped; then onHighWatermark whenever that moves. A replay calls update, endTxn and
// onHighWatermark(b.NextOffset()) batch by batch and checks nothing, since what is in the log was checked.
//
// Every update above the high watermark can be undone: a journal keeps the producer as it was before, until
// onHighWatermark passes the batch. cut goes back, in memory alone, to the state at any offset at or above the high
// watermark, which is what the log needs when a sync failed. The journal costs a copy of the producer (some 190
// bytes) per batch in flight, and nothing for what is durable.
//
// Kafka: ProducerStateManager, ProducerAppendInfo, ProducerStateEntry.
type producerState struct {
	producers map[int64]*producer
	// open are the transactions without a marker, by first offset.
	open []txn
	// ended are those whose marker is not below the high watermark, by first offset: no reader may rely on an
	// outcome that could be lost, so they still bound the last stable offset.
	ended []txn
	// journal has the undo of every update whose batch is not below the high watermark, by offset.
	journal []producerUndo
	// settled is the highest high watermark seen; nothing below it can be undone.
	settled int64
	// refused are the first batches of producers without state that the disk did not take.
	refused map[int64]refusedBatch
	// verifications are those of the producers whose next transaction the coordinator is being asked about.
	verifications map[int64]*Verification
}

// refusedBatch is the earliest batch of a producer without state that the disk did not take. Those that were sent behind
// it, without waiting for its answer, must not go before it, although any start will do for an unknown producer: the
// producer sends it again. Kafka keeps a lowest sequence for transactions only (VerificationStateEntry), since a failed
// append takes its partition out of service.
type refusedBatch struct {
	timestamp int64 // largest of the batch, milliseconds
	sequence  int32
	epoch     int16
}

func refusedOf(b record.Batch) refusedBatch {
	return refusedBatch{timestamp: b.MaxTimestamp(), sequence: b.BaseSequence(), epoch: b.ProducerEpoch()}
}

// producerUndo is how to go back to before one batch.
type producerUndo struct {
	before producer
	// verification is the one that the batch used, nil when it used none, or is a marker.
	verification *Verification
	producerID   int64
	offset       int64 // last offset of the batch
	first        int64 // of the transaction that the batch began or ended
	known        bool  // the producer had state before
	began        bool
	ended        bool
}

// check says what becomes of a batch that is not a marker. duplicate is the original when the client sent a batch
// again that is among the last producerBatches of its epoch: the answer is then its first offset and timestamp, and
// nothing is appended. The batch's base offset is not looked at. The error is an ErrInvalidProducerEpoch,
// ErrOutOfOrderSequence or ErrInvalidTxnState. Batches without a producer id always pass.
//
// A batch that the coordinator made has no sequence; only its epoch and transaction are checked.
func (s *producerState) check(b record.Batch, o AppendOptions) (duplicate batchMeta, isDuplicate bool, err error) {
	id := b.ProducerID()
	if id < 0 {
		return batchMeta{}, false, nil
	}
	epoch, sequence := b.ProducerEpoch(), b.BaseSequence()
	p, known := s.producers[id]
	if !known {
		p = &unknownProducer
	}
	if o.Origin == OriginClient && epoch == p.epoch {
		last := b.LastSequence()
		for _, m := range p.batches[:p.n] {
			if m.lastSequence == last && m.firstSequence() == sequence {
				return m, true, nil
			}
		}
	}
	if err := p.checkEpoch(id, epoch); err != nil {
		return batchMeta{}, false, err
	}
	if b.Transactional() && !p.inTransaction(epoch) && !o.Unverified {
		if err := s.checkVerification(b, o.Verification); err != nil {
			return batchMeta{}, false, err
		}
	}
	if o.Origin == OriginClient {
		if err := s.checkSequence(b, p); err != nil {
			return batchMeta{}, false, err
		}
	}
	if p.txnFirst >= 0 && !b.Transactional() {
		return batchMeta{}, false, fmt.Errorf("%w: producer %d sent a batch outside its transaction, which is open since offset %d", ErrInvalidTxnState, id, p.txnFirst)
	}
	return batchMeta{}, false, nil
}

// checkSequence is the rule for a client's batch that is no duplicate and whose epoch is not stale.
func (s *producerState) checkSequence(b record.Batch, p *producer) error {
	id, epoch, sequence := b.ProducerID(), b.ProducerEpoch(), b.BaseSequence()
	if len(s.verifications) > 0 {
		if err := s.checkOrder(b, p); err != nil {
			return err
		}
	}
	switch {
	case p.epoch == record.NoProducerEpoch:
		// Never seen, expired, or its records are gone: any start will do, but none behind a batch that failed.
		if r, ok := s.refused[id]; ok && epoch == r.epoch && sequence > r.sequence {
			return fmt.Errorf("%w: producer %d sent sequence %d, want %d, which failed before", ErrOutOfOrderSequence, id, sequence, r.sequence)
		}
	case epoch != p.epoch && sequence != 0:
		return fmt.Errorf("%w: producer %d sent sequence %d, want 0: epoch %d is new after %d", ErrOutOfOrderSequence, id, sequence, epoch, p.epoch)
	case epoch == p.epoch:
		last := p.lastSequence()
		if int64(sequence) != int64(last)+1 && !(sequence == 0 && last == math.MaxInt32) {
			return fmt.Errorf("%w: producer %d sent sequence %d after %d", ErrOutOfOrderSequence, id, sequence, last)
		}
	}
	return nil
}

// checkMarker says whether the coordinator may append the marker m, which the control batch b carries. From
// transaction version 2 on the coordinator raises the epoch with each marker, so one that is not above the
// producer's is late, or, when no transaction is open, sent again, which is harmless. The error is an
// ErrInvalidProducerEpoch or ErrCoordinatorFenced.
func (s *producerState) checkMarker(b record.Batch, m record.Marker, transactionVersion int16) error {
	id, epoch := b.ProducerID(), b.ProducerEpoch()
	p, known := s.producers[id]
	if !known {
		p = &unknownProducer
	}
	late := epoch < p.epoch
	if transactionVersion >= 2 && epoch == p.epoch {
		late = p.txnFirst >= 0 && epoch != math.MaxInt16
	}
	if late {
		return fmt.Errorf("%w: marker of producer %d has epoch %d, last seen is %d (transaction version %d)", ErrInvalidProducerEpoch, id, epoch, p.epoch, transactionVersion)
	}
	if m.CoordinatorEpoch < p.coordinatorEpoch {
		return fmt.Errorf("%w: marker of producer %d has coordinator epoch %d, last seen is %d", ErrCoordinatorFenced, id, m.CoordinatorEpoch, p.coordinatorEpoch)
	}
	return nil
}

// maxRefused bounds the producers that are remembered for a batch that failed.
const maxRefused = 10_000

// refuse notes a client's batch that the disk did not take, if it is the first of its producer.
func (s *producerState) refuse(id int64, r refusedBatch) {
	if _, known := s.producers[id]; !known && r.sequence >= 0 {
		s.refuseFirst(id, r)
	}
}

func (s *producerState) refuseFirst(id int64, r refusedBatch) {
	if old, ok := s.refused[id]; ok && old.epoch == r.epoch && old.sequence <= r.sequence {
		return
	}
	if len(s.refused) >= maxRefused {
		return
	}
	if s.refused == nil {
		s.refused = make(map[int64]refusedBatch, 1)
	}
	s.refused[id] = r
}

// update takes in a data batch that was appended, or is being replayed; its offsets are stamped. Batches without a
// producer id change nothing. Control batches go to endTxn.
func (s *producerState) update(b record.Batch) {
	if b.ProducerID() < 0 {
		return
	}
	p, u := s.change(b)
	if b.Transactional() {
		u.verification = s.endVerification(b, false)
	}
	p.setEpoch(b.ProducerEpoch())
	p.add(batchMeta{
		lastOffset: b.LastOffset(), timestamp: b.MaxTimestamp(),
		lastSequence: b.LastSequence(), offsetDelta: b.LastOffsetDelta(),
	})
	p.lastTimestamp = b.MaxTimestamp()
	if b.Transactional() && p.txnFirst < 0 {
		p.txnFirst = b.BaseOffset()
		s.open = insertTxn(s.open, txn{producerID: b.ProducerID(), first: p.txnFirst, last: -1})
		u.began, u.first = true, p.txnFirst
	}
}

// endTxn takes in a marker that was appended, or is being replayed: b is its control batch, stamped, m what
// record.ParseEndTxnMarker made of its record, timestampMs that record's. It returns the transaction that the marker
// ended; false when the producer had none open here. A control batch that compaction emptied, or of another kind, is
// not passed.
func (s *producerState) endTxn(b record.Batch, m record.Marker, timestampMs int64) (completedTxn, bool) {
	p, u := s.change(b)
	s.endVerification(b, true)
	first := p.txnFirst
	p.setEpoch(b.ProducerEpoch())
	p.coordinatorEpoch, p.lastTimestamp, p.txnFirst = m.CoordinatorEpoch, timestampMs, -1
	if first < 0 {
		return completedTxn{}, false
	}
	u.ended, u.first = true, first
	c := completedTxn{Aborted: !m.Commit, AbortedTxn: AbortedTxn{
		ProducerID: b.ProducerID(), FirstOffset: first, LastOffset: b.BaseOffset(), LastStableOffset: b.BaseOffset() + 1,
	}}
	for _, t := range s.open {
		if t.producerID != b.ProducerID() {
			c.LastStableOffset = t.first
			break
		}
	}
	s.open = removeTxn(s.open, first)
	s.ended = insertTxn(s.ended, txn{producerID: b.ProducerID(), first: first, last: b.BaseOffset()})
	return c, true
}

// change returns the batch's producer, made if need be, and its undo, which is noted. Both are valid until the next
// change.
func (s *producerState) change(b record.Batch) (*producer, *producerUndo) {
	id := b.ProducerID()
	p, known := s.producers[id]
	if !known {
		if s.producers == nil {
			s.producers = make(map[int64]*producer, 1)
		}
		fresh := unknownProducer
		p = &fresh
		s.producers[id] = p
		delete(s.refused, id)
	}
	s.journal = append(s.journal, producerUndo{producerID: id, offset: b.LastOffset(), known: known, before: *p})
	return p, &s.journal[len(s.journal)-1]
}

// onHighWatermark says that all below hw is durable: transactions whose marker is below it no longer bound the last
// stable offset, and batches below it can no longer be undone.
func (s *producerState) onHighWatermark(hw int64) {
	s.settled = max(s.settled, hw)
	if len(s.ended) > 0 {
		s.ended = slices.DeleteFunc(s.ended, func(t txn) bool { return t.last < hw })
	}
	n := 0
	for n < len(s.journal) && s.journal[n].offset < hw {
		n++
	}
	if n > 0 {
		s.journal = append(s.journal[:0], s.journal[n:]...)
	}
}

// cut goes back to the state before the first batch at or above offset. It returns false, and changes nothing, when
// offset is below a high watermark that was told: the state is then to be rebuilt from a snapshot and a replay.
// Snapshots on disk above offset are the caller's to remove.
func (s *producerState) cut(offset int64) bool {
	if offset < s.settled {
		return false
	}
	for n := len(s.journal) - 1; n >= 0 && s.journal[n].offset >= offset; n-- {
		u := &s.journal[n]
		if u.began {
			s.open = removeTxn(s.open, u.first)
		}
		if u.ended {
			s.ended = removeTxn(s.ended, u.first)
			s.open = insertTxn(s.open, txn{producerID: u.producerID, first: u.first, last: -1})
		}
		if u.verification != nil {
			s.restoreVerification(u.producerID, u.verification)
		}
		if u.known {
			before := u.before
			s.producers[u.producerID] = &before
		} else {
			if p := s.producers[u.producerID]; p != nil && p.n > 0 && p.batches[0].lastSequence >= 0 {
				m := p.batches[0]
				s.refuseFirst(u.producerID, refusedBatch{timestamp: m.timestamp, sequence: m.firstSequence(), epoch: p.epoch})
			}
			delete(s.producers, u.producerID)
		}
		s.journal = s.journal[:n]
	}
	s.trim()
	return true
}

// expire drops the producers without an open transaction whose last timestamp is at least expirationMs before nowMs.
// Timestamps are those of the records, so producers of old records go early. It returns how many went.
func (s *producerState) expire(nowMs, expirationMs int64) int {
	before := len(s.producers)
	for id, p := range s.producers {
		if p.expired(nowMs, expirationMs) {
			delete(s.producers, id)
		}
	}
	for id, r := range s.refused {
		if nowMs-r.timestamp >= expirationMs {
			delete(s.refused, id)
		}
	}
	s.expireVerifications(nowMs, expirationMs)
	s.trim()
	return before - len(s.producers)
}

func (p *producer) expired(nowMs, expirationMs int64) bool {
	return p.txnFirst < 0 && nowMs-p.lastTimestamp >= expirationMs
}

// trim gives back memory that an idle log does not need.
func (s *producerState) trim() {
	if len(s.producers) == 0 {
		s.producers = nil
	}
	if len(s.refused) == 0 {
		s.refused = nil
	}
	if len(s.verifications) == 0 {
		s.verifications = nil
	}
	if len(s.journal) == 0 {
		s.journal = nil
	}
	if len(s.open) == 0 {
		s.open = nil
	}
	if len(s.ended) == 0 {
		s.ended = nil
	}
}

// firstUnstable returns the offset from which on records may still be aborted, or lost with their outcome: the first
// of the earliest transaction that is open or whose marker is not below the high watermark. The last stable offset
// is that or the high watermark, whichever is lower, and never below the log start: DeleteBefore may pass an open
// transaction.
func (s *producerState) firstUnstable() (int64, bool) {
	switch {
	case len(s.open) == 0 && len(s.ended) == 0:
		return 0, false
	case len(s.open) == 0:
		return s.ended[0].first, true
	case len(s.ended) == 0:
		return s.open[0].first, true
	}
	return min(s.open[0].first, s.ended[0].first), true
}

// count is the number of producers with state.
func (s *producerState) count() int { return len(s.producers) }

// ProducerInfo is the state of a producer in a log, as DescribeProducers answers it.
type ProducerInfo struct {
	ProducerID       int64
	LastTimestamp    int64 // of its last batch or marker, milliseconds; -1 for none
	TxnFirstOffset   int64 // of its open transaction, -1 for none
	LastOffset       int64 // of its last batch of data, -1 when none is remembered
	LastSequence     int32 // -1 when no batch is remembered
	CoordinatorEpoch int32 // of its last marker, -1 for none
	Epoch            int16
}

// infos returns the producers by id.
func (s *producerState) infos() []ProducerInfo {
	infos := make([]ProducerInfo, 0, len(s.producers))
	for id, p := range s.producers {
		infos = append(infos, ProducerInfo{
			ProducerID: id, Epoch: p.epoch, LastOffset: p.lastOffset(), LastSequence: p.lastSequence(), LastTimestamp: p.lastTimestamp,
			CoordinatorEpoch: p.coordinatorEpoch, TxnFirstOffset: p.txnFirst,
		})
	}
	slices.SortFunc(infos, func(a, b ProducerInfo) int { return cmp.Compare(a.ProducerID, b.ProducerID) })
	return infos
}

// insertTxn puts t in its place by first offset.
func insertTxn(txns []txn, t txn) []txn {
	i, _ := slices.BinarySearchFunc(txns, t.first, byFirst)
	return slices.Insert(txns, i, t)
}

func removeTxn(txns []txn, first int64) []txn {
	i, ok := slices.BinarySearchFunc(txns, first, byFirst)
	if !ok {
		panic(fmt.Sprintf("storage: no transaction from offset %d in %+v", first, txns))
	}
	return slices.Delete(txns, i, i+1)
}

func byFirst(t txn, first int64) int { return cmp.Compare(t.first, first) }
