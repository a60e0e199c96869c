// Package compare holds two Kafka-compatible brokers against each other: it sends the same raw requests to both and
// compares every field of every answer.
//
// A Scenario is one YAML file in scenarios/. It runs as one or more cases (one for each version of an api, one for each
// row of its table), each case on both sides at once, and what came back is a Transcript: for each step the fields of
// the answer as (path, value), after the normalisers have replaced what must differ between two brokers (ids,
// addresses, epochs, clocks) by a name given at first sight, so that identity is still compared. Diff compares two
// transcripts; expected-differences.yaml holds the differences that are meant, each with its reason.
//
// Requests are encoded and answers decoded by the tables in schema/, which are Kafka's own field names, types and
// versions, and by nothing else: no client library and no codec that the server uses, so that a fault in one of them
// shows, and retries hide nothing.
//
// A session is what clients and a broker said to each other, recorded by a Proxy in the file that is told of at Event.
// Replay sends it again and compares as above: the same normalisers, Diff and reports, and a rebinding for what the
// recorded broker had given. A guard decides what of a session may be written.
package compare
