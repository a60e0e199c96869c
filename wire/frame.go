package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A frame is a length and that many bytes:
//
//	length   int32, of what follows
//	key      int16
//	version  int16
//	id       int32, the correlation id
//	client   int16 length and bytes, negative for null; the length is never compact
//	tags     flexible versions only: a count, then number, size and bytes of each
//	body     by key and version
//
// An answer's frame is a length, the correlation id, an empty tag section in flexible versions of all keys but
// ApiVersions, and the body.
const (
	lengthSize       = 4
	fixedHeaderSize  = 8  // key, version, id
	answerHeaderSize = 9  // length, id, tags; the tags only in flexible versions
	smallestFrame    = 10 // fixed header and the client's length
)

// frameError says why a frame cannot be answered. The connection is closed: the stream has no place to go on from.
type frameError struct{ reason string }

func (e *frameError) Error() string { return e.reason }

func frameErrorf(format string, args ...any) error {
	return &frameError{reason: fmt.Sprintf(format, args...)}
}

// header is a parsed request header.
type header struct {
	key, version  int16
	correlationID int32
	clientID      []byte // aliases the frame; nil for null, which is any negative length
}

// parseHeader cuts the header off a frame (without its length). flexible says whether a tag section follows the client
// id, which depends on key and version.
func parseHeader(frame []byte, flexible func(key, version int16) bool) (h header, body []byte, err error) {
	if len(frame) < smallestFrame {
		return h, nil, frameErrorf("frame of %d bytes has no room for a header", len(frame))
	}
	h.key = int16(binary.BigEndian.Uint16(frame))
	h.version = int16(binary.BigEndian.Uint16(frame[2:]))
	h.correlationID = int32(binary.BigEndian.Uint32(frame[4:]))
	n := int(int16(binary.BigEndian.Uint16(frame[fixedHeaderSize:])))
	body = frame[smallestFrame:]
	if n > len(body) {
		return h, nil, frameErrorf("client id of %d bytes with %d bytes left", n, len(body))
	}
	if n >= 0 {
		h.clientID, body = body[:n:n], body[n:]
	}
	if flexible(h.key, h.version) {
		if body, err = skipTags(body); err != nil {
			return h, nil, fmt.Errorf("header: %w", err)
		}
	}
	return h, body, nil
}

var errTags = errors.New("tag section runs over the end")

// skipTags skips a tag section, whatever its tags mean. Kafka: unknown tags are ignored (KIP-482).
func skipTags(b []byte) ([]byte, error) {
	count, b, ok := cutUvarint(b)
	if !ok {
		return nil, errTags
	}
	for range count {
		var size uint32
		if _, b, ok = cutUvarint(b); !ok {
			return nil, errTags
		}
		if size, b, ok = cutUvarint(b); !ok || uint64(size) > uint64(len(b)) {
			return nil, errTags
		}
		b = b[size:]
	}
	return b, nil
}

// cutUvarint cuts an unsigned varint of at most 32 bits off b.
func cutUvarint(b []byte) (v uint32, rest []byte, ok bool) {
	for i := 0; i < len(b) && i < 5; i++ {
		c := b[i]
		if i == 4 && c > 0x0f {
			return 0, nil, false
		}
		v |= uint32(c&0x7f) << (7 * i)
		if c < 0x80 {
			return v, b[i+1:], true
		}
	}
	return 0, nil, false
}

// appendAnswerHeader appends the head of an answer's frame to dst. The length is filled in by finishAnswer.
func appendAnswerHeader(dst []byte, correlationID int32, tags bool) []byte {
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	if tags {
		dst = append(dst, 0)
	}
	return dst
}

// finishAnswer fills in the length of an answer that is head and rest more bytes.
func finishAnswer(head []byte, rest int) {
	binary.BigEndian.PutUint32(head, uint32(len(head)-lengthSize+rest))
}
