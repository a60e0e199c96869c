package storage

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Directories that are no partition's any more.
//
// A deleted topic's directories are renamed to "<topic>-<partition>.<id>-delete", the topic's id in hexadecimal, and
// removed after file.delete.delay.ms. The metadata log remembers a deleted id until no directory of it is left, so
// whatever a crash leaves of this is found and finished by the next start. A directory that belongs to no topic and no
// deleted one is renamed to "…-stray" and left for a person to look at; it is never removed.
//
// Kafka: UnifiedLog.logDeleteDirName, logStrayDirName.
const (
	deleteSuffix = "-delete"
	straySuffix  = "-stray"
)

// maxDirName is the longest base name of a directory; a topic's name is cut where the suffix needs the room.
const maxDirName = 255

// retirements are the directories on their way out.
type retirements struct {
	mu sync.Mutex
	// names are the topics that are being deleted and whose directories have not moved away yet; each channel is
	// closed when they have.
	names map[string]chan struct{} // guarded by mu
	dirs  []retiredDir             // guarded by mu
	poke  chan struct{}            // told when dirs has grown; has room for one
	// unmoved are the deleted topics of which a directory may still be in its place; the next start sees to it.
	unmoved map[TopicID]bool // guarded by mu

	// moves is held while directories are examined and moved.
	moves sync.Mutex
	moved bool // since the data directory was synced; guarded by moves
}

// retiredDir is a directory to be removed.
type retiredDir struct {
	name string // base name
	id   TopicID
	due  time.Time
}

// errRetiring is the answer to a change that needs a name whose directories are on the move. It never leaves the
// package.
var errRetiring = errors.New("a topic of this name is being deleted")

func (r *retirements) init() {
	r.names = make(map[string]chan struct{})
	r.unmoved = make(map[TopicID]bool)
	r.poke = make(chan struct{}, 1)
}

// begin reserves the name of a topic that is being deleted.
func (r *retirements) begin(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names[name] = make(chan struct{})
}

// end gives the name free.
func (r *retirements) end(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if done, ok := r.names[name]; ok {
		close(done)
		delete(r.names, name)
	}
}

// busy reports whether the name is reserved.
func (r *retirements) busy(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.names[name]
	return ok
}

// await returns when the name is not reserved.
func (r *retirements) await(name string) {
	for {
		r.mu.Lock()
		done, ok := r.names[name]
		r.mu.Unlock()
		if !ok {
			return
		}
		<-done
	}
}

// add hands a directory to Run.
func (r *retirements) add(d retiredDir) {
	r.mu.Lock()
	r.dirs = append(r.dirs, d)
	r.mu.Unlock()
	select {
	case r.poke <- struct{}{}:
	default:
	}
}

// keep has the metadata log remember a deleted topic until the next start.
func (r *retirements) keep(id TopicID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unmoved[id] = true
}

// retire moves the directories of a deleted topic, none of which is in use, out of the way. That a checkpoint cannot be
// written, for want of the space that they hold, keeps none in its place: clearPlaces sees to the lines that it still has.
func (s *Store) retire(t *Topic, partitions int32) (err error) {
	s.retiring.moves.Lock()
	defer s.retiring.moves.Unlock()
	if err := s.checkpoints.drop(t.name, partitions); err != nil {
		s.o.Logger.Warn("checkpoint still has partitions of a deleted topic", "topic", t.name, "id", t.id.String(), "err", err)
	}
	due := s.o.Now().Add(t.Config().fileDeleteDelay())
	for p := range partitions {
		dir := partitionDirName(t.name, p)
		switch _, statErr := s.fs.Stat(filepath.Join(s.dir, dir)); {
		case errors.Is(statErr, fs.ErrNotExist):
			continue
		case statErr != nil:
			return statErr
		}
		if err := s.moveToDelete(dir, t.id, due); err != nil {
			return err
		}
	}
	return s.syncMoves()
}

// syncMoves makes the moves of directories durable, those of before too whose sync failed: a directory that came back
// would stand where another topic of the name may be by then. moves is held.
func (s *Store) syncMoves() error {
	if !s.retiring.moved {
		return nil
	}
	err := s.fs.SyncDir(s.dir)
	s.retiring.moved = err != nil
	return err
}

// move renames a directory; moves is held and syncMoves must follow.
func (s *Store) move(from, to string) error {
	s.retiring.moved = true
	return s.fs.Rename(filepath.Join(s.dir, from), filepath.Join(s.dir, to))
}

// moveToDelete renames a partition directory; moves is held.
func (s *Store) moveToDelete(dir string, id TopicID, due time.Time) error {
	to := suffixedDirName(dir, hex.EncodeToString(id[:]), deleteSuffix)
	if err := s.move(dir, to); err != nil {
		return err
	}
	s.retiring.add(retiredDir{name: to, id: id, due: due})
	return nil
}

// suffixedDirName returns the name of a partition directory with a unique id and a suffix.
func suffixedDirName(dir, unique, suffix string) string {
	i := strings.LastIndexByte(dir, '-')
	tail := dir[i:] + "." + unique + suffix
	return dir[:min(i, maxDirName-len(tail))] + tail
}

// parseDeleteDirName returns the topic id in the name of a directory that retire made.
func parseDeleteDirName(name string) (TopicID, bool) {
	head, ok := strings.CutSuffix(name, deleteSuffix)
	i := strings.LastIndexByte(head, '.')
	if !ok || i < 0 {
		return TopicID{}, false
	}
	b, err := hex.DecodeString(head[i+1:])
	if err != nil || len(b) != len(TopicID{}) {
		return TopicID{}, false
	}
	return TopicID(b), true
}

// clearPlaces makes sure that no directory of another topic is where the partitions [from, to) of a topic that is
// being created or grown will be.
func (s *Store) clearPlaces(topic string, from, to int32) error {
	s.retiring.await(topic)
	s.retiring.moves.Lock()
	defer s.retiring.moves.Unlock()
	for p := from; p < to; p++ {
		dir := partitionDirName(topic, p)
		switch _, err := s.fs.Stat(filepath.Join(s.dir, dir)); {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return fmt.Errorf("%w: %w", ErrStorage, err)
		}
		if err := s.evict(dir); err != nil {
			return fmt.Errorf("%w: move %s away: %w", ErrStorage, dir, err)
		}
	}
	if err := s.syncMoves(); err != nil {
		return fmt.Errorf("%w: %w", ErrStorage, err)
	}
	if err := s.checkpoints.drop("", 0); err != nil {
		return fmt.Errorf("%w: %w", ErrStorage, err)
	}
	return nil
}

// evict renames a partition directory whose topic does not exist: to be removed when the topic was deleted, else out
// of the way. A directory of a topic that exists stays, and so does one without an id and records: it is being made, or
// was when the power went. moves is held and syncMoves must follow.
func (s *Store) evict(dir string) error {
	path := filepath.Join(s.dir, dir)
	m, err := readPartitionMetadata(s.fs, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if has, err := s.hasSegments(path); err != nil || !has {
			return err
		}
	case err != nil && !isCorrupt(err):
		return err
	case err == nil:
		if _, live := s.TopicByID(m.TopicID); live {
			return nil
		}
		if s.isDeleted(m.TopicID) {
			return s.moveToDelete(dir, m.TopicID, s.o.Now())
		}
	}
	unique := newUUID()
	to := suffixedDirName(dir, hex.EncodeToString(unique[:]), straySuffix)
	s.o.Logger.Warn("directory belongs to no topic and is moved aside", "dir", dir, "id", m.TopicID.String(), "to", to)
	return s.move(dir, to)
}

// hasSegments reports whether a directory holds a segment file.
func (s *Store) hasSegments(path string) (bool, error) {
	names, err := s.fs.List(path)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		if _, ok := parseLogFileName(name); ok {
			return true, nil
		}
	}
	return false, nil
}

// removeRetired removes the directories whose time has come, and has the metadata log forget the deleted topics of
// which none is left. It returns when the next is due; zero when there is none.
func (s *Store) removeRetired() (next time.Time) {
	r := &s.retiring
	now := s.o.Now()
	r.mu.Lock()
	var due, later []retiredDir
	for _, d := range r.dirs {
		if d.due.After(now) {
			later = append(later, d)
			if next.IsZero() || d.due.Before(next) {
				next = d.due
			}
			continue
		}
		due = append(due, d)
	}
	r.dirs = later
	r.mu.Unlock()
	if len(due) == 0 {
		return next
	}
	gone := make(map[TopicID]bool)
	for _, d := range due {
		if err := s.fs.RemoveAll(filepath.Join(s.dir, d.name)); err != nil {
			s.o.Logger.Warn("directory of a deleted topic is not removed", "dir", d.name, "err", err)
			d.due = now.Add(s.o.CheckpointInterval)
			r.add(d)
			continue
		}
		gone[d.id] = true
	}
	if err := s.fs.SyncDir(s.dir); err != nil {
		s.o.Logger.Warn("removal of deleted topics is not durable", "err", err)
		return next
	}
	s.forgetDeleted(gone)
	return next
}

// forgetDeleted has the metadata log forget those of the deleted ids that have no directory left.
func (s *Store) forgetDeleted(ids map[TopicID]bool) {
	r := &s.retiring
	r.mu.Lock()
	for _, d := range r.dirs {
		delete(ids, d.id)
	}
	for id := range r.unmoved {
		delete(ids, id)
	}
	r.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	var forgotten []TopicID
	err := s.metadata.commit(&metadataChange{
		build: func(st *metadataState) ([]metadataRecord, error) {
			var records []metadataRecord
			for _, id := range sortedIDs(ids) {
				if name, ok := st.deleted[id]; ok && !r.busy(name) {
					records = append(records, metadataRecord{key: topicKey(metadataDeletedKey, id)})
					forgotten = append(forgotten, id)
				}
			}
			return records, nil
		},
		publish: func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, id := range forgotten {
				delete(s.deleted, id)
			}
		},
	})
	if err != nil && !errors.Is(err, ErrClosed) {
		s.o.Logger.Warn("deleted topics are not forgotten", "err", err)
	}
}

// scanDirs looks at every directory, moves those of no topic away and hands those of deleted topics to Run. It returns
// the partitions of topics that have directories. Run calls it once.
func (s *Store) scanDirs() ([]partitionKey, error) {
	found, complete, err := s.moveStrangers()
	if err != nil || !complete {
		return found, err
	}
	// Of the deleted topics that have no directory in line to be removed, there is none.
	gone := make(map[TopicID]bool)
	s.mu.RLock()
	for id := range s.deleted {
		gone[id] = true
	}
	s.mu.RUnlock()
	s.forgetDeleted(gone)
	return found, nil
}

// moveStrangers is scanDirs but for the records. complete is false when a directory could not be dealt with.
func (s *Store) moveStrangers() (found []partitionKey, complete bool, err error) {
	s.retiring.moves.Lock()
	defer s.retiring.moves.Unlock()
	names, err := s.fs.List(s.dir)
	if err != nil {
		return nil, false, err
	}
	known := make(map[string]bool)
	s.retiring.mu.Lock()
	for _, d := range s.retiring.dirs {
		known[d.name] = true
	}
	s.retiring.mu.Unlock()
	complete = true
	for _, name := range names {
		if id, ok := parseDeleteDirName(name); ok {
			if s.isDeleted(id) && !known[name] {
				s.retiring.add(retiredDir{name: name, id: id, due: s.o.Now()})
			}
			continue
		}
		topic, p, ok := parsePartitionDirName(name)
		if !ok || topic == metadataTopic || topic == clusterMetadataTopic {
			continue
		}
		if t, ok := s.Topic(topic); ok && p < t.Partitions() && t.unserved[p] == "" {
			found = append(found, partitionKey{topic, p})
			continue
		}
		if s.retiring.busy(topic) {
			continue // its deletion moves it
		}
		if info, err := s.fs.Stat(filepath.Join(s.dir, name)); err != nil || !info.IsDir {
			continue
		}
		if err := s.evict(name); err != nil {
			s.o.Logger.Warn("directory of no topic is not moved aside", "dir", name, "err", err)
			complete = false
		}
	}
	return found, complete, s.syncMoves()
}

// isDeleted reports whether an id is that of a deleted topic of which directories may be left.
func (s *Store) isDeleted(id TopicID) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, ok := s.deleted[id]
	return ok
}
