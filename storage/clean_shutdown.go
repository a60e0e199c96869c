package storage

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/kaen-log/gateway/storage/vfs"
)

// cleanShutdownFile says that the store was stopped in order: all logs are flushed and their checkpoints true. It is
// one line of JSON, {"version":0,"brokerEpoch":7}; old brokers left it empty, and that it exists is what counts.
// Kafka: CleanShutdownFileHandler.
const cleanShutdownFile = ".kafka_cleanshutdown"

// encodeCleanShutdown returns the content of the marker.
func encodeCleanShutdown(brokerEpoch int64) []byte {
	return fmt.Appendf(nil, `{"version":0,"brokerEpoch":%d}`, brokerEpoch)
}

// DecodeCleanShutdown returns the broker epoch in the marker b, -1 when it has none.
func DecodeCleanShutdown(b []byte) (int64, error) {
	if len(b) == 0 {
		return -1, nil
	}
	var content struct {
		BrokerEpoch *int64 `json:"brokerEpoch"`
	}
	if err := json.Unmarshal(b, &content); err != nil {
		var at int64
		if s, ok := errors.AsType[*json.SyntaxError](err); ok {
			at = s.Offset
		}
		return -1, &DecodeError{Format: "clean shutdown marker", Position: at, Reason: err.Error()}
	}
	if content.BrokerEpoch == nil {
		return -1, nil
	}
	return *content.BrokerEpoch, nil
}

// writeCleanShutdown writes the marker into the data directory, durably. It is the last step of a clean stop.
func writeCleanShutdown(fsys vfs.FS, dir string, brokerEpoch int64) error {
	return replaceFile(fsys, filepath.Join(dir, cleanShutdownFile), encodeCleanShutdown(brokerEpoch))
}

// takeCleanShutdown reports whether the data directory has the marker and removes it, durably, so that a crash from
// now on counts as one. It is the first step of a start. All other names in the directory are durable afterwards, too:
// those of partitions that a process which was killed had just made, and that are taken for made from now on.
func takeCleanShutdown(fsys vfs.FS, dir string) (bool, error) {
	err := fsys.Remove(filepath.Join(dir, cleanShutdownFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err := fsys.SyncDir(dir); err != nil {
		return false, err
	}
	return err == nil, nil
}
