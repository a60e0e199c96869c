package wire

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kaen-log/gateway/storage"
)

// fetchSessionEvictAfter is how long a session must be unused before any other may take its place, and how old it
// must be before a larger one may. Kafka: KafkaBroker.MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS.
const fetchSessionEvictAfter = 120 * time.Second

// maxSessionPartitions is how many partitions all sessions may have together, which is about 200 MB. A request names
// as many as fit into its frame, whether they exist or not.
const maxSessionPartitions = 1 << 20

// Session epochs with a meaning of their own. Kafka: FetchMetadata.
const (
	fetchEpochInitial = 0  // full fetch, asks for a new session
	fetchEpochFinal   = -1 // full fetch, wants no session
)

// fetchSessions is the cache of incremental fetch sessions (KIP-227): the partitions a consumer reads are kept here,
// so that its requests name only what changes and its answers only what is new. It is a state machine: no lock,
// clock or I/O; the server guards it with one mutex.
//
// A fetch calls begin, reads what begin returned, and calls finish. Between the two another connection may use the
// same session; finish finds that out by the epoch.
//
// Kafka: FetchManager.newContext, FetchSession, FetchSessionCacheShard. Differs from Kafka: one cache instead of
// eight shards, so the slots are one number for all; and the partitions of all sessions are bounded: beyond that no
// session is made, as when there is no slot, and one that grows is dropped, so that its client begins anew.
type fetchSessions struct {
	slots    int          // sessions at most; max.incremental.fetch.session.cache.slots
	room     int64        // partitions at most, in all sessions
	randomID func() int32 // a positive number; asked again while the id is taken
	byID     map[int32]*fetchSession

	// oldest and newest are the ends of the list by last use.
	oldest, newest *fetchSession

	partitions int64 // in all sessions, as of their last use
	evictions  int64 // sessions that made room for others
}

// fetchSession is the state of one session.
type fetchSession struct {
	id      int32
	epoch   int32 // what the next request must carry
	byTopic bool  // created by a request with topic ids (v13 on)

	created, lastUsed time.Time
	// Of the last use, as Kafka keeps them: how many partitions it had, and whether it was old enough to make room
	// for a larger session.
	size      int
	evictable bool

	partitions  map[fetchKey]*sessionPartition
	first, last *sessionPartition // in the order they are read

	older, newer *fetchSession
}

// sessionPartition is a partition in a session: what to read and what the consumer was last told.
type sessionPartition struct {
	key  fetchKey
	want fetchWant
	// topicName is what the topic's id stood for when it was last found, which may have been before the topic was
	// deleted; "" in a session of names and before it was found.
	topicName string

	highWatermark int64
	logStart      int64

	gone          bool // dropped from the session
	before, after *sessionPartition
}

// fetchKey names a partition as a request does: by topic id from v13 on, by topic name before.
type fetchKey struct {
	topic     string
	id        storage.TopicID
	partition int32
}

// fetchWant is what a request says of one partition.
type fetchWant struct {
	offset           int64
	maxBytes         int32
	leaderEpoch      int32 // the epoch the client believes in; -1 when it does not say
	lastFetchedEpoch int32 // of the last record it has; -1 when it does not say, as consumers do
}

// fetchContext says what kind of fetch a request is. It lives from begin to finish.
type fetchContext struct {
	code      int16         // an error of the session: nothing is read
	create    bool          // finish tries to make a session
	byTopic   bool          // of the session to make
	session   *fetchSession // incremental
	nextEpoch int32         // what the session's epoch must still be at finish
}

func newFetchSessions(slots int) *fetchSessions {
	return &fetchSessions{
		slots:    slots,
		room:     maxSessionPartitions,
		randomID: func() int32 { return 1 + rand.Int32N(math.MaxInt32) },
		byID:     make(map[int32]*fetchSession),
	}
}

// begin takes a request into account. asked are its partitions without repetitions, forget those it drops from the
// session, byTopic is true when they carry topic ids. It returns the partitions to read, in order; the slice reuses
// asked.
func (c *fetchSessions) begin(now time.Time, id, epoch int32, byTopic bool, asked []fetchPartition, forget []fetchKey) (fetchContext, []fetchPartition) {
	if epoch == fetchEpochInitial || epoch == fetchEpochFinal {
		if s := c.byID[id]; s != nil { // a full fetch closes the session it names
			c.remove(s)
		}
		return fetchContext{create: epoch == fetchEpochInitial, byTopic: byTopic}, asked
	}
	s := c.byID[id]
	switch {
	case s == nil:
		return fetchContext{code: kerr.FetchSessionIDNotFound.Code}, nil
	case s.epoch != epoch:
		return fetchContext{code: kerr.InvalidFetchSessionEpoch.Code}, nil
	case s.byTopic != byTopic:
		return fetchContext{code: kerr.FetchSessionTopicIDError.Code}, nil
	}
	for i := range asked {
		if p := s.partitions[asked[i].key]; p != nil {
			p.want = asked[i].want
		} else {
			s.add(&sessionPartition{key: asked[i].key, want: asked[i].want, highWatermark: -1, logStart: -1})
		}
	}
	for _, k := range forget {
		if p := s.partitions[k]; p != nil {
			s.unlink(p)
			delete(s.partitions, k)
			p.gone = true
		}
	}
	if len(s.partitions) == 0 {
		c.remove(s)
		return fetchContext{}, asked
	}
	c.touch(s, now)
	if c.partitions > c.room && len(asked) > 0 {
		c.remove(s)
		return fetchContext{code: kerr.FetchSessionIDNotFound.Code}, nil
	}
	s.epoch = nextFetchEpoch(s.epoch)
	all := asked[:0]
	for p := s.first; p != nil; p = p.after {
		all = append(all, fetchPartition{key: p.key, want: p.want, inSession: p, topicName: p.topicName})
	}
	if len(all) < len(asked) {
		clear(asked[len(all):])
	}
	return fetchContext{session: s, nextEpoch: s.epoch}, all
}

// finish takes the outcome of the read into account. It returns the session id for the answer and an error of the
// whole answer, with which no partition is sent; and it marks the partitions that the answer leaves out.
func (c *fetchSessions) finish(now time.Time, x fetchContext, read []fetchPartition) (id int32, code int16) {
	switch {
	case x.code != 0:
		return 0, x.code
	case x.session != nil:
		s := x.session
		if s.epoch != x.nextEpoch {
			return s.id, kerr.InvalidFetchSessionEpoch.Code
		}
		for i := range read {
			p := &read[i]
			p.inSession.topicName = p.topicName
			if p.inSession.gone || !p.inSession.mustSend(p) {
				p.omit = true
			} else if len(p.records) > 0 { // fairness: who had data waits for the others
				s.unlink(p.inSession)
				s.link(p.inSession)
			}
		}
		return s.id, 0
	case x.create:
		return c.create(now, x.byTopic, read), 0
	}
	return 0, 0
}

// hasNews reports whether an incremental answer must name the partition.
// Kafka: FetchSession.CachedPartition.maybeUpdateResponseData.
func (s *sessionPartition) hasNews(p *fetchPartition) bool {
	return len(p.records) > 0 || p.code != 0 || p.divergingEpoch >= 0 ||
		s.highWatermark != p.highWatermark || s.logStart != p.logStart
}

// mustSend is hasNews, and remembers what the answer tells.
func (s *sessionPartition) mustSend(p *fetchPartition) bool {
	send := s.hasNews(p)
	s.highWatermark, s.logStart = p.highWatermark, p.logStart
	if p.code != 0 {
		s.highWatermark = -1 // so that the partition is sent again when the error is gone
	}
	return send
}

// create makes a session of the partitions of a full fetch and returns its id; 0 when there is no room.
func (c *fetchSessions) create(now time.Time, byTopic bool, read []fetchPartition) int32 {
	for len(c.byID) >= c.slots || c.partitions+int64(len(read)) > c.room {
		if !c.evict(now, len(read)) {
			return 0
		}
	}
	s := &fetchSession{
		epoch: nextFetchEpoch(fetchEpochInitial), byTopic: byTopic, created: now,
		partitions: make(map[fetchKey]*sessionPartition, len(read)),
	}
	for s.id == 0 || c.byID[s.id] != nil {
		s.id = c.randomID()
	}
	for i := range read {
		p := &read[i]
		s.add(&sessionPartition{key: p.key, want: p.want, topicName: p.topicName, highWatermark: p.highWatermark, logStart: p.logStart})
	}
	c.byID[s.id] = s
	c.linkSession(s)
	c.touch(s, now)
	return s.id
}

// evict makes room for a session of size partitions: the one unused for longest if that is long enough, else the
// smallest of those that are old enough and smaller than the new one.
func (c *fetchSessions) evict(now time.Time, size int) bool {
	victim := c.oldest
	if victim == nil {
		return false
	}
	if now.Sub(victim.lastUsed) <= fetchSessionEvictAfter {
		victim = nil
		for s := c.oldest; s != nil; s = s.newer {
			if !s.evictable || s.size >= size {
				continue
			}
			if victim == nil || s.size < victim.size || s.size == victim.size && s.id < victim.id {
				victim = s
			}
		}
		if victim == nil {
			return false
		}
	}
	c.remove(victim)
	c.evictions++
	return true
}

// touch records a use.
func (c *fetchSessions) touch(s *fetchSession, now time.Time) {
	s.lastUsed = now
	c.partitions += int64(len(s.partitions) - s.size)
	s.size = len(s.partitions)
	s.evictable = now.Sub(s.created) > fetchSessionEvictAfter
	c.unlinkSession(s)
	c.linkSession(s)
}

func (c *fetchSessions) remove(s *fetchSession) {
	delete(c.byID, s.id)
	c.unlinkSession(s)
	c.partitions -= int64(s.size)
}

// nextFetchEpoch is the epoch after e; it never becomes one of the special values.
func nextFetchEpoch(e int32) int32 {
	if e == math.MaxInt32 {
		return 1
	}
	return e + 1
}

// add appends a partition that the session does not have yet.
func (s *fetchSession) add(p *sessionPartition) {
	s.partitions[p.key] = p
	s.link(p)
}

func (s *fetchSession) link(p *sessionPartition) {
	p.before, p.after = s.last, nil
	if s.last != nil {
		s.last.after = p
	} else {
		s.first = p
	}
	s.last = p
}

func (s *fetchSession) unlink(p *sessionPartition) {
	if p.before != nil {
		p.before.after = p.after
	} else {
		s.first = p.after
	}
	if p.after != nil {
		p.after.before = p.before
	} else {
		s.last = p.before
	}
	p.before, p.after = nil, nil
}

func (c *fetchSessions) linkSession(s *fetchSession) {
	s.older, s.newer = c.newest, nil
	if c.newest != nil {
		c.newest.newer = s
	} else {
		c.oldest = s
	}
	c.newest = s
}

func (c *fetchSessions) unlinkSession(s *fetchSession) {
	if s.older != nil {
		s.older.newer = s.newer
	} else {
		c.oldest = s.newer
	}
	if s.newer != nil {
		s.newer.older = s.older
	} else {
		c.newest = s.older
	}
	s.older, s.newer = nil, nil
}
