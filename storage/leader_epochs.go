package storage

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/kaen-log/gateway/storage/vfs"
)

// leaderEpochFile is a checkpoint file in each partition directory: "epoch startOffset" per line, both ascending.
// Kafka: LeaderEpochCheckpointFile.
const leaderEpochFile = "leader-epoch-checkpoint"

// EpochEntry says from which offset on the batches of a log have a leader epoch.
type EpochEntry struct {
	Epoch       int32
	StartOffset int64
}

// leaderEpochs are the epochs of one log, ascending in both fields. Its methods never change it: they return what it
// becomes, so that readers may hold any of them without a lock. Kafka: LeaderEpochFileCache.
type leaderEpochs []EpochEntry

// assign returns the epochs after a batch of the epoch was appended at startOffset, and whether that changed them:
// nothing does while the epoch stays the same. Entries that a lower epoch or offset contradicts go.
func (l leaderEpochs) assign(epoch int32, startOffset int64) (leaderEpochs, bool) {
	if epoch < 0 || startOffset < 0 {
		return l, false
	}
	if n := len(l); n > 0 && l[n-1].Epoch == epoch && startOffset >= l[n-1].StartOffset {
		return l, false
	}
	n := len(l)
	for n > 0 && (l[n-1].Epoch >= epoch || l[n-1].StartOffset >= startOffset) {
		n--
	}
	return append(slices.Clip(l[:n]), EpochEntry{Epoch: epoch, StartOffset: startOffset}), true
}

// truncateFromEnd returns the epochs of the log cut at offset: those that start at or above it are gone.
func (l leaderEpochs) truncateFromEnd(offset int64) (leaderEpochs, bool) {
	n := len(l)
	for n > 0 && l[n-1].StartOffset >= offset {
		n--
	}
	return slices.Clip(l[:n]), n < len(l)
}

// truncateFromStart returns the epochs of the log that starts at offset: the one that holds it begins there.
func (l leaderEpochs) truncateFromStart(offset int64) (leaderEpochs, bool) {
	n := 0
	for n < len(l) && l[n].StartOffset <= offset {
		n++
	}
	if n == 0 || n == 1 && l[0].StartOffset == offset {
		return l, false
	}
	kept := slices.Clone(l[n-1:])
	kept[0].StartOffset = offset
	return kept, true
}

// latest returns the last epoch, -1 when there is none.
func (l leaderEpochs) latest() int32 {
	if len(l) == 0 {
		return -1
	}
	return l[len(l)-1].Epoch
}

// earliest returns the first entry; false when there is none.
func (l leaderEpochs) earliest() (EpochEntry, bool) {
	if len(l) == 0 {
		return EpochEntry{}, false
	}
	return l[0], true
}

// endOffset answers OffsetForLeaderEpoch: the largest known epoch that is at most the asked one, and where the next
// begins, which for the latest is logEnd. Below the first known epoch that is (asked, start of the first); an epoch
// above the latest, and -1, are (-1, -1).
func (l leaderEpochs) endOffset(asked int32, logEnd int64) (epoch int32, offset int64) {
	if asked == -1 || asked > l.latest() || len(l) == 0 {
		return -1, -1
	}
	if asked == l.latest() {
		return asked, logEnd
	}
	next, _ := slices.BinarySearchFunc(l, asked+1, func(e EpochEntry, a int32) int { return cmp.Compare(e.Epoch, a) })
	if next == 0 {
		return asked, l[0].StartOffset
	}
	return l[next-1].Epoch, l[next].StartOffset
}

// encodeLeaderEpochs returns the bytes of a leader epoch checkpoint.
func encodeLeaderEpochs(l leaderEpochs) []byte {
	b := appendCheckpointHead(nil, len(l))
	for _, e := range l {
		b = strconv.AppendInt(b, int64(e.Epoch), 10)
		b = append(b, ' ')
		b = strconv.AppendInt(b, e.StartOffset, 10)
		b = append(b, '\n')
	}
	return b
}

// DecodeLeaderEpochs returns the lines of the leader epoch checkpoint b. At a line that does not parse or ascend, or
// when the number of lines is wrong, it returns those before and a *DecodeError.
func DecodeLeaderEpochs(b []byte) ([]EpochEntry, error) {
	c, err := newCheckpointReader("leader epoch checkpoint", b)
	if err != nil {
		return nil, err
	}
	entries := make([]EpochEntry, 0, c.capacity())
	for c.next() {
		epoch, rest, _ := cutField(c.line)
		offset, rest, ok := cutField(rest)
		if !ok || rest != "" {
			return entries, c.fault("%q, want epoch and start offset", c.line)
		}
		e, err := strconv.ParseInt(epoch, 10, 32)
		if err != nil || e < 0 {
			return entries, c.fault("epoch %q in %q", epoch, c.line)
		}
		o, err := strconv.ParseInt(offset, 10, 64)
		if err != nil || o < 0 {
			return entries, c.fault("start offset %q in %q", offset, c.line)
		}
		if n := len(entries); n > 0 && (int32(e) <= entries[n-1].Epoch || o < entries[n-1].StartOffset) {
			return entries, c.fault("epoch %d from offset %d after epoch %d from offset %d", e, o, entries[n-1].Epoch, entries[n-1].StartOffset)
		}
		entries = append(entries, EpochEntry{Epoch: int32(e), StartOffset: o})
	}
	return entries, c.end(len(entries))
}

// readLeaderEpochs reads the epochs of the partition directory dir; none when the file does not exist. A *CorruptError
// comes with the entries before the damage; the log can assign the rest from its batches.
func readLeaderEpochs(fsys vfs.FS, dir string) (leaderEpochs, error) {
	name := filepath.Join(dir, leaderEpochFile)
	b, err := readFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entries, err := DecodeLeaderEpochs(b)
	return entries, corruptFile(name, err)
}

// writeLeaderEpochs replaces the file of the partition directory dir, durably.
func writeLeaderEpochs(fsys vfs.FS, dir string, l leaderEpochs) error {
	return replaceFile(fsys, filepath.Join(dir, leaderEpochFile), encodeLeaderEpochs(l))
}
