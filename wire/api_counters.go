package wire

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
)

// apiCounters count what is asked and answered, by key and by error code. A request costs two atomic adds and its answer
// one, and one more for each error in it.
type apiCounters struct {
	byKey []apiCounter
	codes [codesCounted]atomic.Int64 // by code + 1; the last is for all beyond
}

// codesCounted is more than Kafka has codes.
const codesCounted = 256

// apiCounter is that of one key.
type apiCounter struct {
	requests, requestBytes, answerBytes, retriable, final atomic.Int64

	_ [3]int64 // the next one's cache line is its own
}

func newAPICounters(t *apiTable) apiCounters {
	return apiCounters{byKey: make([]apiCounter, len(t.byKey))}
}

// asked counts a request. size is without the length of its frame.
func (a *apiCounters) asked(key int16, size int) {
	c := &a.byKey[key]
	c.requests.Add(1)
	c.requestBytes.Add(int64(lengthSize + size))
}

// failed counts an error of an answer.
func (a *apiCounters) failed(key, code int16) {
	if code == 0 {
		return
	}
	c := &a.byKey[key]
	if e := kerr.TypedErrorForCode(code); e != nil && e.Retriable {
		c.retriable.Add(1)
	} else {
		c.final.Add(1)
	}
	i := int(code) + 1
	if i < 0 || i >= codesCounted {
		i = codesCounted - 1
	}
	a.codes[i].Add(1)
}

// answered counts the errors of an answer, and returns what is to be sent in its place so that its bytes are counted. A
// *countedResponse has been here before and stays as it is; an *encoded may come here once.
func (a *apiCounters) answered(c *call, resp response) response {
	head := answerHeaderSize - 1
	if c.tagged() {
		head++
	}
	switch r := resp.(type) {
	case *countedResponse:
		return r
	case *encoded:
		for _, code := range r.failures {
			a.failed(c.key, code)
		}
		a.byKey[c.key].answerBytes.Add(int64(head + r.size()))
		return r
	}
	eachError(resp, func(code int16) { a.failed(c.key, code) })
	c.counted = countedResponse{resp, head, &a.byKey[c.key].answerBytes}
	return &c.counted
}

// countedResponse counts its bytes when it is encoded, which is once: then it lets go of what they are made from.
type countedResponse struct {
	response
	head  int // bytes of the answer before it
	bytes *atomic.Int64
}

func (r *countedResponse) AppendTo(dst []byte) []byte {
	had := len(dst)
	dst = r.response.AppendTo(dst)
	r.response = nil
	r.bytes.Add(int64(r.head + len(dst) - had))
	return dst
}

// noteFailure has an error of the answer counted.
func (e *encoded) noteFailure(code int16) {
	if code != 0 {
		e.failures = append(e.failures, code)
	}
}

// APIStats says what was asked by one key, and what was answered, since the start.
type APIStats struct {
	Key  int16
	Name string // Kafka's
	// Requests are those that came whole, and their answers' bytes are counted when they are encoded; both as on the socket.
	Requests, RequestBytes, AnswerBytes int64
	// RetriableErrors are codes in answers, one for each partition, group and so on that has one, after which a client
	// tries again by itself; FinalErrors are the others.
	RetriableErrors, FinalErrors int64
}

// ErrorStats says how often an error was in an answer.
type ErrorStats struct {
	Name  string // Kafka's, "OTHER" for what has none
	Count int64
}

// APIStats returns what was asked and answered by each key that is served, in their order. It takes no lock.
func (s *Server) APIStats() []APIStats {
	out := make([]APIStats, 0, len(s.apis.rows))
	for i := range s.apis.rows {
		key := s.apis.rows[i].key
		c := &s.byAPI.byKey[key]
		out = append(out, APIStats{
			Key: key, Name: keyName(key), Requests: c.requests.Load(), RequestBytes: c.requestBytes.Load(),
			AnswerBytes: c.answerBytes.Load(), RetriableErrors: c.retriable.Load(), FinalErrors: c.final.Load(),
		})
	}
	return out
}

// ErrorStats returns how often each error was in an answer, by name, without those that were not. It takes no lock.
func (s *Server) ErrorStats() []ErrorStats {
	var out []ErrorStats
	other := int64(0)
	for i := range s.byAPI.codes {
		n, code := s.byAPI.codes[i].Load(), int16(i-1)
		if n == 0 {
			continue
		}
		if e := kerr.TypedErrorForCode(code); e != nil && e.Code == code {
			out = append(out, ErrorStats{Name: e.Message, Count: n})
		} else {
			other += n
		}
	}
	if other > 0 {
		out = append(out, ErrorStats{Name: "OTHER", Count: other})
	}
	slices.SortFunc(out, func(a, b ErrorStats) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Bounds returns the memory that frames in flight and answers in flight may hold.
func (s *Server) Bounds() (requestBytes, answerBytes int64) {
	return s.requests.large.limit + s.requests.small.limit, s.answers.large.limit + s.answers.small.limit
}
