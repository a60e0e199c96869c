package storage

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kaen-log/gateway/auth"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// maxPartitions bounds the partitions of one topic.
const maxPartitions = 100_000

// Store is a data directory: its topics and the metadata log that says which they are. Its methods may be called from
// any goroutine.
type Store struct {
	dir  string
	o    Options
	fs   vfs.FS
	lock io.Closer
	logs *logContext

	// Of the metadata log or fixed at Open.
	metadata    *metadataLog
	clusterID   string
	directoryID [16]byte
	epoch       int32

	checkpoints checkpoints
	retiring    retirements
	producerIDs producerIDs
	started     startState

	// defaults are the broker-level values of topic configs; SetTopicDefaults replaces them.
	defaults atomic.Pointer[topicDefaults]
	// defaultsMu is held while effective configs of topics are made, so that the last change wins.
	defaultsMu sync.Mutex

	// quotas are the published client quotas; the metadata log's changes replace them one after the other.
	quotas atomic.Pointer[ClientQuotas]
	// scram are the published credentials of SCRAM, replaced in the same way.
	scram atomic.Pointer[ScramCredentials]
	// acls are the published ACLs, replaced in the same way.
	acls atomic.Pointer[auth.ACLs]

	// mu guards the published topics: those whose records are durable. It is never held over I/O.
	mu        sync.RWMutex
	byName    map[string]*Topic
	colliding collisions // of byName
	byID      map[TopicID]*Topic
	sorted    []*Topic // by name; nil when it must be made anew; never written once made
	configs   map[resourceKey]map[string]string
	deleted   map[TopicID]struct{} // topics of which directories may be left
	hooks     []func(*Topic)
	closed    bool

	// topicsVersion counts the changes of byName and of how many partitions topics have; it moves after the change.
	topicsVersion atomic.Uint64
}

// topicDefaults are the broker-level values in canonical text, and the config of a topic without overrides.
type topicDefaults struct {
	values map[string]string
	config *TopicConfig
}

func newTopicDefaults(values map[string]string) (*topicDefaults, error) {
	canonical, err := canonicalConfigs(values)
	if err != nil {
		return nil, err
	}
	if err := checkTogether(nil, canonical); err != nil {
		return nil, err
	}
	return &topicDefaults{values: canonical, config: newTopicConfig(nil, canonical)}, nil
}

// effective returns the config of a topic with overrides in canonical text.
func (d *topicDefaults) effective(overrides map[string]string) *TopicConfig {
	if len(overrides) == 0 {
		return d.config
	}
	return newTopicConfig(overrides, d.values)
}

// Dir returns the data directory.
func (s *Store) Dir() string { return s.dir }

// ClusterID returns the cluster id that the directory carries.
func (s *Store) ClusterID() string { return s.clusterID }

// NodeID returns the node id this store was opened with.
func (s *Store) NodeID() int32 { return *s.o.NodeID }

// DirectoryID returns the id of the data directory, as meta.properties has it.
func (s *Store) DirectoryID() [16]byte { return s.directoryID }

// LeaderEpoch returns the store-wide leader epoch, which every start raises. A partition that another broker wrote
// with a higher one has its own; see Log.LeaderEpoch.
func (s *Store) LeaderEpoch() int32 { return s.epoch }

// Topic returns the topic of a name.
func (s *Store) Topic(name string) (*Topic, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	t, ok := s.byName[name]
	return t, ok
}

// TopicByID returns the topic of an id.
func (s *Store) TopicByID(id TopicID) (*Topic, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	t, ok := s.byID[id]
	return t, ok
}

// Topics returns all topics by name. The slice is shared and must not be changed.
func (s *Store) Topics() []*Topic {
	s.mu.RLock()
	sorted := s.sorted
	s.mu.RUnlock()
	if sorted != nil {
		return sorted
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sorted == nil {
		s.sorted = make([]*Topic, 0, len(s.byName))
		for _, t := range s.byName {
			s.sorted = append(s.sorted, t)
		}
		slices.SortFunc(s.sorted, func(a, b *Topic) int {
			if a.name < b.name {
				return -1
			}
			return 1
		})
	}
	return s.sorted
}

// TopicsVersion is another number after every topic that is created, deleted or given partitions. What is read of
// topics after it is at least as new.
func (s *Store) TopicsVersion() uint64 { return s.topicsVersion.Load() }

// CheckTopic reports what CreateTopic would say, and creates nothing. The order of the checks is Kafka's: name,
// existence, collision, configs, partitions.
func (s *Store) CheckTopic(spec TopicSpec) error {
	_, err := s.checkTopic(spec)
	return err
}

func (s *Store) checkTopic(spec TopicSpec) (configs map[string]string, err error) {
	if err := ValidateTopicName(spec.Name); err != nil {
		return nil, err
	}
	if spec.Name == metadataTopic {
		return nil, fmt.Errorf("%w: %q is reserved", ErrInvalidTopicName, spec.Name)
	}
	if err := s.checkName(spec.Name); err != nil {
		return nil, err
	}
	configs, err = checkTopicConfigs(spec.Configs, s.defaults.Load().values)
	if err != nil {
		return nil, err
	}
	if spec.Partitions < 1 || spec.Partitions > maxPartitions {
		return nil, fmt.Errorf("%w: %d, want 1 to %d", ErrInvalidPartitions, spec.Partitions, maxPartitions)
	}
	return configs, nil
}

func (s *Store) checkName(name string) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if _, ok := s.byName[name]; ok {
		return fmt.Errorf("%w: %q", ErrTopicExists, name)
	}
	return s.colliding.check(name)
}

// CreateTopic creates a topic. It returns when the topic's record is durable and the topic can be used. Partition
// directories are made by the first append to each. Errors: ErrInvalidTopicName, ErrTopicExists, ErrTopicCollision,
// *ConfigError (joined when there are several), ErrInvalidPartitions, ErrStorage.
func (s *Store) CreateTopic(spec TopicSpec) (*Topic, error) {
	topics, errs := s.CreateTopics([]TopicSpec{spec})
	return topics[0], errs[0]
}

// CreateTopics creates several topics with one commit. The answers are in the order of specs; the topics are
// independent of each other.
func (s *Store) CreateTopics(specs []TopicSpec) ([]*Topic, []error) {
	topics, errs := make([]*Topic, len(specs)), make([]error, len(specs))
	waits := make([]func() error, len(specs))
	for i, spec := range specs {
		topics[i], waits[i], errs[i] = s.startCreate(spec)
	}
	for i, wait := range waits {
		if wait == nil {
			continue
		}
		if errs[i] = wait(); errs[i] != nil {
			topics[i] = nil
		}
	}
	return topics, errs
}

// startCreate checks a topic and hands its record to the next commit; wait returns when that is done.
func (s *Store) startCreate(spec TopicSpec) (t *Topic, wait func() error, err error) {
	configs, err := s.checkTopic(spec)
	if err != nil {
		return nil, nil, err
	}
	meta := &topicMeta{id: newUUID(), name: spec.Name, partitions: spec.Partitions, configs: configs}
	t = s.newTopic(meta)
	c := &metadataChange{
		build: func(st *metadataState) ([]metadataRecord, error) {
			if s.retiring.busy(spec.Name) {
				return nil, errRetiring
			}
			if err := st.checkName(spec.Name); err != nil {
				return nil, err
			}
			return s.grow(topicRecord(meta))
		},
		publish: func() { s.publish(t) },
	}
	enqueue := func() error {
		if err := s.clearPlaces(spec.Name, 0, spec.Partitions); err != nil {
			return err
		}
		s.metadata.enqueue(c)
		return nil
	}
	if err := enqueue(); err != nil {
		return nil, nil, err
	}
	return t, func() error {
		for {
			err := s.metadata.wait(c)
			if err != errRetiring {
				return err
			}
			// A topic of the name is being deleted: its directories move away first.
			if err := enqueue(); err != nil {
				return err
			}
		}
	}, nil
}

// grow returns the records of a change that makes what the store keeps more. It is refused where it would need what is left to
// deletion; other changes, which may be what makes room, are not.
func (s *Store) grow(r metadataRecord) ([]metadataRecord, error) {
	if err := s.logs.space.take(int64(record.HeaderSize + metadataRecordFrame + len(r.key) + len(r.value))); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStorage, err)
	}
	return []metadataRecord{r}, nil
}

// newTopic makes the Topic of a record.
func (s *Store) newTopic(meta *topicMeta) *Topic {
	t := &Topic{store: s, name: meta.name, id: meta.id, adopted: meta.adopted, unserved: meta.unserved}
	t.overrides.Store(&meta.configs)
	logs := make([]atomic.Pointer[Log], meta.partitions)
	t.logs.Store(&logs)
	return t
}

// newPartition makes the log of a partition; the topic's mu is held.
func (s *Store) newPartition(t *Topic, i int32) *Log {
	dir := filepath.Join(s.dir, partitionDirName(t.name, i))
	t.Config() // the log finds it made
	o := s.origin(t, i)
	s.mu.RLock()
	if s.closed {
		o.offline = ErrClosed
	}
	s.mu.RUnlock()
	return newLog(s.logs, t.name, i, t.id, dir, &t.config, o)
}

// publish makes a topic visible.
func (s *Store) publish(t *Topic) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byName[t.name] = t
	s.colliding.add(t.name)
	s.byID[t.id] = t
	s.sorted = nil
	s.topicsVersion.Add(1)
}

// unpublish hides a topic.
func (s *Store) unpublish(t *Topic) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byName, t.name)
	s.colliding.remove(t.name)
	delete(s.byID, t.id)
	s.deleted[t.id] = struct{}{}
	s.sorted = nil
	s.topicsVersion.Add(1)
}

// DeleteTopic deletes a topic. When it returns the deletion is durable, no call on the topic's logs is at work any
// more, and the name is free for a new topic. The directories disappear after file.delete.delay.ms. The error is
// ErrUnknownTopic or ErrStorage.
func (s *Store) DeleteTopic(id TopicID) error {
	t, ok := s.TopicByID(id)
	if !ok {
		return fmt.Errorf("%w: id %s", ErrUnknownTopic, id)
	}
	var partitions int32
	err := s.metadata.commit(&metadataChange{
		build: func(st *metadataState) ([]metadataRecord, error) {
			meta, ok := st.topics[id]
			if !ok {
				return nil, fmt.Errorf("%w: id %s", ErrUnknownTopic, id)
			}
			partitions = meta.partitions
			s.retiring.begin(t.name)
			return []metadataRecord{{key: topicKey(metadataTopicKey, id)}, deletedRecord(id, t.name)}, nil
		},
		publish: func() { s.unpublish(t) },
		undone:  func() { s.retiring.end(t.name) },
	})
	if err != nil {
		return err
	}
	t.markDeleted()
	if err := s.retire(t, partitions); err != nil {
		// A new topic of the name tries again before it is created, and so does the next start.
		s.retiring.keep(t.id)
		s.o.Logger.Warn("directories of a deleted topic are not moved away", "topic", t.name, "id", t.id.String(), "err", err)
	}
	s.retiring.end(t.name)
	s.mu.RLock()
	hooks := s.hooks
	s.mu.RUnlock()
	for _, hook := range hooks {
		hook(t)
	}
	return nil
}

// OnTopicDeleted registers a function that is called with every deleted topic, once the deletion is durable and the
// topic cannot be found any more, by the goroutine that deletes it. Functions are called in the order they came.
func (s *Store) OnTopicDeleted(hook func(*Topic)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks = append(slices.Clone(s.hooks), hook)
}

// AddPartitions makes a topic have total partitions, more than it has. Errors: ErrUnknownTopic, ErrInvalidPartitions,
// ErrStorage.
func (s *Store) AddPartitions(id TopicID, total int32) error {
	t, ok := s.TopicByID(id)
	if !ok {
		return fmt.Errorf("%w: id %s", ErrUnknownTopic, id)
	}
	have := t.Partitions()
	if total <= have || total > maxPartitions {
		return fmt.Errorf("%w: %d, want %d to %d", ErrInvalidPartitions, total, have+1, maxPartitions)
	}
	if err := s.clearPlaces(t.name, have, total); err != nil {
		return err
	}
	return s.metadata.commit(&metadataChange{
		build: func(st *metadataState) ([]metadataRecord, error) {
			meta, ok := st.topics[id]
			if !ok {
				return nil, fmt.Errorf("%w: id %s", ErrUnknownTopic, id)
			}
			if total <= meta.partitions {
				return nil, fmt.Errorf("%w: %d, want %d to %d", ErrInvalidPartitions, total, meta.partitions+1, maxPartitions)
			}
			grown := *meta
			grown.partitions = total
			return s.grow(topicRecord(&grown))
		},
		publish: func() {
			t.grow(total)
			s.topicsVersion.Add(1)
		},
	})
}

// CheckTopicConfigs reports what SetTopicConfigs would say about the configs, and sets nothing.
func (s *Store) CheckTopicConfigs(overrides map[string]string) error {
	_, err := checkTopicConfigs(overrides, s.defaults.Load().values)
	return err
}

// SetTopicConfigs replaces all configs that are set on a topic. Errors: ErrUnknownTopic, *ConfigError (joined when
// there are several), ErrStorage.
func (s *Store) SetTopicConfigs(id TopicID, overrides map[string]string) error {
	t, ok := s.TopicByID(id)
	if !ok {
		return fmt.Errorf("%w: id %s", ErrUnknownTopic, id)
	}
	configs, err := checkTopicConfigs(overrides, s.defaults.Load().values)
	if err != nil {
		return err
	}
	return s.metadata.commit(&metadataChange{
		build: func(st *metadataState) ([]metadataRecord, error) {
			meta, ok := st.topics[id]
			if !ok {
				return nil, fmt.Errorf("%w: id %s", ErrUnknownTopic, id)
			}
			changed := *meta
			changed.configs = configs
			return []metadataRecord{topicRecord(&changed)}, nil
		},
		publish: func() {
			s.defaultsMu.Lock()
			defer s.defaultsMu.Unlock()
			t.overrides.Store(&configs)
			t.config.Store(s.defaults.Load().effective(configs))
		},
	})
}

// SetTopicDefaults replaces the broker-level values of topic configs, for all topics at once and for those to come.
// The error joins one *ConfigError for each fault; nothing is changed then. They are not kept over a restart.
func (s *Store) SetTopicDefaults(values map[string]string) error {
	d, err := newTopicDefaults(values)
	if err != nil {
		return err
	}
	s.defaultsMu.Lock()
	defer s.defaultsMu.Unlock()
	s.defaults.Store(d)
	for _, t := range s.Topics() {
		if t.config.Load() != nil {
			t.config.Store(d.effective(*t.overrides.Load()))
		}
	}
	return nil
}

// TopicDefaults returns a copy of the broker-level values of topic configs, in canonical text.
func (s *Store) TopicDefaults() map[string]string { return maps.Clone(s.defaults.Load().values) }

// ResourceConfigs returns a copy of the configs kept for a resource that is not a topic; nil when there are none. What
// they mean is the caller's affair. Kinds are numbered as in DescribeConfigs.
func (s *Store) ResourceConfigs(kind int8, name string) map[string]string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return maps.Clone(s.configs[resourceKey{kind, name}])
}

// ResourceNames returns the names of the resources of a kind for which configs are kept, sorted.
func (s *Store) ResourceNames(kind int8) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var names []string
	for k := range s.configs {
		if k.kind == kind {
			names = append(names, k.name)
		}
	}
	slices.Sort(names)
	return names
}

// SetResourceConfigs replaces the configs kept for a resource; none forgets it. It returns when that is durable.
func (s *Store) SetResourceConfigs(kind int8, name string, configs map[string]string) error {
	k, configs := resourceKey{kind, name}, maps.Clone(configs)
	return s.metadata.commit(&metadataChange{
		build: func(st *metadataState) ([]metadataRecord, error) {
			return []metadataRecord{configsRecord(k, configs)}, nil
		},
		publish: func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(configs) == 0 {
				delete(s.configs, k)
			} else {
				s.configs[k] = configs
			}
		},
	})
}

// NextProducerID returns an id that no producer of this directory ever had. Now and then it reserves a block of ids,
// which waits for the disk.
func (s *Store) NextProducerID() (int64, error) { return s.producerIDs.next(s) }

// LockedError says that another process has the data directory open. It is a vfs.ErrLocked.
type LockedError struct{}

func (e *LockedError) Error() string { return "it is in use by another process" }

// Is reports whether target is vfs.ErrLocked.
func (e *LockedError) Is(target error) bool { return target == vfs.ErrLocked }
