package wire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/txn"
)

// A batch that begins a producer's transaction in a partition must not be there before the transaction coordinator knows
// of it, or nobody would end that transaction. Up to version 11 of Produce the producer has said so with
// AddPartitionsToTxn, and here it is verified; from version 12 on the partition is added here (KIP-890). Once the batch
// is in the log, those that follow it in the same transaction need nobody to be asked.
//
// The wait for the coordinator comes before the append, and what comes behind the request on its connection waits for
// both, so that batches are appended in the order in which they were sent. Requests before it are answered meanwhile.
//
// Kafka: ReplicaManager.handleProduceAppend, AddPartitionsToTxnManager.

var errSeveralProducers = detail(kerr.InvalidProducerIDMapping, "batches of transactions are of more than one producer")

// Versions of Produce that tell a producer more, or do more for it.
const (
	produceAbortable = 11 // knows TRANSACTION_ABORTABLE
	produceAdds      = 12 // partitions are added to the transaction
)

// verify asks the transaction coordinator about the partitions in which the request's batches begin transactions, and
// puts down what it refuses. The error refuses the whole request.
func (c *produceCall) verify(s *Server, r *request, req *kmsg.ProduceRequest) error {
	producer, err := c.producer()
	if err != nil || producer == txn.NoProducer {
		return err
	}
	c.unverified = !s.config.Bool("transaction.partition.verification.enable")
	if c.unverified && req.Version < produceAdds {
		return nil
	}
	began := s.stopwatch()
	defer func() { r.waited += s.lap(began) }()
	// To send the request once more costs more than a wait here, and would come later than the end of the markers of the
	// producer's last transaction, which is what it most likely waits for.
	patience := min(time.Duration(s.config.Int("add.partitions.to.txn.retry.backoff.max.ms"))*time.Millisecond, s.requestTimeout())
	ctx := r.context()
	for deadline := s.now().Add(patience); ; {
		err := c.askCoordinator(ctx, s, txn.AddRequest{TransactionalID: *req.TransactionID, Producer: producer, V2: req.Version >= produceAdds}, req)
		if !errors.Is(err, txn.ErrConcurrentTransactions) || req.Version < produceAdds || ctx.Err() != nil || !s.now().Before(deadline) {
			break
		}
		pause := time.NewTimer(time.Duration(s.config.Int("add.partitions.to.txn.retry.backoff.ms")) * time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		pause.Stop()
	}
	for i := range c.partitions {
		if p := &c.partitions[i]; p.notVerified != nil {
			p.code, p.message = refusedTransaction(p.notVerified, req.Version)
		}
	}
	return nil
}

// producer returns whose the transactional batches are: NoProducer when there are none, an error when they are of several.
func (c *produceCall) producer() (txn.Producer, error) {
	found := txn.NoProducer
	for i := range c.partitions {
		p := &c.partitions[i]
		if !p.transactional || p.replaced {
			continue
		}
		of := txn.Producer{ID: p.batch.ProducerID(), Epoch: p.batch.ProducerEpoch()}
		if found != txn.NoProducer && found != of {
			return found, errSeveralProducers
		}
		found = of
	}
	return found, nil
}

// askCoordinator asks once, unless all the logs have the transaction open already. It puts down per partition what is to
// be appended with, or why not, and returns the coordinator's error for all.
func (c *produceCall) askCoordinator(ctx context.Context, s *Server, ask txn.AddRequest, req *kmsg.ProduceRequest) error {
	for i := range c.partitions {
		p := &c.partitions[i]
		if !p.transactional || p.replaced {
			continue
		}
		p.verification, p.notVerified = p.log.StartVerification(ask.ID, ask.Epoch, p.batch.BaseSequence(), ask.V2)
		if p.verification != nil {
			ask.Partitions = append(ask.Partitions, txn.Partition{Topic: p.log.Topic(), Partition: req.Topics[p.topic].Partitions[p.index].Partition})
		}
	}
	if len(ask.Partitions) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.requestTimeout())
	defer cancel()
	var errs []error
	var err error
	if ask.V2 {
		err = s.txns.Add(ctx, ask)
	} else {
		errs, err = s.txns.Verify(ctx, ask)
	}
	n := 0
	for i := range c.partitions {
		p := &c.partitions[i]
		if p.verification == nil {
			continue
		}
		if p.notVerified = err; err == nil && errs != nil {
			p.notVerified = errs[n]
		}
		n++
	}
	return err
}

// refusedTransaction returns what a producer is told of a batch that was not verified. Older producers know what to do
// about some errors only, and NOT_ENOUGH_REPLICAS makes all of them try again without looking for another broker.
func refusedTransaction(err error, version int16) (int16, *string) {
	e := verificationError(err, version >= produceAbortable)
	if e == kerr.RequestTimedOut { // Kafka: the coordinator may be another broker
		e = kerr.NetworkException
	}
	switch {
	case e == kerr.InvalidTxnState:
		text := "the partition is not in the transaction"
		return e.Code, &text
	case e == kerr.NetworkException, e == kerr.CoordinatorLoadInProgress, e == kerr.CoordinatorNotAvailable, e == kerr.NotCoordinator,
		e == kerr.ConcurrentTransactions && version < produceAdds:
		text := fmt.Sprintf("it is not known whether the partition is in the transaction: %s", e.Message)
		return kerr.NotEnoughReplicas.Code, &text
	}
	return e.Code, nil
}

// verificationError returns Kafka's error for what the transaction coordinator says of a partition that is to be written
// to. abortable says that the producer knows TRANSACTION_ABORTABLE. Kafka: AddPartitionsToTxnHandler.
func verificationError(err error, abortable bool) *kerr.Error {
	e := kafkaError(err)
	switch {
	case errors.Is(err, txn.ErrNotInTransaction) && abortable:
		return kerr.TransactionAbortable
	case errors.Is(err, txn.ErrNotInTransaction):
		return kerr.InvalidTxnState
	case e == kerr.ProducerFenced:
		return kerr.InvalidProducerEpoch
	}
	return e
}
