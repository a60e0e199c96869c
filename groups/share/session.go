package share

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/kaen-log/gateway/storage"
)

// A member fetches and acknowledges within a session: the broker knows the partitions
// that it wants, and requests say what has changed. Each counts one epoch up from the
// last. Kafka: ShareSession, ShareSessionCache, SharePartitionManager.newContext.

// TopicPartition is a partition that a session wants.
type TopicPartition struct {
	TopicID   storage.TopicID
	Partition int32
	Topic     string // as it was when it came into the session; "" when there was none
}

// Epochs with a meaning.
const (
	EpochOpen  = 0  // begins a session
	EpochClose = -1 // ends it
)

// MaxSessionPartitions is how many partitions all sessions may want together, which is
// about 130 MB. A request names as many as fit into its frame, whether they exist or not.
const MaxSessionPartitions = 1 << 20

// sessions are those of all groups. Only room need be set. Differs from Kafka: the
// partitions of all sessions are bounded.
type sessions struct {
	room   int // partitions at most, of all sessions
	mu     sync.Mutex
	wanted int                     // guarded by mu; partitions of all sessions
	by     map[sessionKey]*session // guarded by mu
	byConn map[any]*session        // guarded by mu; the last that each connection began
	groups map[string]int          // guarded by mu; sessions of each group
}

type sessionKey struct{ group, member string }

// session is guarded by sessions.mu.
type session struct {
	of    *sessions
	key   sessionKey
	conn  any
	epoch int32 // of the next request
	wants map[partitionKey]*wanted
	turns uint64 // counts the turns that were given
	gone  bool
}

// partitionKey is a partition of a session.
type partitionKey struct {
	topic     storage.TopicID
	partition int32
}

func (p TopicPartition) key() partitionKey { return partitionKey{p.TopicID, p.Partition} }

// wanted is a partition of a session; those with a lower turn come first. One without
// records and errors is only told of when it must be: at first, and after an error.
type wanted struct {
	TopicPartition
	turn uint64
	tell bool
}

func nextEpoch(epoch int32) int32 {
	if epoch == math.MaxInt32 {
		return 1
	}
	return epoch + 1
}

// OpenSession begins a session of a member on a connection, which any comparable value
// stands for; one that it has is forgotten. Errors: ErrSessionLimit.
func (st *State) OpenSession(group, member string, conn any, list []TopicPartition) error {
	x := &st.sessions
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.by == nil {
		x.by, x.byConn, x.groups = make(map[sessionKey]*session), make(map[any]*session), make(map[string]int)
	}
	k := sessionKey{group, member}
	x.drop(k)
	if len(x.by) >= st.o.Config.MaxSessions {
		return fmt.Errorf("%d share sessions are open: %w", len(x.by), ErrSessionLimit)
	}
	if err := x.fits(len(list)); err != nil {
		return err
	}
	s := &session{of: x, key: k, conn: conn, epoch: nextEpoch(EpochOpen), wants: make(map[partitionKey]*wanted, len(list))}
	for _, p := range list {
		s.want(p, false)
	}
	x.by[k], x.byConn[conn] = s, s
	x.groups[group]++
	return nil
}

// fits says why so many more partitions may not be wanted. Caller holds mu.
func (x *sessions) fits(more int) error {
	if x.wanted+more > x.room {
		return fmt.Errorf("%d partitions more in share sessions that have %d, of %d at most: %w", more, x.wanted, x.room, ErrSessionLimit)
	}
	return nil
}

// want adds a partition, behind the others, unless it is there.
func (s *session) want(p TopicPartition, tell bool) {
	if s.wants[p.key()] == nil {
		s.wants[p.key()] = &wanted{TopicPartition: p, turn: s.nextTurn(), tell: tell}
		s.of.wanted++
	}
}

// nextTurn is behind all others.
func (s *session) nextTurn() uint64 {
	s.turns++
	return s.turns
}

// list returns the partitions in the order of their turns.
func (s *session) list() []TopicPartition {
	all := slices.SortedFunc(maps.Values(s.wants), func(a, b *wanted) int { return cmp.Compare(a.turn, b.turn) })
	out := make([]TopicPartition, len(all))
	for i, w := range all {
		out[i] = w.TopicPartition
	}
	return out
}

// drop forgets a session. Caller holds mu.
func (x *sessions) drop(k sessionKey) *session {
	s := x.by[k]
	if s == nil {
		return nil
	}
	x.wanted -= len(s.wants)
	s.gone, s.wants = true, nil // its connection keeps it
	delete(x.by, k)
	if x.groups[k.group]--; x.groups[k.group] == 0 {
		delete(x.groups, k.group)
	}
	return s
}

func (x *sessions) remove(k sessionKey) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(k)
}

// at returns a session when its next request has the epoch. Caller holds mu.
func (x *sessions) at(group, member string, epoch int32) (*session, error) {
	s := x.by[sessionKey{group, member}]
	switch {
	case s == nil:
		return nil, fmt.Errorf("member %q of group %q: %w", member, group, ErrSessionNotFound)
	case epoch != EpochClose && s.epoch != epoch:
		return nil, fmt.Errorf("epoch %d, want %d: %w", epoch, s.epoch, ErrSessionEpoch)
	}
	return s, nil
}

// UseSession counts a fetch in a session, adds and forgets partitions, and returns
// those that the session then wants; with EpochClose none. Errors: ErrSessionNotFound,
// ErrSessionEpoch; ErrSessionLimit, which leaves the session as it was.
func (st *State) UseSession(group, member string, epoch int32, add, forget []TopicPartition) ([]TopicPartition, error) {
	x := &st.sessions
	x.mu.Lock()
	defer x.mu.Unlock()
	s, err := x.at(group, member, epoch)
	if err != nil || epoch == EpochClose {
		return nil, err
	}
	more := 0
	for _, p := range add {
		if s.wants[p.key()] == nil {
			more++
		}
	}
	if more > 0 {
		if err := x.fits(more); err != nil {
			return nil, err
		}
	}
	for _, p := range add {
		s.want(p, true)
	}
	for _, p := range forget {
		if s.wants[p.key()] != nil {
			delete(s.wants, p.key())
			x.wanted--
		}
	}
	s.epoch = nextEpoch(epoch)
	return s.list(), nil
}

// StepSession counts an acknowledgement in a session. Errors: ErrSessionNotFound,
// ErrSessionEpoch. Kafka: SharePartitionManager.acknowledgeSessionUpdate.
func (st *State) StepSession(group, member string, epoch int32) error {
	if epoch == EpochOpen {
		return fmt.Errorf("a session begins with a fetch: %w", ErrSessionEpoch)
	}
	x := &st.sessions
	x.mu.Lock()
	defer x.mu.Unlock()
	s, err := x.at(group, member, epoch)
	if err == nil && epoch != EpochClose {
		s.epoch = nextEpoch(epoch)
	}
	return err
}

// Told is what a fetch found of a partition.
type Told struct {
	TopicPartition
	Records, Failed bool
}

// TellSession returns which of the partitions the answer to a fetch of an epoch after
// the first must name: those with records or errors, and those that are new or had an
// error before. Errors: ErrSessionEpoch when there were other requests meanwhile. Kafka:
// ShareSessionContext.updateAndGenerateResponseData, CachedSharePartition.
func (st *State) TellSession(group, member string, epoch int32, found []Told) ([]bool, error) {
	x := &st.sessions
	x.mu.Lock()
	defer x.mu.Unlock()
	s, err := x.at(group, member, nextEpoch(epoch))
	if err != nil {
		return nil, fmt.Errorf("session of epoch %d: %w: %w", epoch, ErrSessionEpoch, err)
	}
	must := make([]bool, len(found))
	for i, f := range found {
		w := s.wants[f.key()]
		must[i] = f.Records || f.Failed
		if w == nil {
			continue
		}
		must[i] = must[i] || w.tell
		w.tell = f.Failed
		if f.Records { // the others come first the next time
			w.turn = s.nextTurn()
		}
	}
	return must, nil
}

// CloseSession ends a session and gives back what the member holds. Errors:
// ErrSessionNotFound. Kafka: SharePartitionManager.releaseSession.
func (st *State) CloseSession(group, member string) error {
	st.sessions.mu.Lock()
	s := st.sessions.drop(sessionKey{group, member})
	st.sessions.mu.Unlock()
	if s == nil {
		return fmt.Errorf("member %q of group %q: %w", member, group, ErrSessionNotFound)
	}
	st.Leave(group, member)
	return nil
}

// Disconnected ends the session that a connection began last, as CloseSession does.
// When the group has no other, it is forgotten who has which records. Kafka:
// ShareSessionCache.ClientConnectionDisconnectListener.
func (st *State) Disconnected(conn any) {
	x := &st.sessions
	x.mu.Lock()
	s := x.byConn[conn]
	delete(x.byConn, conn)
	if s == nil {
		x.mu.Unlock()
		return
	}
	gone := s.gone
	if !gone {
		x.drop(s.key)
	}
	last := x.groups[s.key.group] == 0
	x.mu.Unlock()
	if !gone {
		st.Leave(s.key.group, s.key.member)
	}
	if last {
		st.abandon(s.key.group)
	}
}
