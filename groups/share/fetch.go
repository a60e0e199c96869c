package share

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// FetchRequest asks for records of some partitions.
type FetchRequest struct {
	Group, Member string
	// Partitions in the order in which they are served.
	Partitions []FetchPartition
	// MinBytes is waited for, until Deadline; MaxBytes of all partitions are read, of
	// each an equal part, and a first batch that is larger.
	MinBytes, MaxBytes    int
	Deadline              time.Time
	MaxRecords, BatchSize int
	RecordLimit           bool // see Acquisition
	// Hurry is poked when the answer is wanted with what there is.
	Hurry <-chan struct{}
	// Buffer returns an empty slice for at most n bytes that are read, or room for
	// fewer; an error ends the fetch. Nil allocates.
	Buffer func(n int) ([]byte, error)
}

// FetchPartition is one partition to fetch.
type FetchPartition struct {
	TopicID storage.TopicID
	Log     *storage.Log
}

// Fetched is what a member got of a partition.
type Fetched struct {
	// Err: ErrNotInitialized, ErrNotAvailable, ErrNoOffset, or the log's.
	Err error
	// Records are whole batches, which may hold more than what was acquired. Outgrown says
	// how many bytes were read that Buffer had no room for, as a first batch that is larger
	// than the limits: they lie in memory of their own.
	Records  []byte
	Outgrown int
	Acquired []AcquiredRecords
}

// fetch is one Fetch under way.
type fetch struct {
	*FetchRequest
	st        *State
	isolation storage.Isolation
	out       []Fetched
	poked     chan struct{}
}

// Fetch acquires records for a member, as many as are wanted at most and available now,
// and waits for some when there are too few. The answers stand where the partitions do.
// The error is Buffer's; nothing is acquired then that is not answered, but locks of
// what was acquired before stay until they end. Kafka: SharePartitionManager.fetchMessages,
// DelayedShareFetch.
func (st *State) Fetch(ctx context.Context, r *FetchRequest) ([]Fetched, error) {
	f := &fetch{FetchRequest: r, st: st, out: make([]Fetched, len(r.Partitions)), poked: make(chan struct{}, 1)}
	if r.MaxRecords <= 0 || r.MaxBytes <= 0 || len(r.Partitions) == 0 {
		return f.out, nil
	}
	if st.o.Config.Group(r.Group).ReadCommitted {
		f.isolation = storage.ReadCommitted
	}
	failed := 0
	for i, p := range r.Partitions {
		if _, f.out[i].Err = st.take(f.key(i), p.Log); f.out[i].Err != nil {
			failed++
		}
	}
	if failed == len(f.out) {
		return f.out, nil
	}
	done, err := f.try(!st.o.Now().Before(r.Deadline))
	if !done && err == nil {
		err = f.wait(ctx)
	}
	return f.out, err
}

func (f *fetch) key(i int) Key {
	return Key{f.Group, f.Partitions[i].TopicID, f.Partitions[i].Log.Index()}
}

// wait tries again whenever something has changed, until there is an answer or the time
// is over. Who left gets nothing.
func (f *fetch) wait(ctx context.Context) error {
	for i, p := range f.Partitions {
		defer p.Log.Watch(f.poked)()
		defer f.st.watch(f.key(i), f.poked)()
	}
	select {
	case <-f.Hurry: // meant for an earlier request
	default:
	}
	timer := time.NewTimer(f.Deadline.Sub(f.st.o.Now()))
	defer timer.Stop()
	for last := false; ; {
		if done, err := f.try(last); done || last || err != nil {
			return err
		}
		select {
		case <-f.poked:
		case <-ctx.Done():
			return nil
		case <-f.st.topic.Life().Done():
			return nil
		case <-f.Hurry:
			last = true
		case <-timer.C:
			left := f.Deadline.Sub(f.st.o.Now())
			last = left <= 0
			timer.Reset(max(left, 0))
		}
	}
}

// try acquires what there is, when that is enough or must be. Kafka:
// DelayedShareFetch.tryComplete and onComplete.
func (f *fetch) try(must bool) (done bool, err error) {
	if !must && !f.enough() {
		return false, nil
	}
	tries, n := f.reserve(false)
	if n == 0 {
		return must, nil
	}
	defer func() {
		for _, a := range tries {
			if a != nil {
				a.finish(nil)
			}
		}
	}()
	records, bytes, extra := f.MaxRecords, 0, f.MaxBytes%n
	for i, a := range tries {
		if a == nil {
			continue
		}
		tries[i] = nil
		got, err := f.read(i, a, f.MaxBytes/n+extra, records, bytes == 0)
		if err != nil {
			return true, err
		}
		records, bytes, extra = records-got, bytes+len(f.out[i].Records), 0
	}
	return true, nil
}

// reserve begins an attempt for each partition that has something, n of them.
func (f *fetch) reserve(look bool) (tries []*attempt, n int) {
	tries = make([]*attempt, len(f.out))
	for i := range tries {
		if f.out[i].Err != nil {
			continue
		}
		if tries[i] = f.st.reserve(f.key(i), look); tries[i] != nil {
			n++
		}
	}
	return tries, n
}

// enough reports whether the minimum of bytes can be read, or there is an error to tell.
// Kafka: DelayedShareFetch.isMinBytesSatisfied.
func (f *fetch) enough() bool {
	tries, n := f.reserve(true)
	sum := 0
	for i, a := range tries {
		if a == nil {
			continue
		}
		bytes, err := f.Partitions[i].Log.Readable(a.offset, f.isolation, f.MaxBytes/n)
		if err != nil {
			return true
		}
		sum += bytes
	}
	return n > 0 && sum >= f.MinBytes
}

// read reads for an attempt, acquires, and returns how many records. first: nothing has
// been read for the answer yet. The error is Buffer's. Kafka: ShareFetchUtils.processFetchResponse.
func (f *fetch) read(i int, a *attempt, limit, records int, first bool) (n int, err error) {
	out := &f.out[i]
	data, room, q, err := f.readLog(i, a.offset, limit, first)
	switch {
	case errors.Is(err, errBuffer):
		a.finish(nil)
		return 0, err
	case errors.Is(err, storage.ErrOffsetOutOfRange):
		offsets, err := f.Partitions[i].Log.Offsets()
		out.Err = err
		a.finish(func(_ time.Time, p *Partition) { p.LogStarts(offsets.LogStart) })
		return 0, nil
	case err != nil:
		out.Err = err
		a.finish(nil)
		return 0, nil
	}
	q.Member, q.RecordLimit, q.BatchSize, q.MaxRecords = f.Member, f.RecordLimit, f.BatchSize, records
	a.finish(func(now time.Time, p *Partition) { out.Acquired = p.Acquire(now, q) })
	out.Records = cut(data, out.Acquired)
	if len(data) > room && len(out.Records) > 0 {
		out.Outgrown = len(data)
	}
	for _, r := range out.Acquired {
		n += int(r.size())
	}
	return n, nil
}

// errBuffer marks an error of Buffer.
var errBuffer = errors.New("no memory for records")

// readLog reads from an offset and says what there was, and how much of it Buffer had
// room for.
func (f *fetch) readLog(i int, offset int64, limit int, first bool) (data []byte, room int, q *Acquisition, err error) {
	log := f.Partitions[i].Log
	var dst []byte
	if f.Buffer != nil {
		size, err := log.Readable(offset, f.isolation, max(1, limit))
		if err != nil {
			return nil, 0, nil, err
		}
		if dst, err = f.Buffer(min(size, limit)); err != nil {
			return nil, 0, nil, fmt.Errorf("%w: %w", errBuffer, err)
		}
		limit = min(limit, cap(dst))
	}
	room = cap(dst)
	res, err := log.Read(dst, storage.ReadRequest{Offset: offset, MaxBytes: limit, Isolation: f.isolation, MinOneBatch: first})
	if err != nil {
		return nil, 0, nil, err
	}
	q = &Acquisition{Offset: offset}
	return res.Data, room, q, q.describe(&res)
}

// describe says what was read.
func (q *Acquisition) describe(res *storage.ReadResult) error {
	for rest := res.Data; len(rest) > 0; {
		b, after, err := record.Cut(rest)
		if err != nil {
			return err
		}
		e := Extent{b.BaseOffset(), b.LastOffset()}
		q.Batches = append(q.Batches, e)
		if b.Transactional() && !b.Control() {
			for _, t := range res.Aborted {
				if t.ProducerID == b.ProducerID() && t.FirstOffset <= e.First && e.Last < t.LastOffset {
					q.Aborted = append(q.Aborted, e)
					break
				}
			}
		}
		rest = after
	}
	return nil
}

// cut returns the batches that hold what was acquired. Kafka:
// ShareFetchUtils.maybeSliceFetchRecords.
func cut(data []byte, acquired []AcquiredRecords) []byte {
	if len(acquired) == 0 {
		return nil
	}
	first, last := acquired[0].First, acquired[len(acquired)-1].Last
	from, to := 0, 0
	for at := 0; at < len(data); {
		b, _, err := record.Cut(data[at:])
		if err != nil {
			break // described before
		}
		if b.LastOffset() < first {
			from = at + b.Size()
		}
		if b.BaseOffset() <= last {
			to = at + b.Size()
		}
		at += b.Size()
	}
	return data[from:to]
}
