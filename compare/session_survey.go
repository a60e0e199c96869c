package compare

import (
	"errors"
	"io"
	"slices"
)

// survey is what a replay must know of a whole session before it begins.
type survey struct {
	retries
	began *Event
	names []string        // every text in requests: what the session asks for by name
	known map[string]bool // the same
	times map[int64]bool  // timestamps of records that clients sent: no broker took them from its clock
	used  map[int16]bool  // keys of the requests
	apis  map[int16]Range // what the recorded broker served: as it said, or as it was asked

	asked map[int]*dialogue // by connection
	sent  map[*message]int  // numbers of the requests that are not answered yet
}

// surveySession reads a session to its end.
func surveySession(session io.Reader) (*survey, error) {
	s := &survey{times: map[int64]bool{}, used: map[int16]bool{}, apis: map[int16]Range{}, known: map[string]bool{}, asked: map[int]*dialogue{},
		sent: map[*message]int{}, retries: retries{map[string][]int{}, map[int]bool{}}}
	for e, err := range Session(session) {
		switch {
		case errors.Is(err, ErrTorn) && s.began != nil:
			return s, nil
		case err != nil:
			return nil, err
		case e.Kind == Began:
			s.began = e
		case e.Kind == Opened:
			s.asked[e.Connection] = newDialogue()
		case e.Kind == Closed:
			delete(s.asked, e.Connection)
		case e.Flags&Withheld == 0 && s.asked[e.Connection] != nil:
			s.frame(e)
		}
	}
	return s, nil
}

func (s *survey) frame(e *Event) {
	d := s.asked[e.Connection]
	if e.Kind == AnswerSent {
		request, a := d.answer(e.Frame, false)
		if a != nil && a.root != nil {
			s.served(request.api, a.root)
			s.answered(request, s.sent[request], a.root)
		}
		delete(s.sent, request)
		return
	}
	m, err := d.request(e.Frame, false)
	if err != nil || m.root == nil {
		return
	}
	s.sent[m] = e.Number
	s.name(m.root)
	s.time(m.root)
	v := m.call.version
	served, known := s.apis[m.api.Key]
	if !known {
		served = Range{v, v}
	}
	s.apis[m.api.Key] = Range{min(served.Min, v), max(served.Max, v)}
	s.used[m.api.Key] = true
}

func (s *survey) name(n *Node) {
	if v, ok := n.Value.(string); ok && !s.known[v] {
		s.known[v] = true
		s.names = append(s.names, v)
	}
	for _, c := range n.Children {
		s.name(c)
	}
}

// time takes in the timestamps of the record batches in a request.
func (s *survey) time(n *Node) {
	base, records := n.Child("baseTimestamp"), n.Child("records")
	if base == nil || records == nil {
		for _, c := range n.Children {
			s.time(c)
		}
		return
	}
	from, _ := base.Value.(int64)
	s.times[from], s.times[n.int("maxTimestamp")] = true, true
	for _, r := range records.Children {
		s.times[from+r.int("timestampDelta")] = true
	}
}

// served notes what the recorded broker says that it serves.
func (s *survey) served(api *API, root *Node) {
	keys := root.Child("apiKeys")
	if api.Key != apiVersionsKey || keys == nil {
		return
	}
	for _, k := range keys.Children {
		s.apis[int16(k.int("apiKey"))] = Range{int16(k.int("minVersion")), int16(k.int("maxVersion"))}
	}
}

// keepUsed leaves in an answer to ApiVersions only what the session asks for: compare versions holds the rest against
// each other.
func (s *survey) keepUsed(root *Node) {
	if keys := root.Child("apiKeys"); keys != nil {
		keys.Children = slices.DeleteFunc(keys.Children, func(k *Node) bool { return !s.used[int16(k.int("apiKey"))] })
	}
}
