package share

import (
	"fmt"
	"slices"
	"time"
)

// AckType is what a member says of a record. The numbers are the protocol's.
type AckType int8

// The types. Kafka: AcknowledgeType.
const (
	Gap     AckType = 0 // there is no such record
	Accept  AckType = 1
	Release AckType = 2 // somebody may try again
	Reject  AckType = 3 // nobody should
	Renew   AckType = 4 // it takes longer
)

// Ack is what a member says of some records: one type for all, or one for each.
type Ack struct {
	Extent
	Types []AckType
}

// Acknowledge takes what a member says of records it has acquired: all of it, or
// nothing when the error is not nil, except that locks are renewed as they come. The
// change is nil when nothing must be stored. What lies before the start offset is
// passed over. Errors: ErrRecordState, ErrInvalidRequest. Kafka:
// SharePartition.acknowledge.
func (p *Partition) Acknowledge(now time.Time, member string, acks []Ack) (*Change, error) {
	c := &Change{}
	for _, a := range acks {
		if err := p.acknowledge(now, member, c, a); err != nil {
			for i := range p.runs {
				if r := &p.runs[i]; r.change == c {
					r.change, r.next = nil, 0
				}
			}
			p.runs.merge()
			return nil, err
		}
	}
	return p.seal(c), nil
}

func (p *Partition) acknowledge(now time.Time, member string, c *Change, a Ack) error {
	for _, t := range a.Types {
		if t < Gap || t > Renew {
			return fmt.Errorf("acknowledge type %d, want 0 to 4: %w", t, ErrInvalidRequest)
		}
	}
	if n := int64(len(a.Types)); n != 1 && n != a.size() {
		return fmt.Errorf("%d acknowledge types for %d records: %w", n, a.size(), ErrInvalidRequest)
	}
	if a.Last < p.start {
		return nil
	}
	if err := p.covers(Extent{max(a.First, p.start), a.Last}); err != nil {
		return err
	}
	if len(a.Types) == 1 {
		return p.mark(now, member, c, Extent{max(a.First, p.start), a.Last}, a.Types[0])
	}
	for at := max(a.First, p.start); at <= a.Last; {
		t := a.Types[at-a.First]
		same := Extent{at, at}
		for same.Last < a.Last && a.Types[same.Last+1-a.First] == t {
			same.Last++
		}
		if err := p.mark(now, member, c, same, t); err != nil {
			return err
		}
		at = same.Last + 1
	}
	return nil
}

// covers checks that e begins and ends within what was fetched. Kafka:
// SharePartition.fetchSubMapForAcknowledgementBatch.
func (p *Partition) covers(e Extent) error {
	if len(p.runs) == 0 || e.First < p.runs[0].First {
		return fmt.Errorf("offset %d was not delivered: %w", e.First, ErrRecordState)
	}
	if i := p.runs.find(e.Last); i == len(p.runs) || p.runs[i].First > e.Last {
		return fmt.Errorf("offsets %d to %d, the last of which was not delivered: %w", e.First, e.Last, ErrInvalidRequest)
	}
	return nil
}

// mark makes what is said of e a part of the change.
func (p *Partition) mark(now time.Time, member string, c *Change, e Extent, t AckType) error {
	limits := p.limits()
	i, j := p.runs.span(e)
	for ; i < j; i++ {
		r := &p.runs[i]
		switch {
		case r.state != Acquired:
			return fmt.Errorf("offset %d is %v, want acquired: %w", r.First, r.state, ErrRecordState)
		case r.change != nil:
			return fmt.Errorf("offset %d is being acknowledged: %w", r.First, ErrRecordState)
		case r.owner != member:
			return fmt.Errorf("offset %d is acquired by another member: %w", r.First, ErrRecordState)
		case t == Renew && limits.RenewRefused:
			return fmt.Errorf("the group's locks cannot be renewed: %w", ErrRecordState)
		}
		switch t {
		case Renew:
			r.deadline = now.Add(limits.Lock)
			continue
		case Accept:
			r.next = Acknowledged
		case Release:
			r.next = released(r, limits.MaxDeliveries)
		default:
			r.next = Archived
		}
		r.change = c
	}
	return nil
}

// Disordered returns the error of acknowledgements that no partition takes: ranges that
// are empty or not in order, types that do not fit the range, renewals in a request
// that does not say that it has some. Kafka: KafkaApis.validateAcknowledgementBatches.
func Disordered(acks []Ack, highest AckType, renews bool) error {
	end := int64(-1)
	for _, a := range acks {
		switch n := int64(len(a.Types)); {
		case a.First > a.Last, a.First < end:
			return fmt.Errorf("offsets %d to %d after %d: %w", a.First, a.Last, end, ErrInvalidRequest)
		case n == 0, n > 1 && n != a.size():
			return fmt.Errorf("%d acknowledge types for offsets %d to %d: %w", n, a.First, a.Last, ErrInvalidRequest)
		case slices.Min(a.Types) < Gap || slices.Max(a.Types) > highest:
			return fmt.Errorf("acknowledge types %v, want 0 to %d: %w", a.Types, highest, ErrInvalidRequest)
		case slices.Contains(a.Types, Renew) && !renews:
			return fmt.Errorf("locks are renewed by a request that does not say so: %w", ErrInvalidRequest)
		}
		end = a.Last
	}
	return nil
}
