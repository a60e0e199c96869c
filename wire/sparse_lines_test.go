package wire

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestBadConnectionsCauseFewLogLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		var log bytes.Buffer
		s.s.logger = slog.New(slog.NewTextHandler(&log, nil))
		bad := func() {
			c := s.dial(t)
			c.write([]byte("GET "))
			c.expectClosed("no frame")
			synctest.Wait()
		}
		for range 500 {
			bad()
		}
		if n := strings.Count(log.String(), "connection closed"); n != linesPerWindow {
			t.Errorf("%d lines for 500 bad connections, want %d", n, linesPerWindow)
		}
		wait(linesWindow)
		log.Reset()
		bad()
		if want := "left_out=490"; !strings.Contains(log.String(), want) {
			t.Errorf("the next line is %q, want it to say %s", log.String(), want)
		}
	})
}

func TestSparseLinesCountWhatTheyLeaveOut(t *testing.T) {
	var l sparseLines
	now := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	admitted := 0
	for range 25 {
		if _, ok := l.admit(now); ok {
			admitted++
		}
	}
	if left, ok := l.admit(now.Add(linesWindow)); admitted != linesPerWindow || !ok || left != 15 {
		t.Errorf("%d admitted, then %v with %d left out, want %d, true and 15", admitted, ok, left, linesPerWindow)
	}
	if left, ok := l.admit(now); !ok || left != 0 { // a clock that goes back begins a new window
		t.Errorf("after the clock went back: %v with %d left out, want true and 0", ok, left)
	}
}
