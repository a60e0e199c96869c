package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kaen-log/gateway/groups"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
	"github.com/kaen-log/gateway/txn"
)

func TestErrorCodes(t *testing.T) {
	tests := []struct {
		err  error
		want int16
	}{
		{nil, 0},
		{io.ErrUnexpectedEOF, -1},
		{kerr.UnknownTopicID, 100},
		{detail(kerr.InvalidPartitions, "x"), 37},
		{fmt.Errorf("create topic x: %w", storage.ErrTopicExists), 36},
		{&storage.ConfigError{Name: "retention.ms", Value: "x", Reason: "not a number"}, 40},
		{errors.Join(&storage.ConfigError{Name: "a"}, &storage.ConfigError{Name: "b"}), 40},
		{&storage.OfflineError{Topic: "x", Cause: &storage.CorruptError{File: "f"}}, 56},
		{&storage.CorruptError{File: "f"}, 56},
		{fmt.Errorf("append: %w", vfs.ErrNoSpace), 56},
		{&record.InvalidError{Kind: record.InvalidRecord}, 87},
		{fmt.Errorf("append: %w", &record.InvalidError{Kind: record.InvalidTimestamp}), 32},
		{fmt.Errorf("append: %w", &record.InvalidError{Kind: record.Undecodable}), -1},
		{&record.CorruptError{Reason: "crc"}, 2},
		{record.ErrUnknownCodec, -1},
		{groups.ErrLoading, 14},
		{fmt.Errorf("make the topic: %w: %w", groups.ErrNotAvailable, storage.ErrStorage), 15},
		{fmt.Errorf("commit: %w: %w", groups.ErrNotCoordinator, storage.ErrStorage), 16},
		{fmt.Errorf("commit: %w: %w", groups.ErrCommitTooLarge, storage.ErrBatchTooLarge), -1},
		{fmt.Errorf("add: %w", txn.ErrConcurrentTransactions), 51},
		{fmt.Errorf("end: %w: %w", txn.ErrNotAvailable, context.Canceled), 15},
		{fmt.Errorf("write: %w: %w", txn.ErrTooLarge, storage.ErrBatchTooLarge), -1},
		{context.DeadlineExceeded, 7},
	}
	for _, test := range tests {
		if got := errorCode(test.err); got != test.want {
			t.Errorf("%v: code %d, want %d", test.err, got, test.want)
		}
	}
	for _, err := range neverSent {
		if got := errorCode(err); got != -1 {
			t.Errorf("%v: code %d for an error that is listed as never sent, want -1", err, got)
		}
	}
}

func TestErrorMessages(t *testing.T) {
	if got := errorMessage(nil); got != nil {
		t.Errorf("message %q without an error", *got)
	}
	tests := []struct {
		err  error
		want string
	}{
		{detail(kerr.InvalidPartitions, "0 partitions"), "0 partitions"},
		{storage.ErrTopicExists, storage.ErrTopicExists.Error()},
		{errors.New("open /home/me/secret: no"), kerr.UnknownServerError.Description},
	}
	for _, test := range tests {
		if got := errorMessage(test.err); deref(got) != test.want {
			t.Errorf("%v: message %q, want %q", test.err, deref(got), test.want)
		}
	}
}
