package gateway

import "testing"

func TestDescriptorsAreKeptForFiles(t *testing.T) {
	for _, test := range []struct {
		limit int64
		files int
		fit   int
		conns int64
	}{
		{0, 1024, 1024, 0},
		{1, 1024, 1, 1},
		{64, 1024, 24, 24},
		{256, 1024, 96, 96},
		{1024, 1024, 448, 448},
		{1024, 100, 100, 796},
		{1 << 20, 1024, 1024, 1<<20 - 128 - 1024},
	} {
		fit, conns := divideDescriptors(test.limit, test.files)
		if fit != test.fit || conns != test.conns {
			t.Errorf("limit %d, %d files wanted: got %d files and %d connections, want %d and %d", test.limit, test.files, fit, conns, test.fit, test.conns)
		}
		if test.limit > 1 && int64(fit)+conns > test.limit {
			t.Errorf("limit %d: %d files and %d connections are more", test.limit, fit, conns)
		}
	}
}
