package gateway

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kaen-log/gateway/storage/vfs"
)

func TestSegmentsOfInternalTopicsThatNoTopicMayHaveAreRefused(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	g, err := Start(context.Background(), Options{FS: mem, Config: map[string]string{
		"listeners": "PLAINTEXT://127.0.0.1:0", "offsets.topic.segment.bytes": "20000", "share.coordinator.state.topic.segment.bytes": "1048575",
		"transaction.state.log.segment.bytes": "1048574",
	}})
	if err == nil {
		_ = g.Shutdown(context.Background())
		t.Fatal("got a gateway, want an error")
	}
	var fault *ConfigError
	if !errors.As(err, &fault) {
		t.Fatalf("got %v, want a fault of the configuration", err)
	}
	for _, want := range []string{"offsets.topic.segment.bytes: 20000, want at least 1048576", "share.coordinator.state.topic.segment.bytes: 1048575", "transaction.state.log.segment.bytes: 1048574"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}
