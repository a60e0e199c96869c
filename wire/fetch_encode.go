package wire

import (
	"encoding/binary"

	"github.com/kaen-log/gateway/storage"
)

// fetchResponse is what a FetchResponse says. It is encoded by hand, and not by kmsg, so that record bytes are not
// copied: the encoding is a list of pieces, in which the records are the slices they were read into.
//
// The bytes are those of kmsg.FetchResponse.AppendTo, version 4 to 18.
type fetchResponse struct {
	throttleMs int32
	code       int16
	sessionID  int32
	// partitions in order; consecutive ones of the same topic share an entry in the response. Those with omit set
	// are left out.
	partitions []fetchPartition

	// The leader, for partitions that name it; without its address when noAddress is set, as Kafka tells replicas.
	noAddress  bool
	leaderID   int32
	leaderHost string
	leaderPort int32
	leaderRack *string
}

// fetchPartition is one partition of a fetch: what was asked, where it is, and what was found.
type fetchPartition struct {
	key       fetchKey
	want      fetchWant
	inSession *sessionPartition // nil without a session
	topicName string            // that the topic's id stands for, or stood when the session last found it; "" by name
	log       *storage.Log      // nil when the partition was not found or may not be read

	code          int16
	highWatermark int64
	lastStable    int64
	logStart      int64
	records       []byte
	// aborted is sent as null, not as an empty list, when abortedNull is set.
	aborted     []storage.AbortedTxn
	abortedNull bool
	// divergingEpoch and divergingEnd tell a follower where to cut; -1 when there is nothing to cut.
	divergingEpoch int32
	divergingEnd   int64
	// leaderEpoch is sent with the leader when namesLeader is set (version 16 on).
	namesLeader bool
	leaderEpoch int32

	omit bool
}

// encode returns the body of the response. The head, which holds all but the records, lies in a buffer of its own that
// is released with bufs, in which the records lie.
func (f *fetchResponse) encode(version int16, bufs []*buffer) *encoded {
	head := newBuffer(f.headBound())
	b := head.B
	e := &encoded{buffers: append(bufs, head)}
	// cut closes the piece of the head that began at start and puts the records behind it. The head never outgrows
	// its buffer, so that the pieces stay where they are.
	start := 0
	cut := func(records []byte) {
		e.pieces = append(e.pieces, b[start:len(b):len(b)], records)
		start = len(b)
	}

	flexible := version >= 12
	e.noteFailure(f.code)
	b = binary.BigEndian.AppendUint32(b, uint32(f.throttleMs))
	if version >= 7 {
		b = binary.BigEndian.AppendUint16(b, uint16(f.code))
		b = binary.BigEndian.AppendUint32(b, uint32(f.sessionID))
	}
	topics, pieces := f.count(version)
	e.pieces = make([][]byte, 0, 2*pieces+1)
	b = appendArrayLen(b, topics, flexible)
	for i := f.next(0); i < len(f.partitions); {
		topic := &f.partitions[i].key
		if version >= 13 {
			b = append(b, topic.id[:]...)
		} else {
			b = appendString(b, topic.topic, flexible)
		}
		end, n := f.sameTopic(i, version)
		b = appendArrayLen(b, n, flexible)
		for ; i < end; i = f.next(i + 1) {
			p := &f.partitions[i]
			e.noteFailure(p.code)
			b = p.appendHead(b, version)
			if len(p.records) > 0 {
				cut(p.records)
			}
			if flexible {
				b = p.appendTags(b, f.leaderID)
			}
		}
		if flexible {
			b = append(b, 0)
		}
	}
	if flexible {
		b = f.appendTags(b)
	}
	e.pieces = append(e.pieces, b[start:])
	head.B = b
	return e
}

// next returns the index of the first partition to send at or after i.
func (f *fetchResponse) next(i int) int {
	for i < len(f.partitions) && f.partitions[i].omit {
		i++
	}
	return i
}

// sameTopic returns the end of the run of partitions that share the topic of partition i, and how many of them are
// sent.
func (f *fetchResponse) sameTopic(i int, version int16) (end, n int) {
	k := &f.partitions[i].key
	for end = i; end < len(f.partitions); end = f.next(end + 1) {
		other := &f.partitions[end].key
		if version >= 13 && other.id != k.id || version < 13 && other.topic != k.topic {
			break
		}
		n++
	}
	return end, n
}

// count returns how many topic entries the response has and how many partitions have records.
func (f *fetchResponse) count(version int16) (topics, withRecords int) {
	for i := f.next(0); i < len(f.partitions); {
		topics++
		end, _ := f.sameTopic(i, version)
		for ; i < end; i = f.next(i + 1) {
			if len(f.partitions[i].records) > 0 {
				withRecords++
			}
		}
	}
	return topics, withRecords
}

// headBound is an upper bound of the size of all but the records.
func (f *fetchResponse) headBound() int {
	const (
		perTopic     = 16 + 5 + 5 + 1     // id or the length of the name, array length, tags
		perPartition = 34 + 4 + 5 + 5 + 1 // fixed fields, preferred replica, array and records length, no tags
		perTags      = 2 * (2 + 13)       // diverging epoch and leader
	)
	n := 10 + 5 + 1 + 2*5 + 16 + len(f.leaderHost)
	if f.leaderRack != nil {
		n += 5 + len(*f.leaderRack)
	}
	for i := range f.partitions {
		if p := &f.partitions[i]; !p.omit {
			n += perTopic + len(p.key.topic) + perPartition + perTags + 17*len(p.aborted)
		}
	}
	return n
}

// appendHead appends the fields of a partition up to the length of its records.
func (p *fetchPartition) appendHead(b []byte, version int16) []byte {
	flexible := version >= 12
	b = binary.BigEndian.AppendUint32(b, uint32(p.key.partition))
	b = binary.BigEndian.AppendUint16(b, uint16(p.code))
	b = binary.BigEndian.AppendUint64(b, uint64(p.highWatermark))
	b = binary.BigEndian.AppendUint64(b, uint64(p.lastStable))
	if version >= 5 {
		b = binary.BigEndian.AppendUint64(b, uint64(p.logStart))
	}
	if p.abortedNull {
		b = appendArrayLen(b, -1, flexible)
	} else {
		b = appendArrayLen(b, len(p.aborted), flexible)
		for _, a := range p.aborted {
			b = binary.BigEndian.AppendUint64(b, uint64(a.ProducerID))
			b = binary.BigEndian.AppendUint64(b, uint64(a.FirstOffset))
			if flexible {
				b = append(b, 0)
			}
		}
	}
	if version >= 11 {
		b = binary.BigEndian.AppendUint32(b, ^uint32(0)) // preferred read replica: none
	}
	return appendArrayLen(b, len(p.records), flexible) // zero bytes, never null
}

// appendTags appends the tagged fields of a partition (version 12 on).
func (p *fetchPartition) appendTags(b []byte, leaderID int32) []byte {
	n := byte(0)
	if p.divergingEpoch >= 0 {
		n++
	}
	if p.namesLeader {
		n++
	}
	b = append(b, n)
	if p.divergingEpoch >= 0 {
		b = append(b, 0, 4+8+1)
		b = binary.BigEndian.AppendUint32(b, uint32(p.divergingEpoch))
		b = binary.BigEndian.AppendUint64(b, uint64(p.divergingEnd))
		b = append(b, 0)
	}
	if p.namesLeader {
		b = append(b, 1, 4+4+1)
		b = binary.BigEndian.AppendUint32(b, uint32(leaderID))
		b = binary.BigEndian.AppendUint32(b, uint32(p.leaderEpoch))
		b = append(b, 0)
	}
	return b
}

// appendTags appends the tagged fields of the response (version 12 on): the address of the leader if a partition
// names it.
func (f *fetchResponse) appendTags(b []byte) []byte {
	named := false
	for i := range f.partitions {
		named = named || f.partitions[i].namesLeader && !f.partitions[i].omit
	}
	if !named || f.noAddress {
		return append(b, 0)
	}
	size := 1 + 4 + uvarintLen(len(f.leaderHost)+1) + len(f.leaderHost) + 4 + 1 + 1
	if f.leaderRack != nil {
		size += uvarintLen(len(*f.leaderRack)+1) - 1 + len(*f.leaderRack)
	}
	b = append(b, 1, 0)
	b = binary.AppendUvarint(b, uint64(size))
	b = append(b, 2) // one endpoint
	b = binary.BigEndian.AppendUint32(b, uint32(f.leaderID))
	b = appendString(b, f.leaderHost, true)
	b = binary.BigEndian.AppendUint32(b, uint32(f.leaderPort))
	if f.leaderRack == nil {
		b = append(b, 0)
	} else {
		b = appendString(b, *f.leaderRack, true)
	}
	return append(b, 0)
}

// appendArrayLen appends the length of an array or of bytes; n = -1 is null.
func appendArrayLen(b []byte, n int, flexible bool) []byte {
	if flexible {
		return binary.AppendUvarint(b, uint64(n+1))
	}
	return binary.BigEndian.AppendUint32(b, uint32(n))
}

// appendString appends a string that is not null.
func appendString(b []byte, s string, flexible bool) []byte {
	if flexible {
		b = binary.AppendUvarint(b, uint64(len(s)+1))
	} else {
		b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
	}
	return append(b, s...)
}

// uvarintLen returns the length of n as an unsigned varint.
func uvarintLen(n int) int {
	size := 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}
