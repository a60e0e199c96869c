package storage

import (
	"fmt"

	"github.com/kaen-log/gateway/storage/record"
)

// Verification stands for one asking of the transaction coordinator whether a producer's transaction has this log in it.
// The transaction must not end between the answer and the append, or the batch would open one that nobody ends. So the
// log keeps a Verification per producer from StartVerification until the producer's first transactional batch is in the
// log, or a marker: an append that begins a transaction carries the one that the log has then. A later one for the same
// producer is another value, so that an old answer cannot pass for one about the next transaction.
//
// It is of one log, and means nothing to its holder beyond that. What is in it is guarded by Log.mu.
//
// Kafka: VerificationGuard, VerificationStateEntry.
type Verification struct {
	startedMs int64
	// lowest is the first sequence of the earliest batch of its epoch that asked. Those that were sent behind it must not go
	// before it when it has to ask again.
	lowest int32
	epoch  int16
	// v2: the producer raises its epoch with each transaction, so that it begins at sequence 0.
	v2 bool
	// failed: a batch that used it was cut off again, and with it the transaction that it began. Those that found the
	// transaction open carry no Verification, and failed with it.
	failed bool
}

// StartVerification is called before the transaction coordinator is asked about a transactional batch of this producer and
// with this first sequence. It returns what is to be passed to the append if the coordinator agrees; nil when the producer
// has a transaction of that epoch open here, so that nobody needs to be asked. v2 says that the request is of a version
// that adds partitions to transactions implicitly. The log is recovered first if need be. The error is that of an Append
// to a log that is out of service, or ErrInvalidProducerEpoch.
//
// A Verification that is not used is forgotten as a silent producer is; see Options.ProducerIDExpiration.
//
// Kafka: UnifiedLog.maybeStartTransactionVerification.
func (l *Log) StartVerification(producerID int64, epoch int16, sequence int32, v2 bool) (*Verification, error) {
	if Status(l.status.Load()) != StatusOnline {
		if err := l.recover(); err != nil {
			l.refusedFirst(producerID, refusedBatch{timestamp: l.nowMs(), sequence: sequence, epoch: epoch})
			return nil, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch Status(l.status.Load()) {
	case StatusOffline:
		return nil, l.offline.Load()
	case StatusDeleted:
		return nil, ErrLogDeleted
	}
	return l.producers.startVerification(producerID, epoch, sequence, v2, l.nowMs())
}

// startVerification is StartVerification for the state.
func (s *producerState) startVerification(id int64, epoch int16, sequence int32, v2 bool, nowMs int64) (*Verification, error) {
	if p, ok := s.producers[id]; ok {
		if err := p.checkEpoch(id, epoch); err != nil {
			return nil, err
		}
		if p.inTransaction(epoch) {
			return nil, nil
		}
	}
	v := s.verifications[id]
	if v == nil {
		if s.verifications == nil {
			s.verifications = make(map[int64]*Verification, 1)
		}
		v = &Verification{startedMs: nowMs, lowest: sequence, epoch: epoch, v2: v2}
		s.verifications[id] = v
		return v, nil
	}
	switch {
	case epoch > v.epoch:
		v.epoch, v.lowest = epoch, sequence
	case epoch == v.epoch:
		v.lowest = min(v.lowest, sequence)
	}
	return v, nil
}

// checkVerification says whether a batch of data may begin a transaction with this verification, which may be nil. Kafka:
// UnifiedLog.batchMissingRequiredVerification.
func (s *producerState) checkVerification(b record.Batch, given *Verification) error {
	v := s.verifications[b.ProducerID()]
	switch {
	case v != nil && v == given:
		return nil
	case v != nil && v.failed && given == nil:
		return fmt.Errorf("%w: producer %d sent a batch behind one that was cut off with the transaction it began", ErrStorage, b.ProducerID())
	}
	return fmt.Errorf("%w: producer %d sent a batch that is not known to be part of a transaction", ErrInvalidTxnState, b.ProducerID())
}

// checkOrder says whether a client's batch may come now that its producer has a verification. Kafka:
// ProducerAppendInfo.checkSequence.
func (s *producerState) checkOrder(b record.Batch, p *producer) error {
	id, sequence := b.ProducerID(), b.BaseSequence()
	v := s.verifications[id]
	switch {
	case v == nil:
	case v.v2 && p.n == 0 && sequence != 0:
		// Any other start means that batches were lost.
		return fmt.Errorf("%w: producer %d sent sequence %d, want 0: it has no state here", ErrOutOfOrderSequence, id, sequence)
	case sequence > v.lowest:
		return fmt.Errorf("%w: producer %d sent sequence %d, want %d, which came before", ErrOutOfOrderSequence, id, sequence, v.lowest)
	}
	return nil
}

// endVerification forgets the producer's verification when a transactional batch or a marker has been appended, and
// returns it. A marker of the verification's own epoch ended the transaction before: from transaction version 2 on markers
// raise the epoch, and the producer goes on with theirs. Kafka: UnifiedLog.updateProducers.
func (s *producerState) endVerification(b record.Batch, marker bool) *Verification {
	v := s.verifications[b.ProducerID()]
	if v == nil || !b.Transactional() || v.v2 && marker && b.ProducerEpoch() == v.epoch {
		return nil
	}
	delete(s.verifications, b.ProducerID())
	return v
}

// restoreVerification undoes endVerification for a batch of data that is cut off: the producer sends it again, and the
// coordinator's answer still stands. After a marker nothing comes back, as the marker is sent again as well.
func (s *producerState) restoreVerification(id int64, v *Verification) {
	v.failed = true
	if newer := s.verifications[id]; newer != nil {
		newer.failed = true
		if newer.epoch == v.epoch {
			newer.lowest = min(newer.lowest, v.lowest)
		}
		return
	}
	if s.verifications == nil {
		s.verifications = make(map[int64]*Verification, 1)
	}
	s.verifications[id] = v
}

// expireVerifications drops those that were started at least expirationMs before nowMs.
func (s *producerState) expireVerifications(nowMs, expirationMs int64) {
	for id, v := range s.verifications {
		if nowMs-v.startedMs >= expirationMs {
			delete(s.verifications, id)
		}
	}
}
