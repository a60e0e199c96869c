package storage

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kaen-log/gateway/storage/vfs"
)

// partitionMetadataFile is the file in each partition directory that names its topic's id:
//
//	version: 0
//	topic_id: KDGAvSGPT3OcvXcPbVEzHw
//
// without a line feed at the end. Kafka: PartitionMetadataFile.
const partitionMetadataFile = "partition.metadata"

// PartitionMetadata is the content of a partition.metadata file.
type PartitionMetadata struct {
	Version int32
	TopicID TopicID
}

func encodePartitionMetadata(id TopicID) []byte {
	return fmt.Appendf(nil, "version: 0\ntopic_id: %s", id)
}

// DecodePartitionMetadata reads a partition.metadata file. As in Kafka a newer version is taken for one that only
// adds lines.
func DecodePartitionMetadata(b []byte) (PartitionMetadata, error) {
	fault := func(line int, at int, format string, args ...any) (PartitionMetadata, error) {
		return PartitionMetadata{}, &DecodeError{Format: "partition metadata", Position: int64(at), Line: line, Reason: fmt.Sprintf(format, args...)}
	}
	first, rest, _ := strings.Cut(string(b), "\n")
	second, _, _ := strings.Cut(rest, "\n")
	text, ok := metadataValue(first, "version")
	if !ok {
		return fault(1, 0, "%.80q, want version: 0", first)
	}
	version, err := strconv.ParseInt(text, 10, 32)
	if err != nil || version < 0 {
		return fault(1, 0, "version %.80q, want 0", text)
	}
	text, ok = metadataValue(second, "topic_id")
	if !ok {
		return fault(2, len(first)+1, "%.80q, want topic_id: and an id", second)
	}
	id, err := ParseTopicID(strings.TrimRight(text, "="))
	if err != nil || id.IsZero() {
		return fault(2, len(first)+1, "topic id %.80q", text)
	}
	return PartitionMetadata{Version: int32(version), TopicID: id}, nil
}

// metadataValue returns what follows "name:" and white space in a line.
func metadataValue(line, name string) (string, bool) {
	text, ok := strings.CutPrefix(strings.TrimSuffix(line, "\r"), name+":")
	value := strings.TrimLeft(text, " \t")
	return value, ok && value != "" && len(value) < len(text)
}

// readPartitionMetadata reads the file of the partition directory dir. The error is fs.ErrNotExist when there is
// none, or a *CorruptError.
func readPartitionMetadata(fsys vfs.FS, dir string) (PartitionMetadata, error) {
	name := filepath.Join(dir, partitionMetadataFile)
	b, err := readFile(fsys, name)
	if err != nil {
		return PartitionMetadata{}, err
	}
	m, err := DecodePartitionMetadata(b)
	return m, corruptFile(name, err)
}

// checkPartitionTopic makes sure that the partition directory dir is that of the topic and not of another that had or has its
// name. The error is fs.ErrNotExist when the directory does not say, or a *CorruptError.
func checkPartitionTopic(fsys vfs.FS, dir, topic string, id TopicID) error {
	m, err := readPartitionMetadata(fsys, dir)
	if err == nil && m.TopicID != id {
		err = &CorruptError{
			File: filepath.Join(dir, partitionMetadataFile), Position: -1,
			Reason: fmt.Sprintf("topic id %s, that of %s is %s", m.TopicID, topic, id),
		}
	}
	return err
}

// writePartitionMetadata replaces the file of the partition directory dir, durably.
func writePartitionMetadata(fsys vfs.FS, dir string, id TopicID) error {
	return replaceFile(fsys, filepath.Join(dir, partitionMetadataFile), encodePartitionMetadata(id))
}
