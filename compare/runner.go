package compare

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// runner is one side of one case.
type runner struct {
	*normaliser
	c      Case
	side   int
	broker *Broker
	sides  [2]*Broker
	o      *Options
	vars   variables
	conns  map[string]*conn
	calls  map[string]*pending
	ended  bool // every step was done
	out    Transcript
}

// pending is a request whose answer a later step awaits.
type pending struct {
	*call
	conn   string
	asked  []string
	values map[string]any
}

func runCase(ctx context.Context, b *Broker, side, number int, c Case, now time.Time, o *Options, sides [2]*Broker) (Transcript, error) {
	r := &runner{
		normaliser: newNormaliser(prefixOf(o.Seed, side, number), o.Strict),
		c:          c, side: side, broker: b, sides: sides, o: o,
		vars: variables{}, conns: map[string]*conn{}, calls: map[string]*pending{},
	}
	r.now = now.UnixMilli()
	r.notBefore, r.notAfter = now.Add(-time.Minute).UnixMilli(), now.Add(2*time.Minute).UnixMilli()
	defer r.cleanUp(ctx)
	if err := r.prepare(ctx); err != nil {
		err = r.broken(ctx, "preparing", err)
		return r.out, err
	}
	for i, st := range c.Scenario.Steps {
		if c.Version >= 0 && (st.From != nil && c.Version < *st.From || st.To != nil && c.Version > *st.To) {
			continue
		}
		if err := r.step(ctx, i+1, st); err != nil {
			err = r.broken(ctx, fmt.Sprintf("step %d", i+1), err)
			return r.out, err
		}
	}
	r.ended = true
	return r.out, nil
}

// broken is why the case ends before its end, in a place of it: an error, or a note in the transcript.
func (r *runner) broken(ctx context.Context, place string, err error) error {
	var stop *stopped
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case errors.As(err, &stop):
		r.out.Stopped = fmt.Sprintf("%s: %v", place, err)
		return nil
	}
	return fmt.Errorf("%s: %s: %w", r.broker.Addr, place, err)
}

// stopped ends a case because an answer is not what a later step needs: the answers so far are compared.
type stopped struct{ why string }

func (s *stopped) Error() string { return s.why }

// prepare sets the variables and makes the topics.
func (r *runner) prepare(ctx context.Context) error {
	maps.Copy(r.vars, variables{"prefix": r.prefix, "group": r.prefix + "group", "t": fixedTime, "now": clock{r.now, r.sent}, "(partitions)": r.groups})
	c, err := r.connection(ctx, "(own)")
	if err != nil {
		return err
	}
	id, err := c.nodeID(ctx)
	if err != nil {
		return err
	}
	r.vars["node"] = id
	given := maps.Clone(r.c.Scenario.Vars)
	if given == nil {
		given = map[string]any{}
	}
	if r.c.Row >= 0 {
		maps.Copy(given, r.c.Scenario.Each[r.c.Row])
	}
	for k := range r.c.Scenario.Topics {
		r.vars[k] = r.prefix + k
	}
	for k, v := range given {
		var err error
		if r.vars[k], err = r.vars.resolve(v); err != nil {
			return fmt.Errorf("variable %s: %w", k, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.c.Scenario.Topics)) {
		if err := r.makeTopic(ctx, c, name, r.c.Scenario.Topics[name]); err != nil {
			return fmt.Errorf("topic %s: %w", name, err)
		}
	}
	return nil
}

// makeTopic creates a topic and waits until every partition answers.
func (r *runner) makeTopic(ctx context.Context, c *conn, name string, spec TopicSpec) error {
	full := r.prefix + name
	var configs []any
	for _, k := range slices.Sorted(maps.Keys(spec.Configs)) {
		v, err := r.vars.resolve(spec.Configs[k])
		if err != nil {
			return err
		}
		configs = append(configs, map[string]any{"name": k, "value": fmt.Sprint(v)})
	}
	if _, ok := spec.Configs["retention.ms"]; !ok && !spec.Plain {
		configs = append(configs, map[string]any{"name": "retention.ms", "value": "-1"})
	}
	partitions := max(spec.Partitions, 1)
	create, _ := APINamed("CreateTopics")
	root, err := c.call(ctx, create, 2, map[string]any{"timeoutMs": 10000, "topics": []any{map[string]any{
		"name": full, "numPartitions": partitions, "replicationFactor": 1, "configs": configs}}})
	if err != nil {
		return err
	}
	made, err := root.only("topics")
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if code := made.int("errorCode"); code != 0 {
		return &stopped{"create: " + errorName(code)}
	}
	var indexes []any
	for p := range partitions {
		indexes = append(indexes, map[string]any{"partitionIndex": p, "timestamp": -1, "currentLeaderEpoch": -1})
	}
	list, _ := APINamed("ListOffsets")
	return poll(ctx, callTimeout, func() error {
		root, err := c.call(ctx, list, 4, map[string]any{"replicaId": -1, "topics": []any{map[string]any{"name": full, "partitions": indexes}}})
		if err != nil {
			return err
		}
		topic, err := root.only("topics")
		if err != nil {
			return fmt.Errorf("offsets: %w", err)
		}
		epoch := int64(0)
		for _, p := range topic.Child("partitions").Children {
			if code := p.int("errorCode"); code != 0 {
				return &again{errorName(code)}
			}
			epoch = p.int("leaderEpoch")
		}
		r.vars[name+".epoch"] = epoch
		metadata, _ := APINamed("Metadata")
		root, err = c.call(ctx, metadata, 10, map[string]any{"topics": []any{map[string]any{"topicId": UUID{}, "name": full}}})
		if err != nil {
			return err
		}
		if topic, err = root.only("topics"); err != nil {
			return fmt.Errorf("metadata: %w", err)
		}
		id, _ := topic.Child("topicId").Value.(UUID)
		if id == (UUID{}) {
			return &again{"no topic id"}
		}
		r.vars[name+".id"] = id
		r.known[id] = full
		return nil
	})
}

// again means that a condition does not hold yet.
type again struct{ why string }

func (a *again) Error() string { return a.why }

// poll calls f until it returns something other than *again, at most for so long.
func poll(ctx context.Context, within time.Duration, f func() error) error {
	deadline := time.Now().Add(within)
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-pause.C:
		}
		err := f()
		var not *again
		if !errors.As(err, &not) || time.Now().After(deadline) {
			return err
		}
		pause.Reset(20 * time.Millisecond)
	}
}

// connection returns the connection of a name, a new one when there is none.
func (r *runner) connection(ctx context.Context, name string) (*conn, error) {
	if c, ok := r.conns[name]; ok {
		return c, nil
	}
	c, err := dial(ctx, r.broker.Addr)
	if err != nil {
		return nil, err
	}
	r.conns[name] = c
	return c, nil
}

func (r *runner) step(ctx context.Context, number int, st *Step) error {
	switch {
	case st.Await != "":
		return r.await(ctx, number, st)
	case st.Parked != "":
		return r.parked(ctx, number, st)
	case st.Raw != "":
		return r.raw(ctx, number, st)
	}
	if len(st.Until) == 0 {
		return r.request(ctx, number, st)
	}
	err := poll(ctx, st.within, func() error {
		n := len(r.out.Answers)
		if err := r.request(ctx, number, st); err != nil {
			return err
		}
		if got := r.out.Answers[n].Pins; len(got) > 0 {
			r.out.Answers = r.out.Answers[:n]
			return &again{strings.Join(got, "; ")}
		}
		return nil
	})
	var not *again
	if errors.As(err, &not) {
		r.out.Answers = append(r.out.Answers, Answer{Step: number, Does: st.Does, API: st.API, Fields: []FieldValue{
			{Path: "(until)", Value: "did not come to hold"}}, Pins: []string{not.why}})
		return nil
	}
	return err
}

// version is the version at which a step sends its request.
func (r *runner) version(st *Step, a *API) (int16, error) {
	switch {
	case st.Version == "" && r.c.Version >= 0 && strings.EqualFold(a.Name, r.c.Scenario.API):
		return r.c.Version, nil
	case st.Version == "" || st.Version == "max" || st.Version == "min":
		both := common(a, r.sides).And(a.Valid)
		if both.Empty() {
			return a.Valid.Max, nil
		}
		if st.Version == "min" {
			return both.Min, nil
		}
		return both.Max, nil
	}
	v, err := strconv.ParseInt(st.Version, 10, 16)
	return int16(v), err
}

func (r *runner) request(ctx context.Context, number int, st *Step) error {
	a, _ := APINamed(st.API)
	version, err := r.version(st, a)
	if err != nil {
		return err
	}
	resolved, err := r.vars.resolve(map[string]any(st.Send))
	if err != nil {
		return err
	}
	values, _ := resolved.(map[string]any)
	if err := withRecords(a.Request, values); err != nil {
		return err
	}
	body, err := encodeBody(a.Request, values, version, a.Flexible.Has(version))
	if err != nil {
		return err
	}
	if st.Body != nil {
		if body, err = hex.DecodeString(strings.ReplaceAll(*st.Body, " ", "")); err != nil {
			return err
		}
	}
	if st.Truncate > len(body) {
		return fmt.Errorf("truncate %d of %d bytes", st.Truncate, len(body))
	}
	body = body[:len(body)-st.Truncate]
	if st.Extend != "" {
		more, err := hex.DecodeString(strings.ReplaceAll(st.Extend, " ", ""))
		if err != nil {
			return err
		}
		body = append(body, more...)
	}
	c, err := r.connection(ctx, st.Conn)
	if err != nil {
		return err
	}
	c.clientID = "gateway-compare"
	if st.ClientID != nil {
		text, err := r.vars.resolveText(*st.ClientID)
		if err != nil {
			return err
		}
		c.clientID = fmt.Sprint(text)
	}
	q, err := c.send(a, version, body)
	p := &pending{call: q, conn: st.Conn, asked: stringsIn(values), values: values}
	switch {
	case err != nil:
		r.add(number, st, p, answer{outcome: "closed"})
		r.hangUp(st.Conn)
		return nil
	case st.NoReply:
		return nil
	case st.As != "":
		r.calls[st.As] = p
		return nil
	}
	return r.take(ctx, number, st, p)
}

// stringsIn collects every string in a request: what it asks for by name.
func stringsIn(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, item := range v {
			out = append(out, stringsIn(item)...)
		}
		return out
	case map[string]any:
		var out []string
		for _, item := range v {
			out = append(out, stringsIn(item)...)
		}
		return out
	}
	return nil
}

func (r *runner) await(ctx context.Context, number int, st *Step) error {
	p, ok := r.calls[st.Await]
	if !ok {
		return &stopped{fmt.Sprintf("nothing was sent as %q", st.Await)}
	}
	delete(r.calls, st.Await)
	return r.take(ctx, number, st, p)
}

// parked looks for a time whether a request that was sent is unanswered. The answer, if it came, is left for await.
func (r *runner) parked(ctx context.Context, number int, st *Step) error {
	p, ok := r.calls[st.Parked]
	if !ok {
		return &stopped{fmt.Sprintf("nothing was sent as %q", st.Parked)}
	}
	c, err := r.connection(ctx, p.conn)
	if err != nil {
		return err
	}
	a := answer{outcome: "parked"}
	switch err := c.peek(ctx, st.within); {
	case err == nil:
		a.outcome = "answered"
	case errors.Is(err, errClosed):
		a.outcome = "closed"
	case !errors.Is(err, errSilent):
		return err
	}
	r.add(number, st, p, a)
	return nil
}

// take reads the answer of a request and adds it to the transcript.
func (r *runner) take(ctx context.Context, number int, st *Step, p *pending) error {
	c, err := r.connection(ctx, p.conn)
	if err != nil {
		return err
	}
	a, err := c.receiveAnswer(ctx, p.call, st.within)
	if err != nil {
		return err
	}
	if a.root != nil && r.o.mutate != nil {
		r.o.mutate(r.side, r.c, number, r.prefix, a.root)
	}
	r.add(number, st, p, a)
	if a.outcome != "answered" {
		r.hangUp(p.conn)
	} else if err := r.settle(ctx, p, a); err != nil {
		return err
	}
	for name, path := range st.Capture {
		v, ok := valueAt(a.root, r.text(path))
		if !ok {
			return &stopped{fmt.Sprintf("the answer has no %s", path)}
		}
		r.vars[name] = v
	}
	return nil
}

func (r *runner) hangUp(name string) {
	if c, ok := r.conns[name]; ok {
		_ = c.Close()
		delete(r.conns, name)
	}
}

// add puts an answer into the transcript, normalised and held against its pins.
func (r *runner) add(number int, st *Step, p *pending, a answer) {
	if r.o.keep != nil {
		r.o.keep(r, number, st, p, a)
	}
	out := Answer{Step: number, Does: r.text(st.Does), API: p.api.Name, Version: p.version, frame: a.frame}
	out.Fields = a.frameFields()
	if p.api == rawAPI && a.frame != nil && !st.Quiet {
		out.Fields = append(out.Fields, FieldValue{Path: "(frame)", Value: "0x" + hex.EncodeToString(a.frame), End: len(a.frame)})
	}
	if st.atLeast > 0 {
		kept := "yes"
		if a.took < st.atLeast {
			kept = "no"
		}
		out.Fields = append(out.Fields, FieldValue{Path: "(took at least " + st.atLeast.String() + ")", Value: kept, Raw: a.took.String(), Rule: "clock"})
	}
	if a.root != nil && !st.Quiet {
		out.Fields = append(out.Fields, r.flatten(p.api, a.root, st, p.asked)...)
	}
	want := st.Pin
	if len(st.Until) > 0 {
		want = st.Until
	}
	if want != nil {
		resolved, err := r.vars.resolve(normaliseYAML(want))
		if err != nil {
			out.Pins = append(out.Pins, err.Error())
		} else {
			out.Pins = append(out.Pins, checkPin(resolved, a)...)
		}
	}
	r.out.Answers = append(r.out.Answers, out)
}

// frameFields say what came, and what of it is not in the schema.
func (a *answer) frameFields() []FieldValue {
	out := []FieldValue{{Path: "(outcome)", Value: a.outcome}}
	if a.fault != "" {
		out = append(out, FieldValue{Path: "(does not decode)", Value: a.fault})
	}
	if len(a.rest) > 0 {
		out = append(out, FieldValue{Path: "(bytes left over)", Value: "0x" + hex.EncodeToString(a.rest)})
	}
	return out
}

// text puts the variables into words for people, where they can be.
func (r *runner) text(s string) string {
	if v, err := r.vars.resolveText(s); err == nil {
		return fmt.Sprint(v)
	}
	return s
}

// rawAPI stands for the api of a step that writes bytes as they are.
var rawAPI = &API{Key: -1, Name: "raw"}

// raw writes bytes and looks at what comes: an answer's bytes, the end of the connection, or nothing in time.
func (r *runner) raw(ctx context.Context, number int, st *Step) error {
	resolved, err := r.vars.resolve(st.Raw)
	if err != nil {
		return err
	}
	b, err := hex.DecodeString(strings.ReplaceAll(fmt.Sprint(resolved), " ", ""))
	if err != nil {
		return err
	}
	c, err := r.connection(ctx, st.Conn)
	if err != nil {
		return err
	}
	a := answer{outcome: "answered"}
	if _, err = c.Write(b); err == nil && st.NoReply {
		return nil
	} else if err == nil {
		a.frame, err = c.receive(ctx, st.within)
	}
	switch {
	case errors.Is(err, errSilent):
		a.outcome = "silent"
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		a.outcome = "closed"
		r.hangUp(st.Conn)
	}
	r.add(number, st, &pending{call: &call{api: rawAPI, version: -1}, conn: st.Conn}, a)
	return nil
}
