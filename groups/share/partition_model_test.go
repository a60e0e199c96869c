package share

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// model is what anybody outside can know of a partition: what was handed to whom, what
// was acknowledged and what is stored, offset by offset.
type model struct {
	t      *testing.T
	seed   uint64
	rand   *rand.Rand
	limits Limits
	now    time.Time
	p      *Partition
	log    []Extent // batches; gaps are between some
	holder map[int64]string
	until  map[int64]time.Time
	count  map[int64]int16 // deliveries
	done   map[int64]bool  // acknowledged or archived for good
	stored map[int64]Batch
	flying []*Change
	start  int64
}

// Random histories keep these rules: a record has one holder at a time, is delivered no
// more often than allowed and never after it was dealt with; the start never goes back;
// a restart forgets only deliveries; and in the end every record is dealt with.
func TestRandomHistoriesKeepTheRules(t *testing.T) {
	for seed := range uint64(300) {
		m := &model{
			t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 3)), now: time.UnixMilli(0),
			holder: map[int64]string{}, until: map[int64]time.Time{}, count: map[int64]int16{}, done: map[int64]bool{}, stored: map[int64]Batch{},
		}
		m.limits = Limits{MaxLocks: 20 + m.rand.IntN(100), MaxDeliveries: 2 + m.rand.IntN(5), Lock: time.Minute}
		for at := int64(0); at < 150; {
			b := Extent{at, at + m.rand.Int64N(12)}
			if at = b.Last + 1; m.rand.IntN(8) > 0 {
				m.log = append(m.log, b)
			}
		}
		m.load()
		for range 400 {
			m.step()
		}
		m.drain()
	}
}

// fail ends the test; the seed repeats it.
func (m *model) fail(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("seed %d: %s\nruns %+v", m.seed, fmt.Sprintf(format, args...), m.p.runs)
}

// load takes the partition up from what is stored.
func (m *model) load() {
	var list []Batch
	for o := m.start; o < 200; o++ {
		if b, ok := m.stored[o]; ok {
			list = append(list, b)
		}
	}
	m.p = NewPartition(m.start, list, func() Limits { return m.limits })
	m.flying = nil
	clear(m.holder)
	for o := range m.count {
		m.count[o] = m.stored[o].Deliveries
	}
	for o := range m.done {
		m.done[o] = m.stored[o].State.terminal()
	}
}

func (m *model) member() string { return string(rune('a' + m.rand.IntN(3))) }

// step does something at random.
func (m *model) step() {
	switch m.rand.IntN(12) {
	case 0, 1, 2, 3:
		m.fetch(m.member(), 1+m.rand.IntN(30))
	case 4, 5, 6:
		m.acknowledge(m.member())
	case 7:
		m.write(m.p.Release(m.member()))
	case 8:
		m.now = m.now.Add(time.Duration(m.rand.IntN(40)) * time.Second)
		m.write(m.p.Tick(m.now))
		if next := m.p.Next(); !next.IsZero() && !next.After(m.now) {
			m.fail("a deadline at %v is left after a tick at %v", next, m.now)
		}
	case 9, 10:
		m.finish(m.rand.IntN(8) > 0)
	case 11:
		if m.rand.IntN(20) == 0 {
			m.load()
		}
	}
	m.check()
}

func (m *model) fetch(member string, most int) {
	if !m.p.CanAcquire() {
		return
	}
	q := &Acquisition{Member: member, RecordLimit: m.rand.IntN(3) == 0, BatchSize: m.rand.IntN(10), MaxRecords: most, Offset: m.p.NextFetch()}
	for _, b := range m.log {
		if b.Last >= q.Offset && len(q.Batches) < 5 {
			q.Batches = append(q.Batches, b)
		}
	}
	if len(q.Batches) == 0 {
		for o := q.Offset; o < m.p.end; o++ {
			m.done[o] = true // nothing is left there to read
		}
		return
	}
	var n int64
	for _, r := range m.p.Acquire(m.now, q) {
		for o := r.First; o <= r.Last; o++ {
			switch {
			case m.holder[o] != "":
				m.fail("offset %d went to %s while %s has it", o, member, m.holder[o])
			case m.done[o]:
				m.fail("offset %d was delivered after it was dealt with", o)
			case m.count[o]+1 != r.Deliveries || int(r.Deliveries) > m.limits.MaxDeliveries:
				m.fail("offset %d: delivery %d, want %d of at most %d", o, r.Deliveries, m.count[o]+1, m.limits.MaxDeliveries)
			}
			m.holder[o], m.until[o], m.count[o] = member, m.now.Add(m.limits.Lock), r.Deliveries
			n++
		}
	}
	if q.RecordLimit && n > int64(most) {
		m.fail("%d records for a limit of %d", n, most)
	}
}

// acknowledge says something of records that the member has, and perhaps of others.
func (m *model) acknowledge(member string) {
	first := m.start + m.rand.Int64N(m.p.end-m.p.start+1)
	a := Ack{Extent: Extent{first, first + m.rand.Int64N(4)}, Types: []AckType{AckType(m.rand.IntN(5))}}
	if m.rand.IntN(2) == 0 {
		a.Types = nil
		for range a.size() {
			a.Types = append(a.Types, AckType(m.rand.IntN(5)))
		}
	}
	want := true
	for o := a.First; o <= a.Last; o++ {
		want = want && (o < m.p.start || m.holder[o] == member && !m.pending(o))
	}
	c, err := m.p.Acknowledge(m.now, member, []Ack{a})
	if want && err != nil {
		m.fail("%s has %+v, and is refused: %v", member, a, err)
	}
	if !want && err == nil {
		for o := a.First; o <= a.Last; o++ {
			if i := m.p.runs.find(o); i < len(m.p.runs) && m.p.runs[i].First <= o && m.holder[o] != member && o >= m.p.start {
				m.fail("%s does not have offset %d of %+v, and is not refused", member, o, a)
			}
		}
	}
	m.write(c)
}

func (m *model) pending(o int64) bool {
	return slices.ContainsFunc(m.flying, func(c *Change) bool {
		return slices.ContainsFunc(c.Batches, func(b Batch) bool { return b.First <= o && o <= b.Last })
	})
}

func (m *model) write(c *Change) {
	if c == nil {
		return
	}
	for _, b := range c.Batches {
		for o := b.First; o <= b.Last; o++ {
			if m.holder[o] == "" || m.count[o] != b.Deliveries {
				m.fail("wrote %+v; offset %d is held by %q and was delivered %d times", b, o, m.holder[o], m.count[o])
			}
		}
	}
	m.flying = append(m.flying, c)
}

// finish stores the oldest change, or not.
func (m *model) finish(stored bool) {
	if len(m.flying) == 0 {
		return
	}
	c := m.flying[0]
	m.flying = m.flying[1:]
	for _, b := range c.Batches {
		for o := b.First; o <= b.Last; o++ {
			if stored {
				m.stored[o] = Batch{Extent{o, o}, b.State, b.Deliveries}
				m.start = max(m.start, c.Start)
			}
			if stored || c.anyway {
				m.holder[o] = ""
				m.done[o] = b.State.terminal()
			}
		}
	}
	m.p.Finish(c, stored)
}

// check looks at the partition itself.
func (m *model) check() {
	if m.p.start < m.start || m.p.end < m.p.start {
		m.fail("start %d and end %d, stored start %d", m.p.start, m.p.end, m.start)
	}
	at := m.p.start
	for _, r := range m.p.runs {
		if r.First < at || r.Last < r.First || r.Last >= m.p.end {
			m.fail("run %+v at %d, end %d", r, at, m.p.end)
		}
		for o := r.First; o <= r.Last; o++ {
			if (r.state == Acquired) != (m.holder[o] != "") || r.state == Acquired && r.owner != m.holder[o] {
				m.fail("offset %d is %v by %q, want held by %q", o, r.state, r.owner, m.holder[o])
			}
		}
		at = r.Last + 1
	}
}

// drain lets one member take and accept everything.
func (m *model) drain() {
	end := m.log[len(m.log)-1].Last + 1
	m.limits.MaxLocks = 1000
	for range 1000 {
		for len(m.flying) > 0 {
			m.finish(true)
		}
		if m.p.start >= end {
			return
		}
		m.now = m.now.Add(2 * time.Minute)
		m.write(m.p.Tick(m.now))
		for len(m.flying) > 0 {
			m.finish(true)
		}
		m.fetch("z", 50)
		var acks []Ack
		for _, r := range m.p.runs {
			if r.state == Acquired {
				acks = append(acks, Ack{r.Extent, []AckType{Accept}})
			}
		}
		c, err := m.p.Acknowledge(m.now, "z", acks)
		if err != nil {
			m.fail("last acknowledgement: %v", err)
		}
		m.write(c)
		m.check()
	}
	m.fail("start %d after all was accepted, want %d", m.p.start, end)
}
