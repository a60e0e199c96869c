package share

import "time"

// Limits are what a group's configs say of a partition.
type Limits struct {
	// MaxLocks bounds the records from the start offset to the last that was fetched.
	// Kafka: share.partition.max.record.locks.
	MaxLocks int
	// MaxDeliveries is how often a record may be handed out. Kafka: share.delivery.count.limit.
	MaxDeliveries int
	// Lock is how long a member has an acquired record. Kafka: share.record.lock.duration.ms.
	Lock time.Duration
	// RenewRefused: members may not renew their locks. Kafka: share.renew.acknowledge.enable.
	RenewRefused bool
}

// Batch is a run of records as it is stored. Kafka: PersisterStateBatch.
type Batch struct {
	Extent
	State      RecordState
	Deliveries int16
}

// Partition is the records of one partition as one group sees them. It is pure: no
// lock, goroutine, clock or I/O.
type Partition struct {
	limits func() Limits
	start  int64 // everything before it has been dealt with
	end    int64 // where nothing has been fetched yet; start without runs
	runs   runs
}

// Change is a step of a Partition that must be stored: Finish makes it take effect.
type Change struct {
	// Start and Complete are the start offset and the number of records from it on
	// that are dealt with, this change included.
	Start    int64
	Complete int32
	Batches  []Batch
	// anyway: it takes effect also when it could not be stored.
	anyway bool
}

// NewPartition returns a Partition from what was stored: a start offset and batches
// that do not overlap, in order.
func NewPartition(start int64, stored []Batch, limits func() Limits) *Partition {
	p := &Partition{limits: limits, start: start, end: start}
	for _, b := range stored {
		if b.Last < p.end || b.Last < b.First {
			continue
		}
		b.First = max(b.First, p.end)
		if b.First > p.end {
			gap := Extent{p.end, b.First - 1}
			p.runs = append(p.runs, run{Extent: gap, of: gap, gap: true})
		}
		if b.State == archiving {
			b.State = Archived
		}
		p.runs = append(p.runs, run{Extent: b.Extent, of: b.Extent, state: b.State, deliveries: b.Deliveries})
		p.end = b.Last + 1
	}
	p.prune()
	return p
}

// Start is the offset before which everything has been dealt with.
func (p *Partition) Start() int64 { return p.start }

// NextFetch is where to read what may be acquired next.
func (p *Partition) NextFetch() int64 {
	for i := range p.runs {
		if p.runs[i].free() {
			return p.runs[i].First
		}
	}
	return p.end
}

// CanAcquire reports whether there is anything that may be acquired, or room for new
// records.
func (p *Partition) CanAcquire() bool {
	return p.NextFetch() != p.end || p.inFlight() < int64(p.limits().MaxLocks)
}

// inFlight counts the records from the start to the last one fetched, whatever their
// state.
func (p *Partition) inFlight() int64 { return p.end - p.start }

// complete counts the records that are dealt with, or will be when what is on its way
// to the disk is there.
func (p *Partition) complete() int32 {
	var n int64
	for i := range p.runs {
		if r := &p.runs[i]; r.state.terminal() || r.change != nil && r.next.terminal() {
			n += r.size()
		}
	}
	return int32(n)
}

// LogStarts tells that the log's start has moved: nothing before offset can be
// delivered any more. It is not stored: who reads the state next finds it out again.
// Kafka: SharePartition.updateCacheAndOffsets.
func (p *Partition) LogStarts(offset int64) {
	if offset <= p.start {
		return
	}
	p.runs = append(runs(nil), p.runs[p.runs.cut(offset):]...)
	p.start, p.end = offset, max(p.end, offset)
	p.prune()
}

// Release gives back what a member has acquired. The change is nil when that is
// nothing. Kafka: SharePartition.releaseAcquiredRecords.
func (p *Partition) Release(member string) *Change {
	return p.giveBack(&Change{}, func(r *run) bool { return r.owner == member })
}

// Tick takes back what was acquired too long ago; nil when there is nothing. Kafka:
// SharePartition.releaseAcquisitionLockOnTimeout.
func (p *Partition) Tick(now time.Time) *Change {
	return p.giveBack(&Change{anyway: true}, func(r *run) bool { return !r.deadline.After(now) })
}

// Next is when Tick has something to do; zero when there is nothing.
func (p *Partition) Next() (next time.Time) {
	for i := range p.runs {
		if r := &p.runs[i]; r.state == Acquired && r.change == nil && (next.IsZero() || r.deadline.Before(next)) {
			next = r.deadline
		}
	}
	return next
}

// giveBack makes a change of the acquired runs that are chosen.
func (p *Partition) giveBack(c *Change, chosen func(*run) bool) *Change {
	most := p.limits().MaxDeliveries
	for i := range p.runs {
		if r := &p.runs[i]; r.state == Acquired && r.change == nil && chosen(r) {
			r.change, r.next = c, released(r, most)
		}
	}
	return p.seal(c)
}

// released is what becomes of a record that is given back: the last delivery allowed
// was the last.
func released(r *run, most int) RecordState {
	if int(r.deliveries) >= most {
		return Archived
	}
	return Available
}

// seal says what must be stored of a change; nil when that is nothing.
func (p *Partition) seal(c *Change) *Change {
	for i := range p.runs {
		r := &p.runs[i]
		if r.change != c {
			continue
		}
		if n := len(c.Batches); n > 0 {
			if b := &c.Batches[n-1]; b.Last+1 == r.First && b.State == r.next && b.Deliveries == r.deliveries {
				b.Last = r.Last
				continue
			}
		}
		c.Batches = append(c.Batches, Batch{r.Extent, r.next, r.deliveries})
	}
	p.runs.merge()
	if len(c.Batches) == 0 {
		return nil
	}
	c.Start, c.Complete = p.start, p.complete()
	return c
}

// Finish tells what became of a change: stored, or not. Then its records are as they
// were, except that a lock whose time is over is over in any case.
func (p *Partition) Finish(c *Change, stored bool) {
	for i := range p.runs {
		r := &p.runs[i]
		if r.change != c {
			continue
		}
		r.change = nil
		if stored || c.anyway {
			r.state, r.owner, r.deadline = r.next, "", time.Time{}
		}
		r.next = 0
	}
	p.runs.merge()
	p.prune()
}

// prune forgets the runs at the start that are dealt with, and moves the start. Kafka:
// SharePartition.maybeUpdateCachedStateAndOffsets.
func (p *Partition) prune() {
	n := 0
	for n < len(p.runs) && p.runs[n].state.terminal() && p.runs[n].change == nil {
		n++
	}
	if n == 0 {
		return
	}
	if p.runs = append(runs(nil), p.runs[n:]...); len(p.runs) > 0 {
		p.start = p.runs[0].First
	} else {
		p.start = p.end
	}
}
