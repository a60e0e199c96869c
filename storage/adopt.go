package storage

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// cleaningOff is the config that adoption gives to a topic whose own configs are not known: an empty cleanup policy,
// with which nothing is ever deleted or compacted. It stays until a cleanup policy is set.
var cleaningOff = map[string]string{"cleanup.policy": ""}

// adopt makes a data directory without a metadata log ours: a new one, or that of another broker, of which it makes a
// metadata log. Nothing in a partition directory is changed; the step that counts is the rename of the metadata log to
// its name, so a crash before it leaves the directory to be adopted again.
//
// Topic ids and configs come from Kafka's metadata log when it is there. Without it ids come from partition.metadata,
// configs are not known, and cleaning is off. Partitions that cannot be served stay offline, each with its reason.
func (s *Store) adopt() error {
	st, err := s.newDirectory()
	if err != nil {
		return err
	}
	a := &adopter{s: s, st: st, dirs: make(map[string]map[int32]*adoptedDir)}
	if err := a.scan(); err != nil {
		return err
	}
	if len(a.dirs) > 0 {
		st.adoption = adoptedUnclean
		_, err := s.fs.Stat(filepath.Join(s.dir, cleanShutdownFile))
		if err == nil {
			st.adoption = adoptedClean
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := a.topics(); err != nil {
			return err
		}
		st.epoch = a.epoch
	}
	st.epoch++ // of this start
	if err := s.forgetSynced(); err != nil {
		return err
	}
	return createMetadataLog(s.fs, s.dir, st, s.o.Now())
}

// forgetSynced removes what a store of ours knew of its logs: whoever served the directory since has not kept it.
func (s *Store) forgetSynced() error {
	err := s.fs.Remove(filepath.Join(s.dir, syncedCheckpoint))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, s.fs.SyncDir(s.dir))
}

// newDirectory returns the state of a directory without topics.
func (s *Store) newDirectory() (*metadataState, error) {
	st := newMetadataState()
	props, err := readMetaProperties(s.fs, s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	st.clusterID = cmp.Or(props.ClusterID, s.o.ClusterID, TopicID(newUUID()).String())
	if st.directoryID = props.DirectoryID; props.DirectoryID.IsZero() {
		st.directoryID = newUUID()
	}
	return st, nil
}

// adopter is the making of a metadata state from the directories of another broker.
type adopter struct {
	s     *Store
	st    *metadataState
	dirs  map[string]map[int32]*adoptedDir // by topic and partition
	epoch int32                            // the latest leader epoch in a directory; -1 when there is none
}

// adoptedDir is a partition directory of another broker.
type adoptedDir struct {
	path   string
	id     TopicID // zero when there is no partition.metadata
	fault  string  // why it cannot be served; "" when it can
	number int32
}

// scan looks at all partition directories.
func (a *adopter) scan() error {
	a.epoch = -1
	names, err := a.s.fs.List(a.s.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		topic, p, ok := parsePartitionDirName(name)
		if !ok || topic == clusterMetadataTopic || topic == metadataTopic {
			continue
		}
		path := filepath.Join(a.s.dir, name)
		info, err := a.s.fs.Stat(path)
		if err != nil {
			return err
		}
		if !info.IsDir {
			continue
		}
		d, err := a.look(path, p)
		if err != nil {
			return fmt.Errorf("adopt %s: %w", path, err)
		}
		if a.dirs[topic] == nil {
			a.dirs[topic] = make(map[int32]*adoptedDir)
		}
		a.dirs[topic][p] = d
	}
	return nil
}

// look reads what adoption needs to know of a directory.
func (a *adopter) look(path string, p int32) (*adoptedDir, error) {
	d := &adoptedDir{path: path, number: p}
	m, err := readPartitionMetadata(a.s.fs, path)
	switch {
	case err == nil:
		d.id = m.TopicID
	case isCorrupt(err):
		d.fault = err.Error()
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	epochs, err := readLeaderEpochs(a.s.fs, path)
	if err != nil && !isCorrupt(err) {
		return nil, err
	}
	a.epoch = max(a.epoch, epochs.latest())
	magic, file, err := firstMagic(a.s.fs, path)
	if err != nil {
		return nil, err
	}
	if magic >= 0 && magic < 2 {
		d.fault = fmt.Sprintf("%s has batches of magic %d, only 2 is read", file, magic)
	}
	return d, nil
}

// firstMagic returns the magic of the first batch in a partition directory; -1 when there is none. Old formats, which
// a broker never converts, are the oldest segments.
func firstMagic(fsys vfs.FS, path string) (magic int8, file string, err error) {
	names, err := fsys.List(path)
	if err != nil {
		return -1, "", err
	}
	for _, name := range names {
		if _, ok := parseLogFileName(name); !ok {
			continue
		}
		magic, err := magicOf(fsys, filepath.Join(path, name))
		if errors.Is(err, io.EOF) {
			continue
		}
		return magic, name, err
	}
	return -1, "", nil
}

// magicOf returns the magic of the first batch in a segment's file; io.EOF when it has none.
func magicOf(fsys vfs.FS, file string) (magic int8, err error) {
	f, err := fsys.Open(file)
	if err != nil {
		return -1, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var head [record.MagicPos + 1]byte
	if n, err := f.ReadAt(head[:], 0); n < len(head) {
		return -1, err
	}
	return int8(head[record.MagicPos]), nil
}

// topics fills the state.
func (a *adopter) topics() error {
	kafka, err := readKafkaMetadata(a.s.fs, filepath.Join(a.s.dir, partitionDirName(clusterMetadataTopic, 0)))
	switch {
	case err == nil:
		a.fromKafka(kafka)
	case errors.Is(err, fs.ErrNotExist) || isCorrupt(err):
		a.s.o.Logger.Warn("topic configs are not known, cleaning stays off until a cleanup.policy is set", "err", err)
		if err := a.fromDirectories(); err != nil {
			return err
		}
	default:
		return err
	}
	for _, id := range sortedIDs(a.st.topics) {
		t := a.st.topics[id]
		for p, reason := range t.unserved {
			a.s.o.Logger.Warn("adopted partition stays offline", "topic", t.name, "partition", p, "reason", reason)
		}
	}
	a.s.o.Logger.Info("adopted the data directory of another broker", "dir", a.s.dir, "cluster", a.st.clusterID, "topics", len(a.st.topics))
	return nil
}

// fromKafka takes the topics of Kafka's metadata log that have a directory here.
func (a *adopter) fromKafka(kafka *kafkaMetadata) {
	elsewhere := 0
	for _, id := range sortedIDs(kafka.topics) {
		t := kafka.topics[id]
		if len(a.dirs[t.name]) == 0 || len(t.partitions) == 0 {
			elsewhere++
			continue
		}
		configs, faults := kafka.topicConfigs(t.name)
		for _, fault := range faults {
			a.s.o.Logger.Warn("config of an adopted topic is left out", "topic", t.name, "err", fault)
		}
		a.topic(id, t.name, partitionCount(t.partitions), configs)
	}
	if elsewhere > 0 {
		a.s.o.Logger.Warn("topics without a directory here are left out", "topics", elsewhere)
	}
	for k, configs := range kafka.configs {
		switch {
		case k == resourceKey{brokerResource, ""}:
			configs = kafka.defaults()
		case k.kind == topicResource || k.kind == brokerResource:
			continue
		}
		if len(configs) > 0 {
			a.st.configs[k] = configs
		}
	}
	a.st.producerIDs = kafka.producerIDs
}

// partitionCount returns how many partitions there are when these are among them.
func partitionCount[V any](partitions map[int32]V) int32 {
	count := int32(0)
	for p := range partitions {
		count = max(count, min(p, maxPartitions)+1) // one too many, but no overflow, when p is out of range
	}
	return count
}

// topic adds a topic with the directories that carry its id.
func (a *adopter) topic(id TopicID, name string, partitions int32, configs map[string]string) {
	if partitions < 1 || partitions > maxPartitions {
		a.s.o.Logger.Warn("adopted topic is left out", "topic", name, "partitions", partitions, "limit", maxPartitions)
		return
	}
	t := &topicMeta{id: id, name: name, partitions: partitions, adopted: partitions, configs: configs}
	for p := range partitions {
		reason := ""
		switch d := a.dirs[name][p]; {
		case d == nil:
			reason = "it has no directory in the adopted data directory"
		case d.fault != "":
			reason = d.fault
		case !d.id.IsZero() && d.id != id:
			reason = fmt.Sprintf("%s is of topic id %s, the topic has id %s", d.path, d.id, id)
		case configs["remote.storage.enable"] == "true":
			reason = "its older records are in tiered storage"
		}
		if reason != "" {
			if t.unserved == nil {
				t.unserved = make(map[int32]string)
			}
			t.unserved[p] = reason
		}
	}
	a.st.setTopic(id, t)
}

// fromDirectories takes every topic that has a directory. Where directories of one name disagree on the topic's id,
// the id of most of them counts.
func (a *adopter) fromDirectories() error {
	for _, name := range sortedKeys(a.dirs) {
		dirs := a.dirs[name]
		votes := make(map[TopicID]int)
		for _, d := range dirs {
			if !d.id.IsZero() {
				votes[d.id]++
			}
		}
		id := TopicID(newUUID())
		if ids := sortedIDs(votes); len(ids) > 0 {
			id = slices.MaxFunc(ids, func(x, y TopicID) int { return votes[x] - votes[y] })
		}
		a.topic(id, name, partitionCount(dirs), cleaningOff)
		for _, d := range dirs {
			highest, err := highestProducerID(a.s.fs, d.path)
			if err != nil {
				return err
			}
			a.st.producerIDs = max(a.st.producerIDs, highest+1)
		}
	}
	return nil
}

// highestProducerID returns the highest producer id in the snapshots and batch headers of a partition directory; -1
// when there is none. Damage ends a file.
func highestProducerID(fsys vfs.FS, path string) (int64, error) {
	names, err := fsys.List(path)
	if err != nil {
		return -1, err
	}
	highest := int64(-1)
	for _, name := range names {
		var in int64
		if _, ok := parseLogFileName(name); ok {
			in, err = highestProducerIDInLog(fsys, filepath.Join(path, name))
		} else if _, ok := producerSnapshotOffset(name); ok {
			in, err = highestProducerIDInSnapshot(fsys, filepath.Join(path, name))
		} else {
			continue
		}
		if err != nil {
			return -1, err
		}
		highest = max(highest, in)
	}
	return highest, nil
}

// highestProducerIDInLog goes from batch header to batch header.
func highestProducerIDInLog(fsys vfs.FS, file string) (highest int64, err error) {
	f, err := fsys.Open(file)
	if err != nil {
		return -1, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	highest = -1
	var head [record.HeaderSize]byte
	for position := int64(0); ; {
		_, err := f.ReadAt(head[:], position)
		if errors.Is(err, io.EOF) {
			return highest, nil
		}
		if err != nil {
			return -1, err
		}
		size, err := record.PeekSize(head[:])
		if err != nil {
			return highest, nil
		}
		highest = max(highest, record.Batch(head[:]).ProducerID())
		position += int64(size)
	}
}

// highestProducerIDInSnapshot looks at what of the snapshot can be read.
func highestProducerIDInSnapshot(fsys vfs.FS, file string) (int64, error) {
	b, err := readFile(fsys, file)
	if err != nil {
		return -1, err
	}
	entries, err := DecodeProducerSnapshot(b)
	if _, ok := errors.AsType[*DecodeError](err); err != nil && !ok {
		return -1, err
	}
	highest := int64(-1)
	for _, e := range entries {
		highest = max(highest, e.ProducerID)
	}
	return highest, nil
}
