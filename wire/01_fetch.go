package wire

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage"
)

// Fetch, key 1, versions 4 to 18.
//
//	v4  isolation level, aborted transactions
//	v5  log start offset
//	v6  KAFKA_STORAGE_ERROR; below it NOT_LEADER_OR_FOLLOWER is sent instead
//	v7  sessions (KIP-227), top-level error
//	v9  current leader epoch (KIP-320)
//	v10 zstd
//	v11 rack id, preferred read replica
//	v12 flexible, last fetched epoch
//	v13 topic ids (KIP-516)
//	v15 replica state (KIP-903)
//	v16 leader and its address for FENCED_LEADER_EPOCH (KIP-951)
//	v17 replica directory id; v18 replica's high watermark
//
// Kafka: KafkaApis.handleFetchRequest, ReplicaManager.fetchMessages and readFromLog, DelayedFetch, Partition.readRecords.
//
// Differs from Kafka: only whole batches are sent, where Kafka may cut the last one. Nobody is a follower here: a request
// with a replica id gets, for each partition, what Kafka answers to a replica that is not assigned. Replica -3, which
// Kafka lets read beyond the high watermark, is an ordinary consumer. There is no replica to prefer.

// fetchCall is the scratch of one Fetch. It is pooled: the slices keep their memory.
type fetchCall struct {
	s *Server
	r *request

	version   int16
	replica   int32
	isolation storage.Isolation
	maxBytes  int
	minBytes  int
	urgent    bool // a partition has an error for which nobody should wait, before any was read

	partitions []fetchPartition
	forget     []fetchKey
	seen       map[fetchKey]int

	// The records read so far, kept bytes of them, lie in bufs; the last one may have room.
	bufs []*buffer
	kept int
}

var fetchCalls = sync.Pool{New: func() any { return &fetchCall{seen: make(map[fetchKey]int)} }}

// fetchCache is the server's incremental fetch sessions and their lock. The zero value is ready to use.
type fetchCache struct {
	mu       sync.Mutex
	sessions *fetchSessions // made at the first use; guarded by mu
}

// all returns the sessions. mu is held.
func (c *fetchCache) all(config *BrokerConfig) *fetchSessions {
	if c.sessions == nil {
		c.sessions = newFetchSessions(int(config.Int("max.incremental.fetch.session.cache.slots")))
	}
	return c.sessions
}

// stats returns the number of sessions, of partitions in them, and of evictions.
func (c *fetchCache) stats() (sessions, partitions, evictions int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions == nil {
		return 0, 0, 0
	}
	return int64(len(c.sessions.byID)), c.sessions.partitions, c.sessions.evictions
}

// fetch answers a Fetch request. It may wait for records, as long as the request says.
func (s *Server) fetch(r *request, req *kmsg.FetchRequest) (*encoded, error) {
	f := fetchCalls.Get().(*fetchCall)
	defer f.recycle()
	f.s, f.r, f.version = s, r, req.Version
	f.replica = req.ReplicaID
	if req.Version >= 15 {
		f.replica = req.ReplicaState.ID
	}
	f.isolation = storage.ReadUncommitted
	switch req.IsolationLevel {
	case 0:
	case 1:
		f.isolation = storage.ReadCommitted
	default: // Kafka: IsolationLevel.forId throws
		f.collect(req)
		return f.refuse(req.SessionID, kerr.UnknownServerError), nil
	}
	f.maxBytes = min(int(req.MaxBytes), int(s.config.Int("fetch.max.bytes")))
	if n, ok := s.mostFetched(r); ok && f.replica < 0 {
		f.maxBytes = min(f.maxBytes, n)
	}
	f.minBytes = min(int(req.MinBytes), f.maxBytes)
	f.collect(req)
	req.Topics, req.ForgottenTopics = nil, nil // may be large, and the wait long

	now := s.now()
	s.fetches.mu.Lock()
	x, partitions := s.fetches.all(s.config).begin(now, req.SessionID, req.SessionEpoch, req.Version >= 13, f.partitions, f.forget)
	s.fetches.mu.Unlock()
	f.partitions = partitions

	n := f.resolve()
	if err := f.readOrWait(f.partitions[:n], now.Add(time.Duration(req.MaxWaitMillis)*time.Millisecond)); err != nil {
		f.release()
		return nil, err
	}

	if e := f.throttle(x); e != nil {
		return e, nil
	}
	resp := fetchResponse{partitions: f.partitions}
	s.fetches.mu.Lock()
	resp.sessionID, resp.code = s.fetches.all(s.config).finish(s.now(), x, f.partitions)
	s.fetches.mu.Unlock()
	if resp.code != 0 {
		resp.partitions = nil
		f.release()
	}
	f.finishCodes(&resp)
	bufs := f.bufs
	f.bufs = nil
	return resp.encode(req.Version, bufs), nil
}

// refuse answers the whole request with err: until version 12 for each partition too.
// Kafka: FetchRequest.getErrorResponse.
func (f *fetchCall) refuse(session int32, err *kerr.Error) *encoded {
	resp := fetchResponse{code: err.Code, sessionID: session}
	if f.version < 13 {
		for i := range f.partitions {
			f.partitions[i].fail(err)
			f.partitions[i].abortedNull = false
		}
		resp.partitions = f.partitions
	}
	return resp.encode(f.version, nil)
}

// recycle gives the scratch back. The answer does not refer to it.
func (f *fetchCall) recycle() {
	clear(f.partitions)
	clear(f.forget)
	clear(f.seen)
	*f = fetchCall{partitions: f.partitions[:0], forget: f.forget[:0], seen: f.seen}
	fetchCalls.Put(f)
}

// collect takes the partitions from the request. Of a partition that is named twice the last mention counts, at the
// place of the first. Any negative leader epoch is none, as nowhere else. Kafka: FetchRequest.optionalEpoch.
func (f *fetchCall) collect(req *kmsg.FetchRequest) {
	n := 0
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			k := fetchKey{topic: t.Topic, id: t.TopicID, partition: p.Partition}
			want := fetchWant{
				offset: p.FetchOffset, maxBytes: p.PartitionMaxBytes,
				leaderEpoch: max(-1, p.CurrentLeaderEpoch), lastFetchedEpoch: p.LastFetchedEpoch,
			}
			if n > 1 {
				if at, twice := f.seen[k]; twice {
					f.partitions[at].want = want
					continue
				}
				f.seen[k] = len(f.partitions)
			}
			f.partitions = append(f.partitions, fetchPartition{key: k, want: want})
		}
	}
	for i := range req.ForgottenTopics {
		t := &req.ForgottenTopics[i]
		for _, p := range t.Partitions {
			f.forget = append(f.forget, fetchKey{topic: t.Topic, id: t.TopicID, partition: p})
		}
	}
}

// resolve finds the log of each partition. Those that cannot be read get their error and move behind the others; the
// number of the others is returned.
func (f *fetchCall) resolve() int {
	var (
		last   fetchKey
		topic  *storage.Topic
		denied int16
		bad    []fetchPartition
		n      int
	)
	refused := f.replica >= 0 && !f.s.authorizeCluster(f.r, opClusterAction) // who says to be a broker
	for i := range f.partitions {
		p := &f.partitions[i]
		p.highWatermark, p.lastStable, p.logStart, p.divergingEpoch, p.divergingEnd = -1, -1, -1, -1, -1
		if refused {
			p.code = kerr.TopicAuthorizationFailed.Code
			bad = append(bad, *p)
			continue
		}
		if i == 0 || p.key.topic != last.topic || p.key.id != last.id {
			last = p.key
			topic, denied = f.topic(last)
		}
		p.code = denied
		switch {
		case denied == 0:
			if f.version >= 13 {
				p.topicName = topic.Name()
			}
			if log, ok := topic.Partition(p.key.partition); ok {
				p.log = log
			} else {
				p.code = kerr.UnknownTopicOrPartition.Code
			}
		case denied == kerr.UnknownTopicID.Code && p.topicName != "":
			f.lost(p)
		}
		if p.code != 0 {
			bad = append(bad, *p)
			continue
		}
		if n != i {
			f.partitions[n] = *p
		}
		n++
	}
	copy(f.partitions[n:], bad)
	return n
}

// lost says what became of a topic that the session knew by its id: it is deleted, or there is another of its name.
// Kafka: IncrementalFetchContext.foreachPartition keeps the name, ReplicaManager.readFromLog compares the ids.
func (f *fetchCall) lost(p *fetchPartition) {
	if !f.mayRead(p.topicName) {
		p.code = kerr.TopicAuthorizationFailed.Code
		return
	}
	p.code = kerr.UnknownTopicOrPartition.Code
	if again, ok := f.s.store.Topic(p.topicName); ok {
		if _, ok := again.Partition(p.key.partition); ok {
			p.fail(kerr.InconsistentTopicID)
			f.urgent = true
		}
	}
}

// topic finds a topic and checks that the caller may read it.
func (f *fetchCall) topic(k fetchKey) (*storage.Topic, int16) {
	if f.version >= 13 {
		t, ok := f.s.store.TopicByID(k.id)
		if !ok {
			return nil, kerr.UnknownTopicID.Code
		}
		if !f.mayRead(t.Name()) {
			return nil, kerr.TopicAuthorizationFailed.Code
		}
		return t, 0
	}
	if !f.mayRead(k.topic) {
		return nil, kerr.TopicAuthorizationFailed.Code
	}
	t, ok := f.s.store.Topic(k.topic)
	if !ok {
		return nil, kerr.UnknownTopicOrPartition.Code
	}
	return t, 0
}

// mayRead reports whether the caller may read a topic. A broker, which was looked at before, may read all of them.
func (f *fetchCall) mayRead(topic string) bool {
	return f.replica >= 0 || f.s.authorize(f.r, opRead, resourceTopic, topic)
}

// finishCodes makes the last changes that depend on the version of the request. Kafka: KafkaApis.processResponseCallback.
func (f *fetchCall) finishCodes(resp *fetchResponse) {
	for i := range resp.partitions {
		p := &resp.partitions[i]
		switch {
		case p.code == kerr.KafkaStorageError.Code && f.version <= 5:
			p.code = kerr.NotLeaderForPartition.Code
		case f.version >= 16 && p.log != nil && (p.code == kerr.FencedLeaderEpoch.Code || p.code == kerr.NotLeaderForPartition.Code):
			p.namesLeader = true
			p.leaderEpoch = p.log.LeaderEpoch()
			resp.leaderID = f.s.store.NodeID()
			resp.noAddress = f.replica >= 0
			resp.leaderHost = f.r.listener.AdvertisedHost
			resp.leaderPort = f.r.listener.AdvertisedPort
			resp.leaderRack = f.s.rack()
		}
	}
}

// read fills the partitions with what can be read now; one that cannot be read gets its error. It returns how many
// bytes were read, and whether some partition has an answer for which nobody should wait. The error is the context's,
// while waiting for memory.
func (f *fetchCall) read(partitions []fetchPartition) (bytes int, urgent bool, err error) {
	left := min(f.maxBytes, f.s.answers.share())
	for i := range partitions {
		p := &partitions[i]
		p.code, p.records, p.aborted, p.abortedNull = 0, nil, nil, f.isolation == storage.ReadUncommitted
		p.divergingEpoch, p.divergingEnd = -1, -1
		if err := f.check(p); err != nil {
			p.fail(err)
		} else if p.divergingEpoch < 0 {
			if err := f.readOne(p, min(left, int(p.want.maxBytes)), bytes == 0); err != nil {
				return bytes, urgent, err
			}
		}
		urgent = urgent || p.code != 0 || p.divergingEpoch >= 0
		bytes += len(p.records)
		left = max(0, left-len(p.records))
	}
	return bytes, urgent, nil
}

// fail makes err the answer of the partition.
func (p *fetchPartition) fail(err error) {
	p.code = errorCode(err)
	p.highWatermark, p.lastStable, p.logStart = -1, -1, -1
	p.records, p.aborted, p.abortedNull = nil, nil, true
	p.divergingEpoch, p.divergingEnd = -1, -1
}

// check does what precedes the read of a partition: leader epoch, who asks, and, for a client that says which epoch its
// last record has, whether its log is still ours.
func (f *fetchCall) check(p *fetchPartition) error {
	if err := checkLeaderEpoch(p.log, p.want.leaderEpoch); err != nil {
		return err
	}
	if f.replica >= 0 { // Kafka: Partition.followerReplicaOrThrow
		if p.want.leaderEpoch >= 0 {
			return kerr.UnknownLeaderEpoch
		}
		return kerr.NotLeaderForPartition
	}
	if p.want.lastFetchedEpoch >= 0 {
		return p.diverge()
	}
	return nil
}

// readOne reads one partition, at most limit bytes, or the first batch if that is larger and first is set. The error
// is the context's, while waiting for memory; one of the log is put into p.
func (f *fetchCall) readOne(p *fetchPartition, limit int, first bool) error {
	n, err := p.log.Readable(p.want.offset, f.isolation, max(1, limit))
	switch {
	case err != nil:
		p.fail(err)
		return nil
	case limit < 0 && n > 0: // Kafka: LogSegment.read throws
		p.fail(kerr.UnknownServerError)
		return nil
	}
	limit = max(0, limit)
	dst, err := f.space(min(n, limit))
	if err != nil {
		return err
	}
	res, err := p.log.Read(dst, storage.ReadRequest{
		Offset: p.want.offset, MaxBytes: min(limit, cap(dst)), Isolation: f.isolation, MinOneBatch: first,
	})
	if err != nil {
		p.fail(err)
		return nil
	}
	p.highWatermark, p.lastStable, p.logStart = res.HighWatermark, res.LastStableOffset, res.LogStartOffset
	p.records, p.aborted = res.Data, res.Aborted
	return f.keep(dst, res.Data)
}

// diverge compares the epoch of the client's last record with ours, and where the two logs differ, makes that the
// answer. Kafka: Partition.readRecords.
func (p *fetchPartition) diverge() error {
	epoch, end, err := p.log.EndOffsetForEpoch(p.want.lastFetchedEpoch)
	if err != nil {
		return err
	}
	o, err := p.log.Offsets()
	if err != nil {
		return err
	}
	if epoch < 0 || end < 0 || p.want.offset < o.LogStart {
		return storage.ErrOffsetOutOfRange
	}
	if epoch < p.want.lastFetchedEpoch || end < p.want.offset {
		p.divergingEpoch, p.divergingEnd = epoch, end
		p.highWatermark, p.lastStable, p.logStart = o.HighWatermark, o.LastStable, o.LogStart
		p.abortedNull = true
	}
	return nil
}

// checkLeaderEpoch compares the leader epoch that a client believes in with the partition's. -1 is no belief.
// Kafka: Partition.checkCurrentLeaderEpoch. A partition that does not serve is reported before its epoch is looked at,
// and one that still recovers is waited for, since that may raise its epoch.
func checkLeaderEpoch(log *storage.Log, epoch int32) error {
	if log.Status() != storage.StatusOnline {
		if _, err := log.Offsets(); err != nil {
			return err
		}
	}
	if epoch == -1 {
		return nil
	}
	switch ours := log.LeaderEpoch(); {
	case epoch < ours:
		return kerr.FencedLeaderEpoch
	case epoch > ours:
		return kerr.UnknownLeaderEpoch
	}
	return nil
}

// smallAnswer is the least that is asked for to hold records, so that many small partitions share a buffer.
const smallAnswer = 16 << 10

// share is the most that one answer may take of the memory for answers: a quarter of what is left, so that peers that
// do not read theirs leave some to others, and not less than what is kept for small demands.
func (m *memory) share() int { return max(int(m.room()/4), smallDemand) }

// space returns an empty slice with room for n bytes, or fewer when memory is short. It has none when the answer holds
// memory already and there is no more: who holds some must not wait for others to give theirs back.
func (f *fetchCall) space(n int) ([]byte, error) {
	if len(f.bufs) > 0 {
		b := f.bufs[len(f.bufs)-1].B
		if cap(b)-len(b) >= n {
			return b[len(b):cap(b):cap(b)][:0], nil
		}
		more := f.s.tryAnswerBuffer(max(n, smallAnswer))
		if more == nil {
			return nil, nil
		}
		f.bufs = append(f.bufs, more)
		return more.B, nil
	}
	if n == 0 {
		return nil, nil
	}
	n = max(n, smallAnswer)
	began := f.s.stopwatch()
	b, err := f.s.answerBuffer(f.r.ctx, n, min(n, smallDemand))
	f.r.waited += f.s.lap(began)
	if err != nil {
		return nil, err
	}
	f.bufs = append(f.bufs, b)
	return b.B, nil
}

// keep charges what was read into dst. Data lies in the last buffer, unless it outgrew its room, as a first batch does
// that is larger than the limits; then it has a slice of its own, which is charged now.
func (f *fetchCall) keep(dst, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if len(data) <= cap(dst) && &data[0] == &dst[:1][0] {
		b := f.bufs[len(f.bufs)-1]
		b.B = b.B[:len(b.B)+len(data)]
		f.kept += len(data)
		return nil
	}
	n, from := int64(len(data)), &f.s.answers.large
	if f.kept > 0 {
		from.force(n) // no wait while holding memory
	} else {
		f.release()
		var err error
		if from, err = f.s.answers.acquire(f.r.ctx, n); err != nil {
			return err
		}
	}
	f.bufs = append(f.bufs, &buffer{B: data, class: -1, budget: from, charged: n})
	f.kept += len(data)
	return nil
}

// release gives back what was read.
func (f *fetchCall) release() {
	for _, b := range f.bufs {
		b.release()
	}
	f.bufs, f.kept = f.bufs[:0], 0
}
