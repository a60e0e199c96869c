package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ReplayOptions say what a recorded session is sent to.
type ReplayOptions struct {
	A string // HOST:PORT
	// B is what A is compared with; "" is the recording.
	B string
	// Name of the session in the report: its file.
	Name   string
	Strict bool
	// Pace keeps the pauses of the recording; else what comes next is sent at once.
	Pace bool
	// Expected are the differences that are meant; the scenario of a session is replay.
	Expected []Expected
	// Log takes remarks: what of the recording is left out. Nil drops them.
	Log func(string)

	// mutate, for tests, changes an answer of a side after it is decoded.
	mutate func(side int, e *Event, root *Node)
}

// Replay sends a recorded session again, in the recorded order over as many connections: a request is sent when what
// the recording has before it was sent and answered. It compares the answers of A with those of B, or with the recorded
// ones. Each connection is one case of the report, each answer a step with its number in the file.
//
// What the recorded broker gave (see rebinding) is replaced by what each side gave. How often a client asked until a
// broker was ready (for a new topic, for a group) is a matter of time: what the recorded broker refused and then answered
// is sent once, and again for a while where a side refuses it. SASL is left out, and so is what was withheld; a secret
// that was redacted is sent as it stands in the file. Of the answers to ApiVersions only the requests that the session
// makes are compared.
//
// An error means that the comparison could not be done to its end; a torn recording is none, and is replayed as far as it
// goes.
func Replay(ctx context.Context, session io.ReadSeeker, o ReplayOptions) (*Report, error) {
	r := &replayer{o: &o, report: &Report{Strict: o.Strict, Versions: "all", replays: o.Name}, cases: map[int]*replayedCase{}}
	var err error
	if r.survey, err = surveySession(session); err != nil {
		return r.report, err
	}
	if _, err := session.Seek(0, io.SeekStart); err != nil {
		return r.report, err
	}
	r.recording = r.normaliser()
	r.report.B = &Broker{Addr: recordingOf + o.Name, Product: r.survey.began.Product, APIs: r.survey.apis}
	for i, addr := range []string{o.A, o.B} {
		if addr == "" {
			continue
		}
		b, err := Reach(ctx, addr)
		if err != nil {
			return r.report, err
		}
		*[]**Broker{&r.report.A, &r.report.B}[i] = b
		r.sides = append(r.sides, r.side(i, b))
	}
	defer r.hangUp()
	err = r.replay(ctx, session)
	r.finish()
	return r.report, err
}

// recordingOf begins the address of a side that is the recording itself.
const recordingOf = "recording "

// replayScenario is the scenario of what was replayed, for expected differences.
const replayScenario = "replay"

// noPrefix stands for the prefix of names that a scenario's run makes up: a replay makes up none.
const noPrefix = "gwcmp-\x00"

type replayer struct {
	o         *ReplayOptions
	report    *Report
	sides     []*replaySide
	survey    *survey
	recording *normaliser // for what was recorded
	cases     map[int]*replayedCase
	order     []int // connections with a case
	started   time.Time
	left      [3]int // requests of SASL, frames that are withheld, and retries that are left out
	redacted  int    // requests that are sent without their secrets
}

// replayedCase is what happened on one connection.
type replayedCase struct {
	broker, client string
	dialogue       *dialogue
	sent           map[int32]time.Duration // when each request was recorded
	skipped        map[int32]bool          // requests that were left out
	recorded       []Answer
}

// replaySide is one broker that the session is sent to.
type replaySide struct {
	*normaliser
	learned rebinding
	side    int
	broker  *Broker
	conns   map[int]*conn
	settler *runner
	answers map[int][]Answer // by connection
}

// normaliser makes the normaliser of one side.
func (r *replayer) normaliser() *normaliser {
	n := newNormaliser(noPrefix, r.o.Strict)
	began := r.survey.began.Started
	n.now, n.sent, n.notBefore = began.UnixMilli(), r.survey.times, began.Add(-time.Minute).UnixMilli()
	return n
}

func (r *replayer) side(side int, b *Broker) *replaySide {
	own := newNormaliser(prefixOf(uint64(time.Now().UnixMilli()), side, 0), r.o.Strict)
	return &replaySide{
		normaliser: r.normaliser(), learned: rebinding{}, side: side, broker: b,
		conns: map[int]*conn{}, answers: map[int][]Answer{},
		settler: &runner{normaliser: own, broker: b, conns: map[string]*conn{}},
	}
}

func (r *replayer) log(format string, args ...any) {
	if r.o.Log != nil {
		r.o.Log(fmt.Sprintf(format, args...))
	}
}

func (r *replayer) replay(ctx context.Context, session io.Reader) error {
	for e, err := range Session(session) {
		if errors.Is(err, ErrTorn) {
			r.log("%v: replayed as far as it goes", err)
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.event(ctx, e); err != nil {
			if ctx.Err() != nil {
				return errors.New("interrupted")
			}
			return fmt.Errorf("event %d: %w", e.Number, err)
		}
	}
	return nil
}

func (r *replayer) event(ctx context.Context, e *Event) error {
	if r.o.Pace && e.Kind != Began {
		if err := waitUntil(ctx, r.started.Add(e.Offset)); err != nil {
			return err
		}
	}
	c := r.cases[e.Connection]
	if c == nil && e.Kind != Began && e.Kind != Opened {
		return fmt.Errorf("connection %d was not opened", e.Connection)
	}
	switch e.Kind {
	case Began:
		r.started = time.Now()
	case Opened:
		r.cases[e.Connection] = &replayedCase{broker: e.Broker, dialogue: newDialogue(), sent: map[int32]time.Duration{}, skipped: map[int32]bool{}}
		r.order = append(r.order, e.Connection)
		return r.each(func(s *replaySide) error {
			conn, err := dial(ctx, s.broker.Addr)
			s.conns[e.Connection] = conn
			return err
		})
	case RequestSent:
		return r.request(e, c)
	case AnswerSent:
		return r.answer(ctx, e, c)
	case Closed:
		if e.By == ByBroker {
			if err := r.closedByBroker(ctx, e, c); err != nil {
				return err
			}
		}
		return r.each(func(s *replaySide) error { s.close(e.Connection); return nil })
	}
	return nil
}

// each does something on every side at once.
func (r *replayer) each(f func(s *replaySide) error) error {
	errs := make([]error, len(r.sides))
	var wg sync.WaitGroup
	for i, s := range r.sides {
		wg.Go(func() {
			if err := f(s); err != nil {
				errs[i] = fmt.Errorf("%s: %w", s.broker.Addr, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func waitUntil(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// request sends a recorded request, with what each side gave in the place of what the recorded broker gave.
func (r *replayer) request(e *Event, c *replayedCase) error {
	if e.Flags&Withheld != 0 {
		r.left[1]++
		return nil
	}
	m, err := c.dialogue.request(e.Frame, false)
	if err != nil {
		return err
	}
	c.client = m.clientID
	c.sent[m.correlation] = e.Offset
	sasl, retry := strings.HasPrefix(m.api.Name, "Sasl"), r.survey.without[e.Number]
	c.skipped[m.correlation] = sasl || retry
	switch {
	case sasl:
		r.left[0]++
		return nil
	case retry:
		r.left[2]++
		return nil
	}
	if e.Flags&Redacted != 0 {
		r.redacted++
	}
	return r.each(func(s *replaySide) error { return s.send(e.Connection, m) })
}

// send writes a request; a broker that has hung up is seen when the answer is awaited.
func (s *replaySide) send(connection int, m *message) error {
	frame, err := s.bound(m)
	if err != nil {
		return err
	}
	if conn := s.conns[connection]; conn != nil && writeFrame(conn, frame) != nil {
		s.close(connection)
	}
	return nil
}

func (s *replaySide) bound(m *message) ([]byte, error) {
	e, err := s.learned.edits(m)
	if err != nil {
		return nil, err
	}
	return m.splice(e)
}

func (s *replaySide) close(connection int) {
	if conn := s.conns[connection]; conn != nil {
		_ = conn.Close()
		s.conns[connection] = nil
	}
}

// patience is how long an answer is waited for beyond three times what it took when it was recorded.
const patience = 10 * time.Second

// answer awaits the answer that the recording has here.
func (r *replayer) answer(ctx context.Context, e *Event, c *replayedCase) error {
	request, recorded := c.dialogue.answer(e.Frame, false)
	if request == nil || c.skipped[request.correlation] {
		return nil
	}
	within := patience + 3*(e.Offset-c.sent[request.correlation])
	if e.Flags&Withheld != 0 {
		r.left[1]++
		return r.each(func(s *replaySide) error {
			_, err := s.receive(ctx, e.Connection, request, within)
			return err
		})
	}
	r.recording.notAfter = r.survey.began.Started.Add(e.Offset + time.Minute).UnixMilli()
	c.recorded = append(c.recorded, r.transcribe(r.recording, e.Number, request, recorded.answer))
	return r.each(func(s *replaySide) error { return r.await(ctx, s, e, request, recorded, within) })
}

// await takes one side's answer to a request into its transcript.
func (r *replayer) await(ctx context.Context, s *replaySide, e *Event, request, recorded *message, within time.Duration) error {
	a, err := s.receive(ctx, e.Connection, request, within)
	if err != nil {
		return err
	}
	err = poll(ctx, patience, func() error {
		if a.root == nil || recorded.root == nil || !refused(request.api, a.root) || refused(request.api, recorded.root) {
			return nil
		}
		if err := s.send(e.Connection, request); err != nil {
			return err
		}
		if a, err = s.receive(ctx, e.Connection, request, within); err != nil {
			return err
		}
		return &again{"not ready"}
	})
	var not *again
	if err != nil && !errors.As(err, &not) {
		return err
	}
	if r.o.mutate != nil && a.root != nil {
		r.o.mutate(s.side, e, a.root)
	}
	s.notBefore, s.notAfter = r.started.Add(-time.Minute).UnixMilli(), time.Now().Add(time.Minute).UnixMilli()
	s.answers[e.Connection] = append(s.answers[e.Connection], r.transcribe(s.normaliser, e.Number, request, a))
	if a.root == nil {
		if a.outcome != "answered" {
			s.close(e.Connection)
		}
		return nil
	}
	if recorded.root != nil {
		s.learned.learn(request.root, recorded.root, a.root)
	}
	values, _ := valuesOf(request.root).(map[string]any)
	return s.settler.settle(ctx, &pending{call: request.call, values: values}, a)
}

// receive reads the answer to a request of the recording.
func (s *replaySide) receive(ctx context.Context, connection int, request *message, within time.Duration) (answer, error) {
	conn := s.conns[connection]
	if conn == nil {
		return answer{outcome: "closed"}, nil
	}
	return conn.receiveAnswer(ctx, request.call, within)
}

// transcribe makes an answer as it is compared.
func (r *replayer) transcribe(n *normaliser, number int, request *message, a answer) Answer {
	out := Answer{Step: number, API: request.api.Name, Version: request.call.version, frame: a.frame, Fields: a.frameFields()}
	if a.root != nil {
		if request.api.Key == apiVersionsKey {
			r.survey.keepUsed(a.root)
		}
		n.meet(a.root)
		out.Fields = append(out.Fields, n.flatten(request.api, a.root, nil, r.survey.names)...)
	}
	return out
}

// meet takes in the ids of the topics that an answer names, so that an id is that of a name.
func (n *normaliser) meet(root *Node) {
	if id := root.Child("topicId"); id != nil {
		for _, field := range []string{"name", "topic", "topicName"} {
			if c := root.Child(field); c != nil {
				name, named := c.Value.(string)
				if v, ok := id.Value.(UUID); ok && named && v != (UUID{}) {
					n.known[v] = name
				}
			}
		}
	}
	for _, c := range root.Children {
		n.meet(c)
	}
}

// closedByBroker sees whether the sides hang up too where the recorded broker did, with a request unanswered.
func (r *replayer) closedByBroker(ctx context.Context, e *Event, c *replayedCase) error {
	var oldest *message
	for id, m := range c.dialogue.asked {
		if !c.skipped[id] && (oldest == nil || c.sent[id] < c.sent[oldest.correlation]) {
			oldest = m
		}
	}
	if oldest == nil {
		return nil
	}
	closed := &message{call: oldest.call, answer: answer{outcome: "closed"}}
	c.recorded = append(c.recorded, r.transcribe(r.recording, e.Number, oldest, closed.answer))
	within := patience + 3*(e.Offset-c.sent[oldest.correlation])
	return r.each(func(s *replaySide) error { return r.await(ctx, s, e, oldest, closed, within) })
}

func (r *replayer) hangUp() {
	for _, s := range r.sides {
		for connection := range s.conns {
			s.close(connection)
		}
		for _, c := range s.settler.conns {
			_ = c.Close()
		}
	}
}

// finish makes the report of what was answered.
func (r *replayer) finish() {
	brokers := map[string]bool{}
	for _, number := range r.order {
		c := r.cases[number]
		brokers[c.broker] = true
		result := CaseResult{Name: r.o.Name + "#" + strconv.Itoa(number), Scenario: replayScenario, Version: -1, Row: -1,
			Why: fmt.Sprintf("Connection %d of the recorded session, of the client %q to %s.", number, c.client, c.broker)}
		a, b := Transcript{Answers: r.sides[0].answers[number]}, Transcript{Answers: c.recorded}
		if len(r.sides) > 1 {
			b.Answers = r.sides[1].answers[number]
		}
		result.compare(a, b)
		r.report.Cases = append(r.report.Cases, result)
	}
	if len(brokers) > 1 {
		r.log("recorded of %d brokers, all sent to one", len(brokers))
	}
	if n := r.left; n != [3]int{} {
		r.log("left out: %d requests of SASL, %d frames that were withheld, %d requests that were sent again until the recorded broker was ready", n[0], n[1], n[2])
	}
	if r.redacted > 0 {
		r.log("%d requests are sent with %s in the place of their secrets", r.redacted, redaction)
	}
	r.report.judge(r.o.Expected, func(string) bool { return false }) // a session is no whole scenario
}
