package storage

import (
	"fmt"
	"strings"
)

// maxTopicName is the longest topic name in bytes. Kafka leaves room in a file name of 255 bytes for the partition
// number and the suffixes of a directory that is on its way out.
const maxTopicName = 249

// metadataTopic is the name of the store's own log. It is never shown to a client and cannot be created.
const metadataTopic = "__gateway_metadata"

// ValidateTopicName checks that a name may be a topic's: 1 to 249 bytes of [a-zA-Z0-9._-], neither "." nor "..". The
// error is an ErrInvalidTopicName that says what is wrong.
//
// Kafka: clients Topic.validate.
func ValidateTopicName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrInvalidTopicName)
	case name == "." || name == "..":
		return fmt.Errorf("%w: %q is reserved", ErrInvalidTopicName, name)
	case len(name) > maxTopicName:
		return fmt.Errorf("%w: %d bytes, at most %d", ErrInvalidTopicName, len(name), maxTopicName)
	}
	for i := range len(name) {
		if !isTopicByte(name[i]) {
			return fmt.Errorf("%w: %q has a character outside [a-zA-Z0-9._-] at position %d", ErrInvalidTopicName, name, i)
		}
	}
	return nil
}

func isTopicByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}

// IsInternalTopic reports whether name is one of the topics in which the broker itself keeps records. They are
// flagged in Metadata and otherwise like any other.
func IsInternalTopic(name string) bool {
	return name == "__consumer_offsets" || name == "__transaction_state" || name == "__share_group_state"
}

// collisions has the names in use that hold a '.' or a '_', by what they are with every '.' made a '_'. It is not safe
// for concurrent use.
//
// Differs from Kafka: names that collide with each other in one request are told too; Kafka makes both, and looks at
// what there was before the request only.
type collisions map[string]string

func (c collisions) add(name string) {
	if strings.ContainsAny(name, "._") {
		c[strings.ReplaceAll(name, ".", "_")] = name
	}
}

func (c collisions) remove(name string) {
	if key := strings.ReplaceAll(name, ".", "_"); c[key] == name {
		delete(c, key)
	}
}

// check reports whether a new name collides with one in use: ErrTopicCollision.
func (c collisions) check(name string) error {
	if !strings.ContainsAny(name, "._") {
		return nil
	}
	if other, ok := c[strings.ReplaceAll(name, ".", "_")]; ok {
		return fmt.Errorf("%w: %q and %q", ErrTopicCollision, name, other)
	}
	return nil
}

// partitionDirName is the base name of a partition's directory.
func partitionDirName(topic string, partition int32) string {
	return fmt.Sprintf("%s-%d", topic, partition)
}

// parsePartitionDirName is the inverse of partitionDirName. ok is false for names of anything else, directories with
// Kafka's suffixes included.
func parsePartitionDirName(name string) (topic string, partition int32, ok bool) {
	i := strings.LastIndexByte(name, '-')
	if i < 1 || i == len(name)-1 || len(name)-i > 11 {
		return "", 0, false
	}
	digits := name[i+1:]
	if digits[0] == '0' && len(digits) > 1 {
		return "", 0, false
	}
	n := int64(0)
	for j := range len(digits) {
		if digits[j] < '0' || digits[j] > '9' {
			return "", 0, false
		}
		n = n*10 + int64(digits[j]-'0')
	}
	if n > 1<<31-1 || ValidateTopicName(name[:i]) != nil {
		return "", 0, false
	}
	return name[:i], int32(n), true
}
