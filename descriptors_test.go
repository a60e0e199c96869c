package gateway

import "testing"

func TestDescriptorsAreKeptForFiles(t *testing.T) {
	for _, test := range []struct {
		limit int64
		files int
		http  int64
		fit   int
		conns int64
	}{
		{0, 1024, 0, 1024, 0},
		{1, 1024, 0, 1, 1},
		{64, 1024, 0, 24, 24},
		{256, 1024, 0, 96, 96},
		{1024, 1024, 0, 448, 448},
		{1024, 100, 0, 100, 796},
		{1 << 20, 1024, 0, 1024, 1<<20 - 128 - 1024},
		{0, 1024, 33, 1024, 0},
		{1024, 100, 33, 100, 763},
		{256, 1024, 33, 79, 80},
		{40, 1024, 33, 1, 1},
	} {
		fit, conns := divideDescriptors(test.limit, test.files, test.http)
		if fit != test.fit || conns != test.conns {
			t.Errorf("limit %d, %d files wanted, %d for HTTP: got %d files and %d connections, want %d and %d", test.limit, test.files, test.http, fit, conns, test.fit, test.conns)
		}
		if test.limit > test.http+1 && int64(fit)+conns+test.http > test.limit {
			t.Errorf("limit %d: %d files and %d connections are more", test.limit, fit, conns)
		}
	}
}
