package storage

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
)

// TopicID identifies a topic for good: a name may be used again after its topic was deleted, an id never is.
type TopicID [16]byte

// String returns the id as Kafka writes a Uuid: unpadded URL-safe base64.
func (id TopicID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// IsZero reports whether the id is that of no topic.
func (id TopicID) IsZero() bool { return id == TopicID{} }

// ParseTopicID is the inverse of String.
func ParseTopicID(s string) (TopicID, error) {
	var id TopicID
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("id %q is not 16 bytes in unpadded base64", s)
	}
	copy(id[:], b)
	return id, nil
}

// newUUID returns a random id of version 4 whose text does not begin with a dash, so that it can stand on a command
// line. Kafka: Uuid.randomUuid, which also keeps clear of its two reserved ids; a version 4 id never is one.
func newUUID() [16]byte {
	for {
		var id [16]byte
		rand.Read(id[:])
		id[6] = id[6]&0x0f | 0x40
		id[8] = id[8]&0x3f | 0x80
		if id[0]>>2 != 62 { // '-' is digit 62
			return id
		}
	}
}

// TopicSpec says what topic to create.
type TopicSpec struct {
	Name       string
	Partitions int32
	// Configs are the topic's own configs by name; what is not in it follows the defaults.
	Configs map[string]string
}

// Topic is a set of partitions that share a name, an id and a config. A Topic stays usable after its deletion: its
// logs then answer ErrLogDeleted.
type Topic struct {
	store *Store
	name  string
	id    TopicID
	// adopted partitions are those below this index: another broker wrote their directories.
	adopted int32
	// unserved holds why a partition that was adopted cannot be served, by its index; nil for most topics.
	unserved map[int32]string

	config    atomic.Pointer[TopicConfig]       // effective; nil until first asked for; replaced as a whole
	overrides atomic.Pointer[map[string]string] // the map is never written

	// mu is held to make a log or to grow; readers load logs.
	mu      sync.Mutex
	logs    atomic.Pointer[[]atomic.Pointer[Log]] // an element is nil until the partition is first asked for
	deleted bool                                  // guarded by mu
}

// Name returns the topic's name.
func (t *Topic) Name() string { return t.name }

// ID returns the topic's id.
func (t *Topic) ID() TopicID { return t.id }

// Partitions returns the number of partitions. It never shrinks.
func (t *Topic) Partitions() int32 { return int32(len(*t.logs.Load())) }

// Config returns the effective config. It is immutable; a later change makes another.
func (t *Topic) Config() *TopicConfig {
	if c := t.config.Load(); c != nil {
		return c
	}
	t.store.defaultsMu.Lock()
	defer t.store.defaultsMu.Unlock()
	c := t.config.Load()
	if c == nil {
		c = t.store.defaults.Load().effective(*t.overrides.Load())
		t.config.Store(c)
	}
	return c
}

// Overrides returns a copy of the configs that are set on the topic itself, in canonical text.
func (t *Topic) Overrides() map[string]string { return maps.Clone(*t.overrides.Load()) }

// Partition returns the log of a partition, false when i is not one of the topic's. It does no I/O.
func (t *Topic) Partition(i int32) (*Log, bool) {
	logs := *t.logs.Load()
	if i < 0 || int(i) >= len(logs) {
		return nil, false
	}
	if l := logs[i].Load(); l != nil {
		return l, true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	logs = *t.logs.Load()
	l := logs[i].Load()
	if l == nil {
		l = t.store.newPartition(t, i)
		if t.deleted {
			l.markDeleted()
		}
		logs[i].Store(l)
	}
	return l, true
}

// opened calls f for every log that was asked for since the start.
func (t *Topic) opened(f func(*Log)) {
	t.mu.Lock() // a log that is being made is one of them
	logs := *t.logs.Load()
	t.mu.Unlock()
	for i := range logs {
		if l := logs[i].Load(); l != nil {
			f(l)
		}
	}
}

// grow makes the topic have n partitions.
func (t *Topic) grow(n int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := *t.logs.Load()
	logs := make([]atomic.Pointer[Log], n)
	for i := range old {
		logs[i].Store(old[i].Load())
	}
	t.logs.Store(&logs)
}

// markDeleted takes every log of the topic out of service. When it returns, none uses its directory any more and none
// will. The logs that were never asked for are made deleted when they are.
func (t *Topic) markDeleted() {
	t.mu.Lock()
	t.deleted = true
	t.mu.Unlock()
	t.opened((*Log).markDeleted)
}
