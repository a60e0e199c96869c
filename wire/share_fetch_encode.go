package wire

import (
	"encoding/binary"
	"slices"

	"github.com/kaen-log/gateway/storage"
)

// encode returns the body of the answer. It is encoded by hand, and not by kmsg, so that record bytes are not copied:
// the head, which holds all but the records, lies in a buffer of its own that is released with those that the records
// lie in.
//
// The bytes are those of kmsg.ShareFetchResponse.AppendTo, versions 1 and 2. No partition names another leader.
func (f *shareFetchCall) encode() *encoded {
	topics := f.byTopic()
	head := newBuffer(f.headBound())
	b := head.B
	e := &encoded{buffers: append(f.bufs, head)}
	f.bufs = nil
	e.noteFailure(f.code)
	start := 0
	b = binary.BigEndian.AppendUint32(b, 0) // throttle
	b = binary.BigEndian.AppendUint16(b, uint16(f.code))
	b = append(b, 0) // no message
	lock := int64(0)
	if f.code == 0 {
		lock = f.s.shares.Group(f.group).Lock.Milliseconds()
	}
	b = binary.BigEndian.AppendUint32(b, uint32(lock))
	b = appendArrayLen(b, topics, true)
	for i := 0; i < len(f.answers); {
		end := i
		for end < len(f.answers) && f.answers[end].TopicID == f.answers[i].TopicID {
			end++
		}
		b = append(b, f.answers[i].TopicID[:]...)
		b = appendArrayLen(b, end-i, true)
		for ; i < end; i++ {
			a := &f.answers[i]
			e.noteFailure(a.code)
			e.noteFailure(a.ackCode)
			if b = a.appendHead(b); len(a.records) > 0 {
				e.pieces = append(e.pieces, b[start:len(b):len(b)], a.records)
				start = len(b)
			}
			b = a.appendAcquired(b)
		}
		b = append(b, 0)
	}
	b = append(b, 1, 0) // no leaders, no tags
	e.pieces = append(e.pieces, b[start:])
	head.B = b
	return e
}

// byTopic moves the answers for each topic together, and returns how many topics there are.
func (f *shareFetchCall) byTopic() int {
	rank := make(map[storage.TopicID]int)
	for i := range f.answers {
		if _, ok := rank[f.answers[i].TopicID]; !ok {
			rank[f.answers[i].TopicID] = len(rank)
		}
	}
	slices.SortStableFunc(f.answers, func(a, b sharePartition) int { return rank[a.TopicID] - rank[b.TopicID] })
	return len(rank)
}

// headBound is an upper bound of the size of all but the records.
func (f *shareFetchCall) headBound() int {
	const (
		perTopic     = 16 + 5 + 1
		perPartition = 4 + 2 + 5 + 2 + 5 + 8 + 1 + 5 + 5 + 1
		perAcquired  = 8 + 8 + 2 + 1
	)
	n := 4 + 2 + 1 + 4 + 5 + 2
	for i := range f.answers {
		a := &f.answers[i]
		n += perTopic + perPartition + perAcquired*len(a.acquired)
		for _, m := range []*string{a.message, a.ackMessage} {
			if m != nil {
				n += len(*m)
			}
		}
	}
	return n
}

// appendHead appends the fields of a partition up to the length of its records.
func (a *sharePartition) appendHead(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(a.Partition))
	b = binary.BigEndian.AppendUint16(b, uint16(a.code))
	b = appendMessage(b, a.message)
	b = binary.BigEndian.AppendUint16(b, uint16(a.ackCode))
	b = appendMessage(b, a.ackMessage)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0, 0) // the leader: none
	return appendArrayLen(b, len(a.records), true)
}

// appendAcquired appends the fields of a partition after its records.
func (a *sharePartition) appendAcquired(b []byte) []byte {
	b = appendArrayLen(b, len(a.acquired), true)
	for _, r := range a.acquired {
		b = binary.BigEndian.AppendUint64(b, uint64(r.First))
		b = binary.BigEndian.AppendUint64(b, uint64(r.Last))
		b = binary.BigEndian.AppendUint16(b, uint16(r.Deliveries))
		b = append(b, 0)
	}
	return append(b, 0)
}

// appendMessage appends a compact string; nil is null.
func appendMessage(b []byte, s *string) []byte {
	if s == nil {
		return append(b, 0)
	}
	return appendString(b, *s, true)
}
