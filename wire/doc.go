// Package wire speaks Kafka's protocol: frames, one file per API key, error codes. It is the only package that knows
// Kafka's messages; what they do is done by storage and groups.
//
// # The surface
//
// apis.go is one table: key, versions, handler. ApiVersions answers from it, docs/compatibility.md is made from it, and
// testdata/surface shows each change of it in the diff. NN_name.go answers key NN.
//
// # A connection
//
// Two goroutines serve a connection. The reader cuts frames from the socket and starts Produce requests; it also
// notices that the peer left. The writer runs every other request and writes all answers in the order of the requests:
//
//	socket -> reader -> queue -> writer -> socket
//	            |                  |
//	            | Produce: append  | Produce: wait for the disk, answer
//	            | others: hand on  | others: call the handler, answer
//
// A Produce may start while earlier ones wait for the disk. One with the first batch of a transaction for a partition also
// waits for the transaction coordinator, and does so before its append, in the reader: what comes behind it is appended
// behind it. Every other request is a barrier: the writer comes to it when all before it are answered, and the reader
// starts nothing after it until it is answered; only the next frame is read ahead. So a parked Fetch holds up what follows
// it, as in Kafka.
//
// On a listener with SASL the reader first goes through authentication (sasl.go), for which it is the writer too: nothing
// is handed on before, and nothing is under way when a session is renewed.
//
// # Memory
//
// A frame's length is checked against the limit of its key before anything is allocated for it (limits.go). What frames
// and answers hold together is bounded by two budgets (memory.go). A request's memory is given back when its answer is
// written, an answer's when the socket took it, and answers never wait for requests, so that the line moves as long as
// peers read; one that does next to nothing, while others wait for its memory, is cut off (stall.go). A part of both is
// kept for small demands. When memory is short, a long frame gets its own as its bytes come (frame_read.go), a fetch gets
// a share of what is left, and any other large answer is not made before there is room (large_answers.go).
//
// # Errors
//
// Below wire an error is a Go error; errors.go maps it to one Kafka code. A handler returns an error only to drop the
// connection.
package wire
