package txn

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Description is what DescribeTransactions tells of a transactional id.
type Description struct {
	TransactionalID string
	State           string // by its name on the wire
	Producer
	Timeout    time.Duration
	StartMs    int64       // when the transaction began, -1 for none
	Partitions []Partition // in order; of one that ends, those whose marker is not written
}

// Describe returns what is known of an id. Errors: ErrInvalidRequest for an empty id,
// those of Available, ErrTransactionalIDNotFound.
//
// Kafka: TransactionCoordinator.handleDescribeTransactions.
func (c *Coordinator) Describe(id string) (Description, error) {
	if err := checkID(id); err != nil {
		return Description{}, err
	}
	var d Description
	err := c.look(id, func(e *entry) error {
		t := e.known()
		if t == nil {
			return fmt.Errorf("transactional id %q: %w", id, ErrTransactionalIDNotFound)
		}
		d = Description{
			TransactionalID: id, State: t.state.String(), Producer: t.Producer,
			Timeout: time.Duration(t.timeoutMs) * time.Millisecond, StartMs: t.startMs, Partitions: slices.Clone(t.partitions),
		}
		if e.end != nil {
			d.Partitions = slices.Clone(e.end.left)
		}
		return nil
	})
	return d, err
}

// ListRequest says which ids List returns; all of its conditions must be met.
type ListRequest struct {
	States      []string // names of states, all states when empty
	ProducerIDs []int64  // all producers when empty
	// MinDuration is how long the transaction must have been running, and a bit more;
	// negative for any. One that never began has been running since 1970.
	MinDuration time.Duration
	Pattern     string // a regular expression for the whole of the id; "" for any
}

// Listed is a transactional id as ListTransactions tells of it.
type Listed struct {
	TransactionalID string
	ProducerID      int64
	State           string
}

// ListResult is the answer of List.
type ListResult struct {
	Transactions  []Listed // by id
	UnknownStates []string // those of the request that are no states, once each
}

// List returns the transactional ids that meet conditions. A partition that cannot be
// read has none. Errors: ErrNotAvailable, ErrLoading when any partition is being read,
// ErrInvalidRegex.
//
// Kafka: TransactionStateManager.listTransactionStates.
func (c *Coordinator) List(r ListRequest) (ListResult, error) {
	select {
	case <-c.topic.Life().Done():
		return ListResult{}, fmt.Errorf("the coordinator stops: %w", ErrNotAvailable)
	default:
	}
	all := c.all()
	for _, w := range all {
		w.mu.Lock()
		err := w.ready()
		w.mu.Unlock()
		if errors.Is(err, ErrLoading) {
			return ListResult{}, err
		}
	}
	pattern, err := compilePattern(r.Pattern)
	if err != nil {
		return ListResult{}, err
	}
	chosen, unknown := r.chosen()
	out := ListResult{UnknownStates: unknown}
	nowMs := c.o.Now().UnixMilli()
	for _, w := range all {
		w.mu.Lock()
		if w.ready() == nil {
			for _, e := range w.entries {
				if t := e.t; t != nil && chosen.wants(t, nowMs) {
					out.Transactions = append(out.Transactions, Listed{t.id, t.ID, t.state.String()})
				}
			}
		}
		w.mu.Unlock()
	}
	if out.Transactions, err = pattern.keep(out.Transactions); err != nil {
		return ListResult{}, err
	}
	slices.SortFunc(out.Transactions, func(a, b Listed) int { return strings.Compare(a.TransactionalID, b.TransactionalID) })
	return out, nil
}

// chosen is what a ListRequest asks for, as it is looked up: there may be many transactional
// ids, and as many conditions as a request has room for.
type chosen struct {
	states    map[string]bool // all states when empty
	producers map[int64]bool  // all producers when empty
	minMs     int64           // negative for any
}

// chosen returns what the request asks for, without the pattern, and once each those of its
// states that are none.
func (r *ListRequest) chosen() (c chosen, unknown []string) {
	c = chosen{states: make(map[string]bool), producers: make(map[int64]bool, len(r.ProducerIDs)), minMs: -1}
	for _, s := range r.States {
		if !c.states[s] && !slices.Contains(stateNames, s) {
			unknown = append(unknown, s)
		}
		c.states[s] = true
	}
	for _, id := range r.ProducerIDs {
		c.producers[id] = true
	}
	if r.MinDuration >= 0 {
		c.minMs = r.MinDuration.Milliseconds()
	}
	return c, unknown
}

// wants says whether a transaction meets the conditions.
func (c *chosen) wants(t *transaction, nowMs int64) bool {
	return (len(c.states) == 0 || c.states[t.state.String()]) &&
		(len(c.producers) == 0 || c.producers[t.ID]) &&
		(c.minMs < 0 || nowMs-t.startMs > c.minMs)
}

// Available says whether the coordinator of an id answers: nil, ErrLoading,
// ErrNotCoordinator or ErrNotAvailable.
func (c *Coordinator) Available(id string) error {
	return c.look(id, func(*entry) error { return nil })
}
