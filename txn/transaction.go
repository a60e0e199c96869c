package txn

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Producer is a producer id with its epoch.
type Producer struct {
	ID    int64
	Epoch int16
}

// NoProducer stands where there is none.
var NoProducer = Producer{ID: -1, Epoch: -1}

// Partition is a partition of a topic.
type Partition struct {
	Topic     string
	Partition int32
}

// Marker is what ends a transaction in a partition.
type Marker struct {
	Producer
	Commit           bool  // false is abort
	CoordinatorEpoch int32 // the leader epoch of the partition of __transaction_state
	V2               bool  // of transaction version 2: its epoch is above that of the data
}

// state is that of a transaction. The numbers are what is stored.
type state int8

const (
	empty          state = 0
	ongoing        state = 1
	prepareCommit  state = 2 // decided; the markers are written next
	prepareAbort   state = 3
	completeCommit state = 4 // all markers are written
	completeAbort  state = 5
)

// stateNames are the names on the wire. No transaction is in the last two states, in
// which Kafka has one for moments.
var stateNames = []string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"}

func (s state) String() string { return stateNames[s] }

// prepared reports whether it is decided how the transaction ends, but not all markers
// are written.
func (s state) prepared() bool { return s == prepareCommit || s == prepareAbort }

const (
	// highestEpoch is the highest epoch that a client gets: one is left to fence it.
	highestEpoch = math.MaxInt16 - 1
	// serverVersion is the transaction version of what the coordinator does by itself.
	serverVersion = 2
	// noTimeout is the timeout of a transaction that nobody ends but its client (KIP-939).
	noTimeout = math.MaxInt32
)

// transaction is what is known of a transactional id: one record. It is not changed once
// made; each step makes the next. Its methods are the state machine, which is pure: they
// say what comes next, or why nothing does. Kafka: TransactionMetadata.
type transaction struct {
	id string
	Producer
	previousID int64 // the producer id before the last step; -1 for none
	nextID     int64 // the producer id to go on with when the transaction is complete; -1 for the same
	// lastEpoch is the epoch before the last one was given to a client that named it; -1
	// for none. It is not stored.
	lastEpoch  int16
	version    int16 // the transaction version of the client in this transaction: 0 or 2
	state      state
	timeoutMs  int32
	startMs    int64       // when the transaction began; -1 before the first
	updateMs   int64       // when the last step was made
	partitions []Partition // in order
}

// newTransaction is what Init begins with for an id that is not known: nobody has an
// epoch of the producer yet.
func newTransaction(id string, producerID int64) *transaction {
	return &transaction{id: id, Producer: Producer{producerID, -1}, previousID: -1, nextID: -1, lastEpoch: -1, startMs: -1}
}

// to returns the next step, of which only the state and the time are new.
func (t *transaction) to(s state, nowMs int64) *transaction {
	n := *t
	n.state, n.updateMs, n.previousID = s, nowMs, t.ID
	return &n
}

// exhausted reports whether no client may get a higher epoch of the producer id.
func (t *transaction) exhausted() bool { return t.Epoch >= highestEpoch }

// needsID says that a step takes a new producer id, which is to be fetched first.
type needsID struct{}

func (needsID) Error() string { return "a new producer id is needed" }

// initialize gives the id's next producer; when a transaction is open, it is aborted
// first, with an epoch that nobody gets. newID is a producer id that may be taken, -1 for
// none.
//
// Kafka: TransactionCoordinator.prepareInitProducerIdTransit,
// TransactionMetadata.prepareIncrementProducerEpoch, prepareProducerIdRotation.
//
// Differs from Kafka: a retry that names the epoch before the highest gets that again.
// There it is an exception, UNKNOWN_SERVER_ERROR.
func (t *transaction) initialize(nowMs int64, timeoutMs int32, expected *Producer, newID int64) (*transaction, error) {
	if expected != nil && t.Epoch != -1 && expected.ID != t.ID && (expected.ID != t.previousID || expected.Epoch < highestEpoch) {
		return nil, fmt.Errorf("producer id %d, want %d: %w", expected.ID, t.ID, ErrProducerFenced)
	}
	if t.state == ongoing {
		return t.fence(nowMs, newID)
	}
	n := t.to(empty, nowMs)
	n.timeoutMs, n.partitions, n.startMs = timeoutMs, nil, -1
	switch {
	case t.exhausted() && (expected == nil || expected.Epoch == t.Epoch):
		if newID < 0 {
			return nil, needsID{}
		}
		n.Producer, n.lastEpoch = Producer{newID, 0}, -1
		if expected != nil {
			n.lastEpoch = t.Epoch
		}
	case expected == nil:
		n.Epoch, n.lastEpoch = t.Epoch+1, -1
	case t.Epoch == -1 || expected.Epoch == t.Epoch:
		n.Epoch, n.lastEpoch = t.Epoch+1, t.Epoch
	case expected.Epoch != t.lastEpoch: // else the answer was lost, and it is given again
		return nil, fmt.Errorf("epoch %d, want %d, or %d again: %w", expected.Epoch, t.Epoch, t.lastEpoch, ErrProducerFenced)
	}
	return n, nil
}

// of says whether a request is from the id's present producer.
func (t *transaction) of(p Producer) error {
	switch {
	case t == nil:
		return fmt.Errorf("unknown transactional id: %w", ErrInvalidProducerIDMapping)
	case p.ID != t.ID:
		return fmt.Errorf("producer id %d, want %d: %w", p.ID, t.ID, ErrInvalidProducerIDMapping)
	case p.Epoch != t.Epoch:
		return fmt.Errorf("epoch %d of producer id %d, want %d: %w", p.Epoch, p.ID, t.Epoch, ErrProducerFenced)
	}
	return nil
}

// add takes partitions in; the result is t itself when they are. Kafka:
// TransactionMetadata.prepareAddPartitions.
func (t *transaction) add(nowMs int64, p Producer, partitions []Partition, version int16) (*transaction, error) {
	if err := t.of(p); err != nil {
		return nil, err
	}
	if t.state == ongoing && !slices.ContainsFunc(partitions, func(p Partition) bool { return !t.has(p) }) {
		return t, nil
	}
	n := t.to(ongoing, nowMs)
	if t.state != ongoing {
		n.startMs = nowMs
	}
	n.version = version
	n.partitions = append(slices.Clip(t.partitions), partitions...)
	slices.SortFunc(n.partitions, comparePartitions)
	n.partitions = slices.Compact(n.partitions)
	return n, nil
}

// has reports whether a partition is in the transaction.
func (t *transaction) has(p Partition) bool {
	_, ok := slices.BinarySearchFunc(t.partitions, p, comparePartitions)
	return ok
}

// verify says of each partition whether it is in the transaction of a producer. Kafka:
// TransactionCoordinator.handleVerifyPartitionsInTransaction.
func (t *transaction) verify(p Producer, partitions []Partition) ([]error, error) {
	if err := t.of(p); err != nil {
		return nil, err
	}
	if t.state.prepared() {
		return nil, ErrConcurrentTransactions
	}
	errs := make([]error, len(partitions))
	for i, p := range partitions {
		if !t.has(p) {
			errs[i] = fmt.Errorf("partition %s-%d: %w", p.Topic, p.Partition, ErrNotInTransaction)
		}
	}
	return errs, nil
}

func comparePartitions(a, b Partition) int {
	if c := strings.Compare(a.Topic, b.Topic); c != 0 {
		return c
	}
	return int(a.Partition) - int(b.Partition)
}

// endV1 decides how a transaction ends; the result is t itself when that is done already.
// pending is set while a step is on its way, or the markers are. Kafka:
// TransactionCoordinator.endTransactionWithTV1.
//
// In Kafka too a transaction whose markers are being written is pending, so that neither
// there nor here the answers of its table for PrepareCommit and PrepareAbort are given.
func (t *transaction) endV1(nowMs int64, p Producer, commit, pending bool) (*transaction, error) {
	if err := t.of(p); err != nil {
		return nil, err
	}
	switch {
	case pending:
		return nil, ErrConcurrentTransactions
	case t.state == ongoing:
		n := t.to(decided(commit), nowMs)
		n.version = 0
		return n, nil
	case t.state == completeCommit && commit, t.state == completeAbort && !commit:
		return t, nil
	}
	return nil, t.cannot(commit)
}

func decided(commit bool) state {
	if commit {
		return prepareCommit
	}
	return prepareAbort
}

func (t *transaction) cannot(commit bool) error {
	return fmt.Errorf("a transaction in state %v cannot end with commit %t: %w", t.state, commit, ErrInvalidTxnState)
}

// endV2 is endV1 for clients of transaction version 2, whose epoch rises with each end. So
// a request with the epoch before the present one is a retry, and one with the present
// epoch is of the next transaction, which may be aborted although nothing is known of it:
// the client need not know whether a partition was added. Kafka:
// TransactionCoordinator.endTransaction.
func (t *transaction) endV2(nowMs int64, p Producer, commit, pending bool, newID int64) (*transaction, error) {
	if pending {
		// Before the other checks: the producer may know the new id already.
		return nil, ErrConcurrentTransactions
	}
	if t == nil {
		return nil, t.of(p)
	}
	complete := t.state == completeCommit || t.state == completeAbort
	retry := complete && (p.ID == t.ID && int(p.Epoch)+1 == int(t.Epoch) ||
		p.ID == t.previousID && p.Epoch == highestEpoch && t.Epoch == 0)
	if !retry {
		if err := t.of(p); err != nil {
			return nil, err
		}
	}
	switch {
	case retry && commit == (t.state == completeCommit):
		return t, nil
	case !retry && t.state == ongoing, !retry && !commit:
		return t.decide(nowMs, commit, newID)
	}
	return nil, t.cannot(commit)
}

// decide is the end of a transaction of version 2. Kafka:
// TransactionMetadata.prepareAbortOrCommit.
func (t *transaction) decide(nowMs int64, commit bool, newID int64) (*transaction, error) {
	n := t.to(decided(commit), nowMs)
	if t.state != ongoing {
		n.startMs = nowMs
	}
	n.version, n.lastEpoch = serverVersion, t.Epoch
	if t.exhausted() {
		if newID < 0 {
			return nil, needsID{}
		}
		n.nextID = newID
	}
	if t.Epoch < math.MaxInt16 {
		n.Epoch++
	}
	return n, nil
}

// fence aborts an open transaction with an epoch that its producer does not know.
func (t *transaction) fence(nowMs int64, newID int64) (*transaction, error) {
	return t.decide(nowMs, false, newID)
}

// following is the producer to go on with after a transaction that is decided.
func (t *transaction) following() Producer {
	if t.nextID != -1 {
		return Producer{t.nextID, 0}
	}
	return t.Producer
}

// complete is the step that follows when all markers are written. Kafka:
// TransactionMetadata.prepareComplete.
func (t *transaction) complete(nowMs int64) *transaction {
	s := completeAbort
	if t.state == prepareCommit {
		s = completeCommit
	}
	n := t.to(s, nowMs)
	n.Producer, n.nextID, n.partitions = t.following(), -1, nil
	return n
}

// timedOut reports whether an open transaction has lasted longer than it may. Kafka:
// TransactionStateManager.timedOutTransactions.
func (t *transaction) timedOut(nowMs int64) bool {
	return t.state == ongoing && t.timeoutMs != noTimeout && t.startMs+int64(t.timeoutMs) < nowMs
}

// expired reports whether the id is to be forgotten. Kafka:
// TransactionStateManager.shouldExpire.
func (t *transaction) expired(nowMs, afterMs int64) bool {
	return t.state != ongoing && !t.state.prepared() && t.updateMs <= nowMs-afterMs
}
