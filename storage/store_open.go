package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/kaen-log/gateway/auth"
	"github.com/kaen-log/gateway/storage/vfs"
)

// lockFile is held while a store is open. Kafka: LogManager.LOCK_FILE_NAME.
const lockFile = ".lock"

// startState is what is known of the stop before this start and of the recovery since.
type startState struct {
	clean    bool // the last stop was in order: nothing needs recovery
	adoption adoption
	// recovered: every partition that has a directory has been recovered since the start. Set by Run.
	recovered atomic.Bool
}

// Open opens the store in a data directory, which is made when there is none. A directory of another broker is
// adopted. When Open returns all topics are known; their partitions are recovered by Run, or each at its first use.
// Errors: *LockedError, *FormatError, *CorruptError of the metadata log (perhaps in an *OfflineError), and joined
// faults of the options.
func Open(dir string, o Options) (*Store, error) {
	o.setDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	defaults, err := newTopicDefaults(o.TopicDefaults)
	if err != nil {
		return nil, err
	}
	s := &Store{
		dir:       dir,
		o:         o,
		fs:        o.FS,
		colliding: make(collisions),
		deleted:   make(map[TopicID]struct{}),
	}
	s.defaults.Store(defaults)
	s.retiring.init()
	s.logs = s.newLogContext()
	if err := makeDir(s.fs, dir); err != nil {
		return nil, err
	}
	s.lock, err = s.fs.Lock(filepath.Join(dir, lockFile))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, &LockedError{}
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if err := s.load(); err != nil {
		return nil, errors.Join(err, s.lock.Close())
	}
	return s, nil
}

// makeDir makes a directory and those above it, durably, where they are missing.
func makeDir(fsys vfs.FS, dir string) error {
	var made []string // from dir upwards
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		_, err := fsys.Stat(d)
		if err == nil || d == filepath.Dir(d) {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		made = append(made, d)
	}
	if len(made) == 0 {
		return keepDir(fsys, dir)
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	for _, d := range slices.Backward(made) {
		if err := fsys.SyncDir(filepath.Dir(d)); err != nil {
			return err
		}
	}
	return nil
}

// keepDir makes the name of a directory in which there is nothing yet durable: a process that was killed may have made
// it, and those above it, and nothing more.
func keepDir(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if err != nil || len(names) > 1 || len(names) == 1 && names[0] != lockFile {
		return err
	}
	for d := filepath.Clean(dir); d != filepath.Dir(d); d = filepath.Dir(d) {
		// Where this process may not look it has made nothing either.
		if err := fsys.SyncDir(filepath.Dir(d)); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

// load reads what the directory says, makes it ours when it is not yet, and begins a new leader epoch.
func (s *Store) load() error {
	metadataDir := filepath.Join(s.dir, partitionDirName(metadataTopic, 0))
	made := false
	_, err := s.fs.Stat(metadataDir)
	if errors.Is(err, fs.ErrNotExist) {
		made, err = true, s.adopt()
	}
	if err != nil {
		return err
	}
	warn := func(err error) { s.o.Logger.Warn("checkpoint file is damaged", "err", err) }
	if err := s.checkpoints.open(s.fs, s.dir, warn); err != nil {
		return err
	}
	known := s.checkpoints.origin(metadataTopic, 0)
	if made {
		known.recoveryPoint = 0
	}
	replay, err := replayMetadata(s.fs, metadataDir, known.logStart, max(known.recoveryPoint, known.synced))
	if err != nil {
		return err
	}
	st := replay.state
	if s.o.ClusterID != "" && s.o.ClusterID != st.clusterID {
		return fmt.Errorf("cluster id %q, the directory %s belongs to cluster %q", s.o.ClusterID, s.dir, st.clusterID)
	}
	s.clusterID, s.directoryID = st.clusterID, st.directoryID
	s.epoch = st.epoch
	s.started.adoption = st.adoption
	// From here on the directory changes.
	if s.started.clean, err = takeCleanShutdown(s.fs, s.dir); err != nil {
		return err
	}
	if err := s.openMetadataLog(replay, made); err != nil {
		return err
	}
	if !made {
		if err := s.raiseEpoch(); err != nil {
			return err
		}
	}
	if err := s.checkMetaProperties(); err != nil {
		return err
	}
	s.byName, s.byID = make(map[string]*Topic, len(st.topics)), make(map[TopicID]*Topic, len(st.topics))
	for _, meta := range st.topics {
		t := s.newTopic(meta)
		s.byName[t.name], s.byID[t.id] = t, t
		s.colliding.add(t.name)
	}
	for id := range st.deleted {
		s.deleted[id] = struct{}{}
	}
	s.configs = make(map[resourceKey]map[string]string, len(st.configs))
	for k, v := range st.configs {
		s.configs[k] = v
	}
	quotas := maps.Clone(st.quotas)
	s.quotas.Store(&quotas)
	scram := maps.Clone(st.scram)
	s.scram.Store(&scram)
	s.acls.Store(auth.NewACLs(slices.Collect(maps.Keys(st.acls))))
	s.checkpoints.keep(s.exists)
	return nil
}

// raiseEpoch begins a new leader epoch.
func (s *Store) raiseEpoch() error {
	s.epoch++
	return s.metadata.commit(&metadataChange{build: func(*metadataState) ([]metadataRecord, error) {
		return []metadataRecord{epochRecord(s.epoch)}, nil
	}})
}

// exists reports whether a partition is one of a topic or the metadata log's.
func (s *Store) exists(k partitionKey) bool {
	if k.topic == metadataTopic {
		return k.partition == 0
	}
	t, ok := s.Topic(k.topic)
	return ok && k.partition < t.Partitions()
}

// newLogContext returns what the logs share.
func (s *Store) newLogContext() *logContext {
	return &logContext{
		fs:                   s.fs,
		now:                  s.o.Now,
		logger:               s.o.Logger,
		commits:              newCommitter(s.o.SyncThreads),
		files:                newOpenFiles(s.fs, s.o.OpenFiles),
		space:                &space{fs: s.fs, dir: s.dir},
		epoch:                func() int32 { return s.epoch },
		producerIDExpiration: s.o.ProducerIDExpiration,
		saveLogStart:         s.saveLogStart,
		saveSynced:           s.saveSynced,
		largeBatches:         make(chan struct{}, maxLargeBatches),

		answerDuplicatesEarly: s.o.AnswerDuplicatesEarly,
	}
}

// saveLogStart is what a log calls to make its log start offset durable.
func (s *Store) saveLogStart(l *Log, offset int64) error {
	return s.checkpoints.saveLogStart(l.topic, l.index, offset, func() bool { return s.live(l) })
}

// saveSynced is what a log that is going offline calls to make durable what is on disk of it.
func (s *Store) saveSynced(l *Log, offset int64) error {
	s.checkpoints.raiseSynced(l.topic, l.index, offset, func() bool { return s.live(l) })
	return s.checkpoints.flushFile(syncedOffsets)
}

// live reports whether a log is that of a topic that exists.
func (s *Store) live(l *Log) bool {
	if l.id == metadataTopicID {
		return true
	}
	_, ok := s.TopicByID(l.id)
	return ok
}

// origin returns what the store knows of a partition.
func (s *Store) origin(t *Topic, i int32) logOrigin {
	o := s.checkpoints.origin(t.name, i)
	o.durability = s.o.Durability
	o.clean = s.started.clean
	o.adopted = i < t.adopted
	if o.adopted && s.started.adoption == adoptedUnclean {
		// The marker is ours and says nothing of what the other broker left.
		o.clean = false
	}
	if reason := t.unserved[i]; reason != "" {
		o.offline = errors.New(reason)
	}
	return o
}

// checkMetaProperties makes meta.properties say what the metadata log says.
func (s *Store) checkMetaProperties() error {
	want := MetaProperties{Version: 1, ClusterID: s.clusterID, NodeID: *s.o.NodeID, DirectoryID: s.directoryID}
	have, err := readMetaProperties(s.fs, s.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case isCorrupt(err):
		s.o.Logger.Warn("meta.properties is written anew", "err", err)
	case err != nil:
		return err
	case have == want:
		return nil
	case have.NodeID != want.NodeID:
		s.o.Logger.Warn("the node id changes", "from", have.NodeID, "to", want.NodeID)
	}
	return writeMetaProperties(s.fs, s.dir, want, s.o.Now())
}

func isCorrupt(err error) bool {
	_, ok := errors.AsType[*CorruptError](err)
	return ok
}
