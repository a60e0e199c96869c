package compare

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"time"

	"github.com/kaen-log/gateway/storage/record"
)

// Event is one thing that happened in a recorded session.
//
// # The file of a session
//
// A session is one file that is only appended to, one write for each event, before what happened goes on: a frame is in
// the file before the proxy passes it on, so that the file holds all that client and broker ever saw, also when the
// proxy is killed. Numbers are big endian, varints as in Kafka's protocol, texts a uvarint of their length and UTF-8.
//
//	file   = "gwsess" version(uint16) block…      version is 1
//	block  = length(uint32) crc(uint32) body      of the body; CRC-32C as in record batches
//	body   = kind(uint8) flags(uint8) connection(uvarint) offset(uvarint) rest
//
// connection counts from 1 in the order in which clients connected and is 0 in the first block. offset is the time since
// the session began, in microseconds, and never goes back. The rest depends on the kind:
//
//	0 began    started(int64, Unix milliseconds) upstream(text) product(text)   the first block and no other
//	1 opened   broker(text)    a client connected and is passed on to this HOST:PORT
//	2 request  frame           from the client, without its length
//	3 answer   frame           from the broker, without its length, as the broker sent it: with its own addresses
//	4 closed   by(uint8)       1 the client, 2 the broker, 3 the proxy
//
// Flags of a frame: 1 secrets in it are replaced by the text (redacted), lengths and all; 2 it is withheld, because it is
// a token of SASL, or may be one, or hold secrets and does not decode: its length is kept, as a uint32, and of a frame
// that is known to be Kafka's the header up to the correlation id.
//
// Blocks stand in the order in which they happened, over all connections. A block that the file ends within is torn:
// the proxy was killed while it wrote. A block whose CRC is wrong is damage, and the last block alone is taken for torn.
type Event struct {
	Number     int // of the event in its session, from 1
	Kind       EventKind
	Flags      EventFlags
	Connection int
	Offset     time.Duration // since the session began
	Frame      []byte        // of a request or an answer; of one that is withheld the header or nothing
	Length     int           // of the frame as it was sent, when it is withheld
	Broker     string        // of what opened: HOST:PORT; of what began: what was recorded
	By         Party         // of what closed
	Started    time.Time     // of what began
	Product    string        // of what began: the Product of the broker that is recorded
}

// EventKind says what happened.
type EventKind uint8

// The kinds of events.
const (
	Began EventKind = iota
	Opened
	RequestSent
	AnswerSent
	Closed
)

// EventFlags say how a frame is kept.
type EventFlags uint8

// The flags of events.
const (
	Redacted EventFlags = 1 << iota // secrets in it were replaced
	Withheld                        // only its length and perhaps its header are kept
)

// Party is who ended a connection.
type Party uint8

// The parties of a session.
const (
	ByClient Party = iota + 1
	ByBroker
	ByProxy
)

func (p Party) String() string {
	switch p {
	case ByClient:
		return "the client"
	case ByBroker:
		return "the broker"
	case ByProxy:
		return "the proxy"
	}
	return fmt.Sprintf("party %d", uint8(p))
}

const (
	sessionMagic   = "gwsess"
	sessionVersion = 1
	blockHeader    = 8
	// maxBlock bounds what is read for one block: the longest frame, and what stands before it.
	maxBlock = maxAnswer + 64
)

// ErrTorn says that a session ends within a block; what came before it is whole.
var ErrTorn = errors.New("the end is torn")

// sessionHead is what a file begins with.
func sessionHead() []byte { return binary.BigEndian.AppendUint16([]byte(sessionMagic), sessionVersion) }

// block returns an event as it stands in the file. Its number is not written.
func (e *Event) block() []byte {
	b := make([]byte, blockHeader, blockHeader+32+len(e.Frame))
	b = append(b, byte(e.Kind), byte(e.Flags))
	b = binary.AppendUvarint(b, uint64(e.Connection))
	b = binary.AppendUvarint(b, uint64(e.Offset.Microseconds()))
	switch e.Kind {
	case Began:
		b = binary.BigEndian.AppendUint64(b, uint64(e.Started.UnixMilli()))
		b = appendText(appendText(b, e.Broker), e.Product)
	case Opened:
		b = appendText(b, e.Broker)
	case RequestSent, AnswerSent:
		if e.Flags&Withheld != 0 {
			b = binary.BigEndian.AppendUint32(b, uint32(e.Length))
		}
		b = append(b, e.Frame...)
	case Closed:
		b = append(b, byte(e.By))
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-blockHeader))
	binary.BigEndian.PutUint32(b[4:], record.CRC32C(b[blockHeader:]))
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Session yields the events of a file in their order. What does not read ends it with an error: ErrTorn when the file
// merely ends too early.
func Session(r io.Reader) iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		s := sessionReader{r: bufio.NewReaderSize(r, 64<<10)}
		if err := s.head(); err != nil {
			yield(nil, err)
			return
		}
		for {
			e, err := s.next()
			if err == io.EOF {
				if s.last.Number == 0 {
					yield(nil, fmt.Errorf("position %d: %w: nothing is recorded", s.at, ErrTorn))
				}
				return
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

type sessionReader struct {
	r    *bufio.Reader
	at   int64 // position of the next block
	last Event // without its frame
}

func (s *sessionReader) head() error {
	want := sessionHead()
	got := make([]byte, len(want))
	n, err := io.ReadFull(s.r, got)
	switch {
	case n >= len(sessionMagic) && string(got[:len(sessionMagic)]) != sessionMagic || n == 0:
		return errors.New("not a session of gateway record")
	case err == io.ErrUnexpectedEOF:
		return fmt.Errorf("%w after %d bytes", ErrTorn, n)
	case err != nil:
		return err
	}
	if v := binary.BigEndian.Uint16(got[len(sessionMagic):]); v != sessionVersion {
		return fmt.Errorf("a session in format %d; this gateway reads format %d", v, sessionVersion)
	}
	s.at = int64(len(want))
	return nil
}

// next reads one block; io.EOF where a block could begin and the file ends.
func (s *sessionReader) next() (*Event, error) {
	torn := func(err error, had int) error {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return fmt.Errorf("position %d: %w: %d bytes of a block that did not get whole", s.at, ErrTorn, had)
		}
		return err
	}
	var head [blockHeader]byte
	if n, err := io.ReadFull(s.r, head[:]); err == io.EOF {
		return nil, io.EOF
	} else if err != nil {
		return nil, torn(err, n)
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxBlock {
		return nil, fmt.Errorf("position %d: a block of %d bytes, at most %d are written", s.at, size, maxBlock)
	}
	body, err := readAtMost(s.r, int(size))
	if err != nil {
		return nil, torn(err, blockHeader+len(body))
	}
	if got, want := record.CRC32C(body), binary.BigEndian.Uint32(head[4:]); got != want {
		if _, err := s.r.Peek(1); err == io.EOF {
			return nil, fmt.Errorf("position %d: %w: the CRC of the last block is %08x, want %08x", s.at, ErrTorn, got, want)
		}
		return nil, fmt.Errorf("position %d: damaged: CRC %08x, want %08x", s.at, got, want)
	}
	e, err := parseEvent(body, &s.last)
	if err != nil {
		return nil, fmt.Errorf("position %d: %w", s.at, err)
	}
	s.at += blockHeader + int64(size)
	s.last = *e
	s.last.Frame = nil
	return e, nil
}

// readAtMost reads n bytes and takes memory only as they come: a length alone allocates nothing.
func readAtMost(r io.Reader, n int) ([]byte, error) {
	const step = 1 << 20
	var b []byte
	for len(b) < n {
		at := len(b)
		b = append(b, make([]byte, min(step, n-at))...)
		if got, err := io.ReadFull(r, b[at:]); err != nil {
			return b[:at+got], err
		}
	}
	return b, nil
}

// parseEvent reads the body of a block that follows last.
func parseEvent(b []byte, last *Event) (*Event, error) {
	e := &Event{Number: last.Number + 1}
	d := decoder{b: b, flexible: true}
	e.Kind, e.Flags = EventKind(d.int(1)), EventFlags(d.int(1))
	connection, offset := d.uvarint(), d.uvarint()
	if d.err == nil && (connection > math.MaxInt32 || offset > math.MaxInt64/1000) {
		return nil, fmt.Errorf("connection %d, offset %d: too large", connection, offset)
	}
	e.Connection, e.Offset = int(connection), time.Duration(offset)*time.Microsecond
	switch e.Kind {
	case Began:
		e.Started = time.UnixMilli(d.int(8)).UTC()
		e.Broker, e.Product = d.text(), d.text()
	case Opened:
		e.Broker = d.text()
	case RequestSent, AnswerSent:
		if e.Flags&Withheld != 0 {
			e.Length = int(d.int(4))
		}
		e.Frame = d.take(len(b) - d.at)
	case Closed:
		e.By = Party(d.int(1))
	default:
		return nil, fmt.Errorf("an event of kind %d", e.Kind)
	}
	switch {
	case d.err != nil:
		return nil, d.err
	case d.at != len(b):
		return nil, fmt.Errorf("%d bytes after an event of kind %d", len(b)-d.at, e.Kind)
	case e.Kind == Began != (e.Number == 1), e.Kind == Began != (e.Connection == 0):
		return nil, fmt.Errorf("an event of kind %d on connection %d as number %d", e.Kind, e.Connection, e.Number)
	case e.Offset < last.Offset:
		return nil, fmt.Errorf("offset %s after %s", e.Offset, last.Offset)
	case e.Length < 0 || e.Flags&Withheld != 0 && len(e.Frame) > min(e.Length, 8):
		return nil, fmt.Errorf("%d bytes kept of a withheld frame of %d", len(e.Frame), e.Length)
	}
	return e, nil
}

// text is a length as a uvarint and so many bytes.
func (d *decoder) text() string {
	return string(d.take(int(min(d.uvarint(), math.MaxInt32))))
}
