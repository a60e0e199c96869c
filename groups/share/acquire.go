package share

import "time"

// Acquisition is what a member fetched and may acquire of it.
type Acquisition struct {
	Member string
	// RecordLimit: not more than MaxRecords; without, whole batches are acquired, and
	// so perhaps more. Kafka: ShareAcquireMode.
	RecordLimit bool
	// BatchSize is how many records the member would like to have acknowledged at once.
	BatchSize  int
	MaxRecords int
	// Offset is where the log was read, Batches what was there, in order, and Aborted
	// those of them that belong to aborted transactions and must not be delivered.
	Offset  int64
	Batches []Extent
	Aborted []Extent
}

// AcquiredRecords are handed to the member, for the Deliveries-th time.
type AcquiredRecords struct {
	Extent
	Deliveries int16
}

// acquirer is one acquisition under way.
type acquirer struct {
	*Acquisition
	p      *Partition
	limits Limits
	until  time.Time
	last   int64 // nothing after it is acquired
	max    int64 // records, softly
	n      int64 // records so far
	out    []AcquiredRecords
}

// Acquire hands fetched records to a member until their lock ends. Nothing is stored:
// after a restart they are as they were before. Kafka: SharePartition.acquire.
func (p *Partition) Acquire(now time.Time, q *Acquisition) []AcquiredRecords {
	if q.MaxRecords <= 0 || len(q.Batches) == 0 {
		return nil
	}
	a := &acquirer{Acquisition: q, p: p, limits: p.limits(), last: q.Batches[len(q.Batches)-1].Last}
	if a.last < p.start || !a.bound() {
		return nil
	}
	a.until = now.Add(a.limits.Lock)
	p.archive(Extent{q.Offset, q.Batches[0].First - 1}, (*run).free) // compaction took them
	a.acquire(max(q.Batches[0].First, p.start))
	for _, e := range q.Aborted {
		p.archive(e, func(r *run) bool { return r.state == Acquired && r.change == nil })
		a.out = without(a.out, e)
	}
	p.runs.merge()
	p.prune()
	return a.out
}

// bound says how far and how much may be acquired: when the partition is full, only
// what was fetched before. Kafka: SharePartition.lastOffsetAndMaxRecordsToAcquire.
func (a *acquirer) bound() bool {
	a.max = min(int64(a.MaxRecords), int64(a.limits.MaxLocks)-a.p.inFlight())
	if a.max <= 0 {
		a.max = min(int64(a.MaxRecords), a.p.end-a.Offset)
		a.last = min(a.last, a.p.end-1)
	}
	return a.max > 0
}

// acquire takes what is free from an offset on, in order, and then what is new.
func (a *acquirer) acquire(at int64) {
	for at <= a.last && a.n < a.max {
		i := a.p.runs.find(at)
		if i == len(a.p.runs) || a.p.runs[i].First > a.last {
			break
		}
		r := a.p.runs[i]
		here := Extent{max(at, r.First), min(r.Last, a.last)}
		switch {
		case !r.free():
			at = here.Last + 1
		case r.gap:
			at = a.fresh(here)
		default:
			here.Last = min(r.of.Last, a.last)
			if a.again(here, r.of) {
				return
			}
			at = here.Last + 1
		}
	}
	if at = max(at, a.p.end); at <= a.last && a.n < a.max {
		a.fresh(Extent{at, a.last})
	}
}

// fresh acquires records that were never delivered, and returns where they end. Kafka:
// SharePartition.acquireNewBatchRecords and createBatches.
func (a *acquirer) fresh(e Extent) int64 {
	room := a.max - a.n
	if room < e.size() {
		e.Last = min(e.Last, a.batchEnd(e.First+room-1))
	}
	made := run{Extent: e, of: e, state: Acquired, deliveries: 1, owner: a.Member, deadline: a.until}
	var got []run
	switch {
	case a.RecordLimit && e.size() > room:
		got = append(got, made.as(Extent{e.First, e.First + room - 1}))
		a.p.runs.replace(e, got[0], run{Extent: Extent{e.First + room, e.Last}, of: e})
	default:
		for _, piece := range a.pieces(e) {
			made.of = piece
			got = append(got, made.as(piece))
		}
		a.p.runs.replace(e, got...)
	}
	for _, r := range got {
		a.n += r.size()
		a.out = append(a.out, AcquiredRecords{r.Extent, 1})
	}
	if a.p.runs[0].First == e.First {
		a.p.start = e.First
	}
	a.p.end = max(a.p.end, e.Last+1)
	return e.Last + 1
}

// pieces divides e at batches of the log into parts of at least BatchSize records.
func (a *acquirer) pieces(e Extent) []Extent {
	var out []Extent
	if !a.RecordLimit && e.size() > int64(a.BatchSize) {
		for _, b := range a.Batches {
			if b.First > e.Last {
				break
			}
			if b.First > e.First && b.First-e.First >= int64(a.BatchSize) {
				out = append(out, Extent{e.First, b.First - 1})
				e.First = b.First
			}
		}
	}
	return append(out, e)
}

// batchEnd is the end of the log's batch that offset is in, or offset.
func (a *acquirer) batchEnd(offset int64) int64 {
	for _, b := range a.Batches {
		if b.First <= offset && offset <= b.Last {
			return b.Last
		}
	}
	return offset
}

// again acquires what is free in a part of what was once acquired together, and
// reports whether nothing may be added to it. Records that came back often are suspected to make
// their consumer fail: the nearer the last delivery, the fewer are handed out at once,
// and before the last one each goes alone. Kafka: SharePartition.acquireSubsetBatchRecords.
func (a *acquirer) again(e, of Extent) (full bool) {
	most := a.limits.MaxDeliveries
	suspect := max(2, (most+1)/2)
	throttle := false
	for i := a.p.runs.find(e.First); i < len(a.p.runs) && a.p.runs[i].First <= e.Last; i++ {
		throttle = throttle || a.p.runs[i].free() && int(a.p.runs[i].deliveries) >= suspect
	}
	if throttle && a.n > 0 {
		return true
	}
	room, few := a.max-a.n, int64(-1)
	var taken int64
	first := len(a.out)
	for at, done := e.First, false; at <= e.Last && !done; {
		i := a.p.runs.find(at)
		if i == len(a.p.runs) || a.p.runs[i].First > e.Last {
			break
		}
		r := a.p.runs[i]
		take := Extent{max(at, r.First), min(e.Last, r.Last)}
		at = take.Last + 1
		if !r.free() {
			continue
		}
		n := take.size()
		if most > 2 && int(r.deliveries) == most-1 {
			if taken > 0 {
				break
			}
			n, done = 1, true
		}
		if int(r.deliveries) >= suspect && few < 0 {
			few = max(1, of.size()>>(int(r.deliveries)-suspect+1))
		}
		if a.RecordLimit && taken+n >= room {
			n, done = room-taken, true
		}
		if few > taken && taken+n >= few {
			n, done = few-taken, true
		}
		take.Last = take.First + n - 1
		a.p.runs.replace(take, run{Extent: take, of: of, state: Acquired, deliveries: r.deliveries + 1, owner: a.Member, deadline: a.until})
		taken += n
		a.add(first, AcquiredRecords{take, r.deliveries + 1})
	}
	a.n += taken
	return throttle && taken > 0
}

// add adds to the answer; what continues the last part is joined with it, from the
// first on.
func (a *acquirer) add(first int, r AcquiredRecords) {
	if n := len(a.out); n > first && a.out[n-1].Last+1 == r.First && a.out[n-1].Deliveries == r.Deliveries {
		a.out[n-1].Last = r.Last
		return
	}
	a.out = append(a.out, r)
}

// archive ends what is chosen within e, without storing that: who reads the state next
// will find it out again.
func (p *Partition) archive(e Extent, chosen func(*run) bool) {
	if e.size() <= 0 {
		return
	}
	i, j := p.runs.span(e)
	for ; i < j; i++ {
		if r := &p.runs[i]; chosen(r) {
			r.state, r.owner, r.deadline, r.gap = Archived, "", time.Time{}, false
		}
	}
}

// without takes e out of a list.
func without(list []AcquiredRecords, e Extent) []AcquiredRecords {
	var out []AcquiredRecords
	for _, r := range list {
		if before := (Extent{r.First, min(r.Last, e.First-1)}); before.size() > 0 {
			out = append(out, AcquiredRecords{before, r.Deliveries})
		}
		if after := (Extent{max(r.First, e.Last+1), r.Last}); after.size() > 0 {
			out = append(out, AcquiredRecords{after, r.Deliveries})
		}
	}
	return out
}
