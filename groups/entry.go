package groups

import (
	"time"

	"github.com/kaen-log/gateway/storage"
)

// entry is one group of a shard: what it has committed, its membership, and what
// waits for it.
type entry struct {
	id string
	// offsets are what the group has committed; nil when there is nothing.
	offsets map[offsetKey]stored
	// unstable are the producers whose open transactions would change an offset. Kafka:
	// OffsetMetadataManager.openTransactions.
	unstable map[offsetKey][]int64
	// machine is the group's membership. Nil is a simple group, which only has
	// offsets; Kafka calls it an empty classic group without a protocol type.
	machine machine
	// simple is set once the group has had offsets without a membership: it is known
	// without them too, until it is deleted or the next sweep finds nothing in it.
	simple bool

	// busy is set while a step is on its way to the disk, commits counts the commits
	// that are: other calls pass those by, unless they are exclusive.
	busy    bool
	commits int
	queue   []waiting // the calls and deadlines that wait, in order

	wake   time.Time // when the owner looks at the deadline; not after machine.next(), zero for never
	place  int       // in the heap of deadlines, -1 when it is not there
	failed time.Time // no deadline is looked at before, since the disk failed; zero when it did not
}

// waiting is a call or a deadline that is to be run for a group.
type waiting struct {
	// run is called under the shard's lock; e is nil when there is no such group.
	run func(now time.Time, s *shard, e *entry) step
	// exclusive calls wait for commits too: those that remove offsets.
	exclusive bool
}

// may says whether w may run now, as far as what is on its way to the disk is concerned.
func (e *entry) may(w waiting) bool {
	return !e.busy && (!w.exclusive || e.commits == 0)
}

// empty says whether the group holds nothing and nothing waits for it.
func (e *entry) empty() bool {
	return e.known() == nil && !e.busy && len(e.queue) == 0
}

// known returns e, or nil when the group does not exist: the entry may be there for
// what waits only. A commit on its way makes a group.
func (e *entry) known() *entry {
	if e == nil || (e.machine == nil && !e.simple && len(e.offsets) == 0 && len(e.unstable) == 0 && e.commits == 0) {
		return nil
	}
	return e
}

// classic returns the entry's classic group; nil when there is none.
func (e *entry) classic() *classicGroup {
	if e == nil {
		return nil
	}
	g, _ := e.machine.(*classicGroup)
	return g
}

// consumer returns the entry's consumer group; nil when there is none.
func (e *entry) consumer() *consumerGroup {
	if e == nil {
		return nil
	}
	g, _ := e.machine.(*consumerGroup)
	return g
}

// share returns the entry's share group; nil when there is none.
func (e *entry) share() *shareGroup {
	if e == nil {
		return nil
	}
	g, _ := e.machine.(*shareGroup)
	return g
}

// stored is a committed offset and where in the log its record is.
type stored struct {
	Offset
	recordOffset int64
}

// lookup returns a committed offset. A topic id that differs from the one the
// offset was committed for finds nothing: the topic was made anew. Kafka:
// OffsetMetadataManager.isOffsetInvalid.
func (e *entry) lookup(k offsetKey, topicID storage.TopicID) (o Offset, unstable, ok bool) {
	if e == nil {
		return Offset{}, false, false
	}
	unstable = len(e.unstable[k]) > 0
	st, ok := e.offsets[k]
	if !ok || (!topicID.IsZero() && !st.TopicID.IsZero() && st.TopicID != topicID) {
		return Offset{}, unstable, false
	}
	return st.Offset, unstable, true
}
