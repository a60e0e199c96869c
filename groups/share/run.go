package share

import (
	"slices"
	"sort"
	"time"
)

// RecordState is what became of a record. The numbers are what is stored.
type RecordState int8

// The states. Kafka: RecordState. A record that is Acquired is stored as it was before.
const (
	Available    RecordState = 0
	Acquired     RecordState = 1
	Acknowledged RecordState = 2
	archiving    RecordState = 3 // on its way to Kafka's dead letter queue; read as Archived
	Archived     RecordState = 4
)

func (s RecordState) String() string {
	switch s {
	case Available:
		return "available"
	case Acquired:
		return "acquired"
	case Acknowledged:
		return "acknowledged"
	}
	return "archived"
}

// terminal reports whether nothing happens to the record any more.
func (s RecordState) terminal() bool { return s == Acknowledged || s == Archived }

// Extent is the offsets from First to Last, both included.
type Extent struct{ First, Last int64 }

func (e Extent) size() int64 { return e.Last - e.First + 1 }

// run is neighbouring records with the same state.
type run struct {
	Extent
	state      RecordState
	deliveries int16     // how often they were handed out
	owner      string    // member that acquired them
	deadline   time.Time // when the owner loses them
	// of is what was first acquired at once, of which the run is a part; such parts
	// are acquired again together.
	of Extent
	// gap marks records that the stored state says nothing of, though later ones were
	// delivered: nobody knows whether they exist, so they are acquired like new ones.
	gap bool
	// change is what is on its way to the disk, nil without; the records become then
	// what next says.
	change *Change
	next   RecordState
}

// free reports whether the records may be acquired.
func (r *run) free() bool { return r.state == Available && r.change == nil }

// runs are in the order of their offsets and do not overlap; between two may be
// offsets without records.
type runs []run

// find returns the index of the first run that ends at offset or later.
func (rs runs) find(offset int64) int {
	return sort.Search(len(rs), func(i int) bool { return rs[i].Last >= offset })
}

// cut makes offset the first of a run when it lies within one, and returns the index
// of the first run that begins there or later.
func (rs *runs) cut(offset int64) int {
	i := rs.find(offset)
	if i == len(*rs) || (*rs)[i].First >= offset {
		return i
	}
	head := (*rs)[i]
	head.Last = offset - 1
	(*rs)[i].First = offset
	*rs = slices.Insert(*rs, i, head)
	return i + 1
}

// span returns the runs [i, j) that e consists of, cut so that they do not reach over
// its ends.
func (rs *runs) span(e Extent) (i, j int) {
	i = rs.cut(e.First)
	return i, rs.cut(e.Last + 1)
}

// replace puts new runs where e is.
func (rs *runs) replace(e Extent, with ...run) {
	i, j := rs.span(e)
	*rs = slices.Replace(*rs, i, j, with...)
}

// merge joins neighbours that are the same.
func (rs *runs) merge() {
	out := (*rs)[:0]
	for _, r := range *rs {
		if n := len(out); n > 0 && out[n-1].Last+1 == r.First {
			if joined := (Extent{out[n-1].First, r.Last}); out[n-1].as(joined) == r.as(joined) {
				out[n-1].Last = r.Last
				continue
			}
		}
		out = append(out, r)
	}
	clear((*rs)[len(out):])
	*rs = out
}

// as returns the run with another extent.
func (r run) as(e Extent) run {
	r.Extent = e
	return r
}
