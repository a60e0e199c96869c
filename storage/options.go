package storage

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/kaen-log/gateway/storage/vfs"
)

// Durability says when an append counts as durable, and so becomes visible and is acknowledged.
type Durability int8

const (
	// Sync counts an append as durable when fdatasync has returned for it. A power loss takes nothing that was
	// acknowledged.
	Sync Durability = iota
	// Async counts an append as durable when it is in the page cache; the disk follows in the background. A
	// killed process loses nothing, a power loss may take the last moments of acknowledged records.
	Async
)

// String returns the value as gateway.durability spells it.
func (d Durability) String() string {
	switch d {
	case Sync:
		return "sync"
	case Async:
		return "async"
	}
	return fmt.Sprintf("durability(%d)", int8(d))
}

// ParseDurability is the inverse of String.
func ParseDurability(s string) (Durability, error) {
	switch s {
	case "sync":
		return Sync, nil
	case "async":
		return Async, nil
	}
	return 0, fmt.Errorf("durability %q, want sync or async", s)
}

// Options configures a Store. The zero value is usable.
type Options struct {
	// FS is the file system; nil is the operating system's.
	FS vfs.FS
	// Now is the clock for everything that is decided by time; nil is the file system's own clock, which for the
	// operating system is time.Now.
	Now func() time.Time
	// Logger receives what a person running the store should know; nil discards.
	Logger *slog.Logger

	// Durability of all logs but the metadata log, which is always Sync.
	Durability Durability

	// NodeID is the broker's id, at least 0; nil is 1. It is written to meta.properties. A directory of another id is
	// taken over with a warning.
	NodeID *int32
	// ClusterID of a new directory; "" makes a random one, which is then kept. It must match an existing one.
	ClusterID string

	// TopicDefaults are broker-level defaults by topic config name, such as "segment.bytes".
	TopicDefaults map[string]string

	// OpenFiles is how many files the logs may hold open at a time; 0 is 1024. A log that is being read or
	// written may exceed it for a moment.
	OpenFiles int
	// RecoveryThreads is how many partitions the background recovers at a time; 0 is 2. A partition that is used
	// before its turn is recovered by its first user besides.
	RecoveryThreads int
	// SyncThreads is how many files are synced to disk at a time; 0 is 16.
	SyncThreads int
	// CheckpointInterval is how often recovery points and log starts are written; 0 is one minute.
	CheckpointInterval time.Duration
	// ProducerIDExpiration is how long an idempotent producer without an open transaction is remembered after
	// its last batch (producer.id.expiration.ms); 0 is one day.
	ProducerIDExpiration time.Duration
	// ProducerIDExpirationInterval is how often expired producers are looked for
	// (producer.id.expiration.check.interval.ms); 0 is ten minutes.
	ProducerIDExpirationInterval time.Duration

	// AnswerDuplicatesEarly breaks a promise: a duplicate is acknowledged although its original may not be durable. It is
	// for the proof that the crash tests notice, and for nothing else.
	AnswerDuplicatesEarly bool
}

// setDefaults fills in what is zero.
func (o *Options) setDefaults() {
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	if o.Now == nil {
		o.Now = vfs.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.NodeID == nil {
		o.NodeID = new(int32(1))
	}
	if o.OpenFiles == 0 {
		o.OpenFiles = 1024
	}
	if o.RecoveryThreads == 0 {
		o.RecoveryThreads = 2
	}
	if o.SyncThreads == 0 {
		o.SyncThreads = 16
	}
	if o.CheckpointInterval == 0 {
		o.CheckpointInterval = time.Minute
	}
	if o.ProducerIDExpiration == 0 {
		o.ProducerIDExpiration = 24 * time.Hour
	}
	if o.ProducerIDExpirationInterval == 0 {
		o.ProducerIDExpirationInterval = 10 * time.Minute
	}
}

// validate reports every fault at once. Topic defaults are checked by Open against the config table.
func (o *Options) validate() error {
	var faults []error
	if o.Durability != Sync && o.Durability != Async {
		faults = append(faults, fmt.Errorf("durability %d, want Sync or Async", o.Durability))
	}
	if *o.NodeID < 0 {
		faults = append(faults, fmt.Errorf("node id %d, want at least 0", *o.NodeID))
	}
	for _, n := range []struct {
		name string
		n    int64
	}{
		{"open files", int64(o.OpenFiles)},
		{"recovery threads", int64(o.RecoveryThreads)},
		{"sync threads", int64(o.SyncThreads)},
		{"checkpoint interval", int64(o.CheckpointInterval)},
		{"producer id expiration", int64(o.ProducerIDExpiration)},
		{"producer id expiration interval", int64(o.ProducerIDExpirationInterval)},
	} {
		if n.n < 1 {
			faults = append(faults, fmt.Errorf("%s %d, want at least 1", n.name, n.n))
		}
	}
	return errors.Join(faults...)
}
