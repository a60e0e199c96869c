package compare

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kaen-log/gateway/storage/record"
)

// rebinding puts into the requests of a replay what its broker gave where the recording holds what the recorded broker
// gave: ids, leader epochs, and the epochs and generations that go with an id. It learns by walking both answers to the
// same request side by side.
type rebinding map[boundKey]boundValue

// boundKey is a value of the recording.
type boundKey struct {
	kind     string // as in bound, or counterKind
	scope    string // what it holds for: a partition for leader epochs, an id for counters
	recorded string
}

// boundValue is what stands for it now. It is uncertain when it was found by its place in an array alone.
type boundValue struct {
	text    string
	certain bool
}

const counterKind = "counter"

// rebound are fields of requests, besides those of bound, that hold an id or an epoch.
var rebound = map[string]string{"lastfetchedepoch": "leader epoch", "brokerids": "node", "replicas": "node"}

// counters are numbers that a broker counts for an id that stands in the same struct: field to the id's field.
var counters = map[string]string{
	"producerepoch": "producerid", "v3andbelowproducerepoch": "v3andbelowproducerid",
	"generationid": "memberid", "memberepoch": "memberid", "generationidormemberepoch": "memberid",
}

// kindOf says what a field holds that a broker gives; "" for anything else.
func kindOf(name string) string {
	name = strings.TrimPrefix(strings.ToLower(name), "v3andbelow")
	kind := rebound[name]
	if kind == "" {
		kind = bound[name]
	}
	switch kind {
	case "host", "port", "log directory":
		return "" // no request asks by them
	}
	return kind
}

// place is where in a message a walk stands: the topic by its name and its recorded id, and the partition.
type place struct {
	topics    []string
	partition string
	member    string // the member id of the request
}

func (p place) in(n *Node) place {
	var topics []string
	for _, c := range n.Children {
		text, ok := given(c)
		switch strings.ToLower(c.Name) {
		case "name", "topic", "topicname", "topicid":
			if ok {
				topics = append(topics, text)
			}
		case "partitionindex", "partition", "index":
			if ok {
				p.partition = text
			}
		}
	}
	if topics != nil {
		p.topics, p.partition = topics, ""
	}
	return p
}

// scopes are what the value of a field in a struct holds for; one is enough to find it.
func (p place) scopes(kind string, field string, in *Node) []string {
	if kind == counterKind {
		owner, ok := "", false
		if c := in.Child(counters[strings.ToLower(field)]); c != nil {
			owner, ok = given(c)
		}
		if !ok {
			owner = p.member
		}
		return []string{owner}
	}
	if kind != "leader epoch" || len(p.topics) == 0 {
		return []string{""}
	}
	var out []string
	for _, t := range p.topics {
		out = append(out, t+"/"+p.partition)
	}
	return out
}

// given is the text of a value that a broker gave: not null, empty, zero (but for numbers) or negative.
func given(n *Node) (string, bool) {
	switch v := n.Value.(type) {
	case string:
		return v, v != ""
	case UUID:
		return v.String(), v != UUID{}
	case int64:
		return strconv.FormatInt(v, 10), v >= 0 && (v > 0 || !strings.EqualFold(n.Name, "sessionId"))
	}
	return "", false
}

// learn takes in what a broker answered where the recorded broker answered recorded.
func (r rebinding) learn(request, recorded, live *Node) {
	at := place{}
	if request != nil {
		if c := request.Child("memberId"); c != nil {
			at.member, _ = given(c)
		}
	}
	r.structs(recorded, live, at, true)
}

func (r rebinding) structs(recorded, live *Node, at place, certain bool) {
	at = at.in(recorded)
	for _, c := range recorded.Children {
		l := live.Child(c.Name)
		if l == nil || l.Kind != c.Kind {
			continue
		}
		switch c.Kind {
		case Struct:
			if !untoldLeader(recorded, c) && !untoldLeader(live, l) {
				r.structs(c, l, at, certain)
			}
		case Array:
			r.arrays(c, l, at, certain)
		default:
			kind := kindOf(c.Name)
			if counters[strings.ToLower(c.Name)] != "" {
				kind = counterKind
			}
			if kind != "" {
				r.bind(kind, at.scopes(kind, c.Name, recorded), c, l, certain)
			}
		}
	}
}

func (r rebinding) bind(kind string, scopes []string, recorded, live *Node, certain bool) {
	from, ok := given(recorded)
	to, ok2 := given(live)
	if !ok || !ok2 {
		return
	}
	for _, scope := range scopes {
		key := boundKey{kind, scope, from}
		if _, known := r[key]; !known || certain {
			r[key] = boundValue{to, certain}
		}
	}
}

// arrays pairs the elements of two arrays: by their keys, or by their places when ids are all they have.
func (r rebinding) arrays(recorded, live *Node, at place, certain bool) {
	if kind := kindOf(recorded.Name); kind != "" && len(recorded.Children) > 0 && recorded.Children[0].Kind == Leaf {
		if len(recorded.Children) == len(live.Children) {
			for i, c := range recorded.Children {
				r.bind(kind, []string{""}, c, live.Children[i], certain && len(recorded.Children) == 1)
			}
		}
		return
	}
	byKey := map[string]*Node{}
	for _, l := range live.Children {
		if key := r.keyOf(l, false); key != "" {
			byKey[key] = l
		}
	}
	for i, c := range recorded.Children {
		if c.Kind != Struct {
			return
		}
		key := r.keyOf(c, true)
		switch l := byKey[key]; {
		case key != "" && l != nil:
			r.structs(c, l, at, certain)
		case key == "" && len(recorded.Children) == len(live.Children) && live.Children[i].Kind == Struct:
			r.structs(c, live.Children[i], at, certain && len(live.Children) == 1)
		}
	}
}

// keyOf is what tells an element of an array apart: its keys that are no ids, or else its topic id as it is now.
func (r rebinding) keyOf(n *Node, recorded bool) string {
	var parts []string
	for _, field := range keys {
		c := n.Child(field)
		if c == nil || c.Kind != Leaf || c.Value == nil || kindOf(field) != "" || bound[field] != "" {
			continue
		}
		parts = append(parts, fmt.Sprint(c.Value))
	}
	if c := n.Child("topicId"); c != nil && len(parts) == 0 {
		id, ok := given(c)
		if recorded && ok {
			v, known := r[boundKey{"topic id", "", id}]
			id, ok = v.text, known
		}
		if ok {
			parts = append(parts, id)
		}
	}
	return strings.Join(parts, "\x00")
}

// find returns what stands for a recorded value now.
func (r rebinding) find(kind string, scopes []string, recorded string) (string, bool) {
	for _, scope := range scopes {
		if v, ok := r[boundKey{kind, scope, recorded}]; ok {
			return v.text, true
		}
	}
	return "", false
}

// edits are what changes in a recorded request before it is sent.
func (r rebinding) edits(m *message) (edits, error) {
	e := edits{}
	if !m.whole() {
		return e, nil
	}
	return e, r.request(e, m, m.root, place{})
}

func (r rebinding) request(e edits, m *message, n *Node, at place) error {
	if n.Kind == Struct {
		at = at.in(n)
	}
	for _, c := range n.Children {
		if c.Field != nil && c.Field.Type == "records" && c.Kind == Array {
			for _, batch := range c.Children {
				r.batch(e, m.frame, batch)
			}
			continue
		}
		if c.Kind != Leaf {
			if err := r.request(e, m, c, at); err != nil {
				return err
			}
			continue
		}
		name := c.Name
		if n.Kind == Array {
			name = n.Name
		}
		now, ok := r.valueFor(name, c, n, at)
		if !ok {
			continue
		}
		v, err := likeValue(c.Value, now)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if v != c.Value {
			e[c] = v
		}
	}
	return nil
}

// valueFor finds what stands for the value of a field of the struct or array n.
func (r rebinding) valueFor(name string, c, n *Node, at place) (string, bool) {
	text, ok := given(c)
	if !ok {
		return "", false
	}
	kind := kindOf(name)
	switch {
	case counters[strings.ToLower(name)] != "":
		kind = counterKind
	case strings.EqualFold(name, "resourceName") && slices.Contains([]int64{4, 8}, n.int("resourceType")):
		kind = "node" // the configs or the loggers of a broker
	}
	if kind == "" {
		return "", false
	}
	return r.find(kind, at.scopes(kind, name, n), text)
}

// likeValue is text as a value of the type that v has.
func likeValue(v any, text string) (any, error) {
	switch v.(type) {
	case int64:
		return strconv.ParseInt(text, 10, 64)
	case UUID:
		return parseUUID(text)
	}
	return text, nil
}

// batch puts the producer's id and epoch of now into a record batch, whose CRC is then made to hold again unless it did
// not.
func (r rebinding) batch(e edits, frame []byte, n *Node) {
	id, epoch := n.Child("producerId"), n.Child("producerEpoch")
	if id == nil || epoch == nil {
		return
	}
	text, ok := given(id)
	if !ok {
		return
	}
	b := slices.Clone(record.Batch(frame[n.Start:n.End]))
	valid := b.VerifyCRC() == nil
	values := map[int]string{}
	if now, ok := r.find("producer id", []string{""}, text); ok {
		values[record.ProducerIDPos] = now
	}
	if count, ok := given(epoch); ok {
		if now, ok := r.find(counterKind, []string{text}, count); ok {
			values[record.ProducerEpochPos] = now
		}
	}
	for pos, now := range values {
		v, err := strconv.ParseInt(now, 10, 64)
		if err != nil {
			return
		}
		if pos == record.ProducerIDPos {
			binary.BigEndian.PutUint64(b[pos:], uint64(v))
		} else {
			binary.BigEndian.PutUint16(b[pos:], uint16(v))
		}
	}
	if len(values) == 0 {
		return
	}
	if valid {
		binary.BigEndian.PutUint32(b[record.CRCPos:], record.CRC32C(b[record.AttributesPos:]))
	}
	e[n] = verbatim(b)
}
