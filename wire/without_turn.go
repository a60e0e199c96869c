package wire

import (
	"iter"

	"github.com/kaen-log/gateway/storage"
)

// withoutTurn runs wait, which waits for more than memory, as for a log that recovers. A large request gives its turn to
// others meanwhile, and what it was decoded to is not kept: req, which points to the kmsg request, is decoded again
// afterwards, when it is its turn once more. So wait uses nothing of req, no part of the answer has been made, and the frame
// has not been given back. An error drops the connection.
func withoutTurn[T any](r *request, req *T, wait func()) error {
	c := r.conn
	if c == nil || !c.requestTurn {
		wait()
		return nil
	}
	call := c.answering
	_, body, err := parseHeader(call.frame.B, c.server.apis.flexible)
	if err != nil {
		return err // it was parsed before
	}
	call.message, call.body = nil, body
	var none T
	*req = none
	c.endTurns()
	wait()
	if err := c.decodeLarge(call); err != nil {
		return err
	}
	*req = *any(call.message).(*T)
	return nil
}

// keepsTurn reports whether the request is a large one, whose turn others wait for.
func (r *request) keepsTurn() bool { return r.conn != nil && r.conn.requestTurn }

// recoverFirst waits, without a turn, for the partitions that a request is about until they are recovered since the start.
// An error of one comes again when it is used. wanted looks at req, and is over before that is forgotten.
func recoverFirst[T any](s *Server, r *request, req *T, wanted iter.Seq2[*storage.Topic, int32]) error {
	return recoverLogs(s, r, req, func(yield func(*storage.Log) bool) {
		for topic, partition := range wanted {
			if log, ok := topic.Partition(partition); ok && !yield(log) {
				return
			}
		}
	})
}

// recoverLogs is recoverFirst for logs.
func recoverLogs[T any](s *Server, r *request, req *T, wanted iter.Seq[*storage.Log]) error {
	if s.store.Stats().Recovered {
		return nil
	}
	logs := map[*storage.Log]bool{}
	for log := range wanted {
		if st := log.Status(); st == storage.StatusIdle || st == storage.StatusRecovering {
			logs[log] = true
		}
	}
	if len(logs) == 0 {
		return nil
	}
	return withoutTurn(r, req, func() {
		for log := range logs {
			_, _ = log.Offsets()
		}
	})
}
