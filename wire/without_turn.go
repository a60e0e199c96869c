package wire

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
