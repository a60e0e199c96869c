package storage

import (
	"errors"
	"fmt"
	"io"

	"github.com/kaen-log/gateway/storage/record"
)

const (
	// scanWindow is how much of a file a scan of whole batches reads at a time.
	scanWindow = 1 << 20
	// scanHeaders is how much a scan that needs the headers only reads at a time.
	scanHeaders = 8 << 10
)

// batchScanner goes through the batches of a .log file, one after the other. With whole set it reads and checks all of
// each batch, else only the header, and jumps over the rest.
type batchScanner struct {
	r        io.ReaderAt
	position int64 // of the next batch
	end      int64 // of the file
	next     int64 // the least base offset that the next batch may have
	limit    int64 // offsets from here on are the next segment's; 0 when there is none
	whole    bool

	window []byte // the file's bytes from `start` on
	buf    []byte
	start  int64
}

// badBatch is what a scan meets that is no batch.
type badBatch struct {
	position int64
	next     int64 // offset after the batch before
	reason   string
}

func (e *badBatch) Error() string {
	return fmt.Sprintf("no batch at position %d, after offset %d: %s", e.position, e.next-1, e.reason)
}

// scan returns the next batch, of which only the header may be there unless whole is set, and its position. The slice
// is valid until the next call. The error is io.EOF when the file ends after a batch, a *badBatch when it goes on with
// something else, or that of reading.
func (s *batchScanner) scan() (record.Batch, int64, error) {
	left := s.end - s.position
	if left <= 0 {
		return nil, s.position, io.EOF
	}
	if left < record.HeaderSize {
		return nil, s.position, s.bad(fmt.Sprintf("%d bytes are too few for a batch", left))
	}
	h, err := s.bytes(record.HeaderSize)
	if err != nil {
		return nil, s.position, err
	}
	size, reason := checkHeader(h, s.next, left)
	if reason != "" {
		return nil, s.position, s.bad(reason)
	}
	b := record.Batch(h)
	if s.limit > 0 && b.LastOffset() >= s.limit {
		return nil, s.position, s.bad(fmt.Sprintf("last offset %d in a segment before one that begins at %d", b.LastOffset(), s.limit))
	}
	if s.whole {
		if b, err = s.load(size); err != nil {
			return nil, s.position, err
		}
		if err := b.VerifyCRC(); err != nil {
			return nil, s.position, s.bad(err.Error())
		}
	}
	position := s.position
	s.position += size
	s.next = b.NextOffset()
	return b, position, nil
}

// scanToEnd returns the offset after the last batch before the end, or before something that is no batch.
func scanToEnd(s *batchScanner) (next int64, err error) {
	for {
		_, _, err := s.scan()
		if _, bad := errors.AsType[*badBatch](err); bad || errors.Is(err, io.EOF) {
			return s.next, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// loadAt reads the whole of the batch that scan just returned.
func (s *batchScanner) loadAt(position int64, b record.Batch) (record.Batch, error) {
	after, size := s.position, int64(b.Size())
	s.position = position
	whole, err := s.load(size)
	s.position = after
	return whole, err
}

// load reads size bytes from the position on.
func (s *batchScanner) load(size int64) (record.Batch, error) {
	b, err := s.bytes(size)
	return record.Batch(b), err
}

// bytes returns n bytes from the position on; the file is known to have as many.
func (s *batchScanner) bytes(n int64) ([]byte, error) {
	if at := s.position - s.start; at >= 0 && at+n <= int64(len(s.window)) {
		return s.window[at : at+n : at+n], nil
	}
	want := int64(scanHeaders)
	if s.whole {
		want = scanWindow
	}
	want = min(max(want, n), s.end-s.position)
	if int64(cap(s.buf)) < want {
		s.buf = make([]byte, want)
	}
	s.window = nil
	m, err := s.r.ReadAt(s.buf[:want], s.position)
	if int64(m) < n {
		if err == nil || errors.Is(err, io.EOF) {
			return nil, s.bad(fmt.Sprintf("file ends after %d of %d bytes", m, n))
		}
		return nil, err
	}
	s.window, s.start = s.buf[:m], s.position
	return s.window[:n:n], nil
}

func (s *batchScanner) bad(reason string) error {
	return &badBatch{position: s.position, next: s.next, reason: reason}
}

// countBatches returns how many whole batches there are anywhere between position and the end of a file: what is lost
// when it is cut there. Offsets must be at least next, which keeps random bytes from counting.
func countBatches(r io.ReaderAt, position, end, next int64) (n int, err error) {
	buf := make([]byte, scanWindow)
	for position < end {
		m, err := r.ReadAt(buf[:min(int64(len(buf)), end-position)], position)
		if m < record.HeaderSize {
			if err != nil && !errors.Is(err, io.EOF) {
				return n, err
			}
			return n, nil
		}
		at := 0
		for ; at+record.HeaderSize <= m; at++ {
			if buf[at+record.MagicPos] != record.Magic {
				continue
			}
			if _, reason := checkHeader(buf[at:], next, end-position-int64(at)); reason != "" {
				continue
			}
			s := batchScanner{r: r, position: position + int64(at), end: end, next: next, whole: true}
			found := 0
			for {
				if _, _, err := s.scan(); err != nil {
					break
				}
				found++
			}
			if found > 0 {
				n += found
				next, at = s.next, int(s.position-position)
				break
			}
		}
		position += int64(at)
	}
	return n, nil
}
