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
	}})
	if err == nil {
		_ = g.Shutdown(context.Background())
		t.Fatal("got a gateway, want an error")
	}
	var fault *ConfigError
	if !errors.As(err, &fault) || !strings.Contains(err.Error(), "offsets.topic.segment.bytes: 20000, want at least 1048576") || !strings.Contains(err.Error(), "1048575") {
		t.Errorf("got %v, want both configs named", err)
	}
}
