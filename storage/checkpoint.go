package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kaen-log/gateway/storage/vfs"
)

// A checkpoint file is text: a line with the version, 0, one with the number of lines that follow, and those, each
// with fields separated by a space. An empty file is an empty checkpoint. Kafka: CheckpointFile.
const checkpointVersion = 0

// The offset checkpoints of a store, beside its partition directories: "topic partition offset" per line.
const (
	recoveryPointCheckpoint = "recovery-point-offset-checkpoint" // below it a log is known to be on disk
	logStartCheckpoint      = "log-start-offset-checkpoint"      // logs that start above 0
	replicationCheckpoint   = "replication-offset-checkpoint"    // high watermarks
	cleanerCheckpoint       = "cleaner-offset-checkpoint"        // below it a compacted log is clean
	syncedCheckpoint        = "synced-offset-checkpoint"         // below it an offline log is known to be on disk; Kafka has none
)

// tempSuffix ends the name of a file that will replace another; one found at start is a leftover.
const tempSuffix = ".tmp"

// maxSmallFile bounds what readFile reads: none of the files it is for comes near.
const maxSmallFile = 1 << 30

// PartitionOffset is a line of an offset checkpoint.
type PartitionOffset struct {
	Topic     string
	Partition int32
	Offset    int64
}

// encodeOffsetCheckpoint returns the bytes of an offset checkpoint with the given lines, in their order.
func encodeOffsetCheckpoint(offsets []PartitionOffset) []byte {
	b := make([]byte, 0, 16+40*len(offsets))
	b = appendCheckpointHead(b, len(offsets))
	for _, o := range offsets {
		b = append(b, o.Topic...)
		b = append(b, ' ')
		b = strconv.AppendInt(b, int64(o.Partition), 10)
		b = append(b, ' ')
		b = strconv.AppendInt(b, o.Offset, 10)
		b = append(b, '\n')
	}
	return b
}

// DecodeOffsetCheckpoint returns the lines of the offset checkpoint b. At a line that does not parse, or when the
// number of lines is wrong, it returns those before and a *DecodeError. A partition that is there twice stays so; the
// later line counts.
func DecodeOffsetCheckpoint(b []byte) ([]PartitionOffset, error) {
	c, err := newCheckpointReader("offset checkpoint", b)
	if err != nil {
		return nil, err
	}
	offsets := make([]PartitionOffset, 0, c.capacity())
	for c.next() {
		topic, rest, _ := cutField(c.line)
		partition, rest, _ := cutField(rest)
		offset, rest, ok := cutField(rest)
		if !ok || rest != "" {
			return offsets, c.fault("%q, want topic, partition and offset", c.line)
		}
		p, err := strconv.ParseInt(partition, 10, 32)
		if err != nil || p < 0 {
			return offsets, c.fault("partition %q in %q", partition, c.line)
		}
		o, err := strconv.ParseInt(offset, 10, 64)
		if err != nil || o < 0 {
			return offsets, c.fault("offset %q in %q", offset, c.line)
		}
		offsets = append(offsets, PartitionOffset{Topic: topic, Partition: int32(p), Offset: o})
	}
	return offsets, c.end(len(offsets))
}

// writeOffsetCheckpoint replaces the offset checkpoint file name, durably.
func writeOffsetCheckpoint(fsys vfs.FS, name string, offsets []PartitionOffset) error {
	return replaceFile(fsys, name, encodeOffsetCheckpoint(offsets))
}

// readOffsetCheckpoint reads the offset checkpoint file name; one that does not exist is empty. A *CorruptError comes
// with the lines before the damage. Checkpoints only save work, so the caller logs it and takes what is missing for 0.
func readOffsetCheckpoint(fsys vfs.FS, name string) ([]PartitionOffset, error) {
	b, err := readFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	offsets, err := DecodeOffsetCheckpoint(b)
	return offsets, corruptFile(name, err)
}

func appendCheckpointHead(b []byte, lines int) []byte {
	b = strconv.AppendInt(b, checkpointVersion, 10)
	b = append(b, '\n')
	b = strconv.AppendInt(b, int64(lines), 10)
	return append(b, '\n')
}

// checkpointReader goes through the lines of a checkpoint file.
type checkpointReader struct {
	format string
	rest   string
	line   string // a part of the file's text, so that lines cost no allocation
	number int    // of line, from 1
	at     int64  // position of line
	read   int64  // position of rest
	want   int64  // lines that the file announces
}

// newCheckpointReader reads the first two lines.
func newCheckpointReader(format string, b []byte) (*checkpointReader, error) {
	c := &checkpointReader{format: format, rest: string(b)}
	if !c.next() {
		return c, nil
	}
	if v, err := strconv.ParseInt(c.line, 10, 32); err != nil || v != checkpointVersion {
		return nil, c.fault("version %q, want %d", c.line, checkpointVersion)
	}
	if !c.next() {
		return c, nil
	}
	n, err := strconv.ParseInt(c.line, 10, 32)
	if err != nil || n < 0 {
		return nil, c.fault("number of lines %q", c.line)
	}
	c.want = n
	return c, nil
}

// next moves to the next line; false at the end.
func (c *checkpointReader) next() bool {
	c.at = c.read
	if len(c.rest) == 0 {
		return false
	}
	line, rest, found := strings.Cut(c.rest, "\n")
	c.read += int64(len(line))
	if found {
		c.read++
	}
	c.line, c.rest = strings.TrimSuffix(line, "\r"), rest
	c.number++
	return true
}

// capacity is how many lines to make room for; the bytes bound what the file announces.
func (c *checkpointReader) capacity() int { return int(min(c.want, int64(len(c.rest)/4+1))) }

// end checks the number of lines against the announced one.
func (c *checkpointReader) end(got int) error {
	if int64(got) != c.want {
		c.number++
		return c.fault("%d lines, the file announces %d", got, c.want)
	}
	return nil
}

func (c *checkpointReader) fault(format string, args ...any) error {
	return &DecodeError{Format: c.format, Position: c.at, Line: c.number, Reason: fmt.Sprintf(format, args...)}
}

// cutField takes the first field off a line and the white space after it; false when there is none.
func cutField(s string) (field, rest string, ok bool) {
	i := 0
	for i < len(s) && !isSpace(s[i]) {
		i++
	}
	end := i
	for i < len(s) && isSpace(s[i]) {
		i++
	}
	return s[:end], s[i:], end > 0
}

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// corruptFile turns a *DecodeError into a *CorruptError that names the file.
func corruptFile(name string, err error) error {
	if d, ok := errors.AsType[*DecodeError](err); ok {
		reason := d.Format + ": " + d.Reason
		if d.Line > 0 {
			reason = fmt.Sprintf("%s: line %d: %s", d.Format, d.Line, d.Reason)
		}
		return &CorruptError{File: name, Position: d.Position, Reason: reason}
	}
	return err
}

// replaceFile makes b the content of a file, new or not, so that after a crash it has the old content or the new.
func replaceFile(fsys vfs.FS, name string, b []byte) error {
	if err := writeTemp(fsys, name, b, true); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(name))
}

// replaceFileUnsynced is replaceFile for what may be lost or torn by a crash.
func replaceFileUnsynced(fsys vfs.FS, name string, b []byte) error {
	return writeTemp(fsys, name, b, false)
}

// writeTemp writes b to a temporary file and gives that the name. The temporary file is gone after a failure.
func writeTemp(fsys vfs.FS, name string, b []byte, sync bool) error {
	temp := name + tempSuffix
	f, err := fsys.Create(temp)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	if err == nil && sync {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = fsys.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, fsys.Remove(temp))
	}
	return nil
}

// readFile returns the content of a small file.
func readFile(fsys vfs.FS, name string) (b []byte, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > maxSmallFile {
		return nil, &CorruptError{File: name, Position: maxSmallFile, Reason: fmt.Sprintf("%d bytes, want at most %d", size, maxSmallFile)}
	}
	b = make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if n < len(b) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return b[:n], nil
}
