package groups

import (
	"time"

	"github.com/kaen-log/gateway/storage"
)

// Kind is the type of a group, as ListGroups names it.
type Kind string

// The kinds of groups.
const (
	KindClassic  Kind = "classic"
	KindConsumer Kind = "consumer" // KIP-848
	KindShare    Kind = "share"    // KIP-932
)

// step is what a call or a deadline makes of a group. A step without records has
// taken effect when it is returned, and then may be nil. A step with records has
// changed nothing yet: they are appended as one batch, the group is busy until that
// batch is durable or failed, and then is told: it makes the effects and the
// answers, or, when err is not nil, only the answers. While a group is busy, calls
// and deadlines that concern it wait in order; reads see what is durable. So nothing
// ever has to be undone.
type step struct {
	records []logRecord
	then    func(now time.Time, err error) step
	// commit is set for a step that only stores offsets: it does not make the group busy.
	commit bool
	// txn is the transaction that the records are part of; nil for none.
	txn *transaction
}

// transaction is that of a producer, in one partition of __consumer_offsets.
type transaction struct {
	producerID int64
	epoch      int16
	// verification says that the transaction coordinator knows of it; see storage.Log.StartVerification.
	verification *storage.Verification
	unverified   bool
}

// finish tells a step what became of its records.
func (s step) finish(now time.Time, err error) step {
	if s.then == nil {
		return step{}
	}
	return s.then(now, err)
}

// logRecord is a record of __consumer_offsets; a nil value is a tombstone.
type logRecord struct{ key, value []byte }

// machine is the membership of one group. It is pure: no lock, goroutine, clock or
// I/O. Three kinds implement it.
type machine interface {
	kind() Kind
	// state is the group's state by its name on the wire.
	state() string
	// protocolType is what members agreed on: consumer, connect, …; "" without.
	protocolType() string
	// next is the earliest deadline; zero when there is none. A heartbeat may move it
	// later without anybody being told.
	next() time.Time
	// tick does what is due at now.
	tick(now time.Time) step
	// loaded is called once after the group's records were replayed.
	loaded(now time.Time) step
	// checkCommit says whether a commit may be stored, and counts as a sign of life of
	// its member. What it says concerns all commits of the request. refused holds, for
	// each, an error when it is refused alone: the machine need not look at it.
	checkCommit(now time.Time, r *CommitRequest, refused []error) error
	// checkFetch says whether a member, nil for nobody, may fetch offsets.
	checkFetch(memberID *string, memberEpoch int32) error
	// checkOffsetDelete says whether offsets may be deleted; subscribed, whether a
	// member consumes the topic.
	checkOffsetDelete() error
	subscribed(topic string) bool
	// checkDelete says whether the group may be deleted.
	checkDelete() error
	// tombstones are the records that remove the group's own records, without offsets.
	tombstones() []logRecord
	// expires says when an offset committed at commitMs for a topic expires by the
	// broker's retention; false when it does not.
	expires(topic string, commitMs int64, retention time.Duration) (time.Time, bool)
}

// topicView is what machines know of topics; its functions answer for the present.
type topicView struct {
	// version changes with every topic that is made, deleted or gets partitions.
	version func() uint64
	byName  func(name string) (topicInfo, bool)
	byID    func(id storage.TopicID) (topicInfo, bool)
	// names lists every topic in order, internal ones too.
	names func() []string
}

// ids returns the ids of the named topics that exist.
func (v topicView) ids(names []string) []storage.TopicID {
	var out []storage.TopicID
	for _, name := range names {
		if t, ok := v.byName(name); ok {
			out = append(out, t.id)
		}
	}
	return out
}

// topicInfo is one topic.
type topicInfo struct {
	name       string
	id         storage.TopicID
	partitions int32
}
