package wire

import (
	"sync"
	"time"
)

// sparseLines writes log lines of one kind, at most linesPerWindow in a window of time, since strangers can cause as many
// as they like. Each line says how many were left out before it. The zero value is ready to use.
type sparseLines struct {
	mu      sync.Mutex
	began   time.Time // of the window, by Options.Now; guarded by mu
	written int       // in this window; guarded by mu
	leftOut int64     // since the last line; guarded by mu
}

const (
	linesWindow    = 10 * time.Second
	linesPerWindow = 10
)

// warn writes a line, or counts it as left out.
func (l *sparseLines) warn(s *Server, msg string, attrs ...any) {
	if leftOut, ok := l.admit(s.now()); ok {
		s.logger.Warn(msg, append(attrs, "left_out", leftOut)...)
	}
}

// admit reports whether a line may be written now, and how many were left out since the last.
func (l *sparseLines) admit(now time.Time) (leftOut int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := now.Sub(l.began); d < 0 || d >= linesWindow {
		l.began, l.written = now, 0
	}
	if l.written == linesPerWindow {
		l.leftOut++
		return 0, false
	}
	l.written++
	leftOut, l.leftOut = l.leftOut, 0
	return leftOut, true
}

// flush says at the end what was left out since the last line.
func (l *sparseLines) flush(s *Server, msg string) {
	l.mu.Lock()
	leftOut := l.leftOut
	l.leftOut = 0
	l.mu.Unlock()
	if leftOut > 0 {
		s.logger.Warn(msg, "left_out", leftOut)
	}
}
