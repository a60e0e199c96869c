package compare

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// FramesOptions say what PrintFrames prints.
type FramesOptions struct {
	Deep bool // every record of a batch, not just one line for the batch
	Hex  bool // the bytes of each frame too
	// Connections and APIs choose frames; none is all.
	Connections []int
	APIs        []string
}

// PrintFrames prints the events of a recorded session: who said what on which connection, with every field by Kafka's
// name. Of a session that does not read to its end it prints what reads and returns the error.
func PrintFrames(w io.Writer, session io.Reader, o FramesOptions) error {
	f := framePrinter{printer: printer{w: w}, o: o}
	dialogues := map[int]*dialogue{}
	for e, err := range Session(session) {
		if err != nil {
			return err
		}
		d := dialogues[e.Connection]
		switch e.Kind {
		case Began:
			f.f("session of %s, recorded on %s\n", e.Broker, e.Started.Format("2006-01-02 15:04:05.000 MST"))
			continue
		case Opened:
			dialogues[e.Connection] = newDialogue()
			f.line(e, "", "opened to %s", e.Broker)
			continue
		case Closed:
			delete(dialogues, e.Connection)
			f.line(e, "", "closed by %s", e.By)
			continue
		}
		if d == nil {
			return fmt.Errorf("event %d: connection %d was not opened", e.Number, e.Connection)
		}
		f.frame(e, d)
		if f.err != nil {
			return f.err
		}
	}
	return f.err
}

// PrintFrame prints one frame, without its length, as a request, or as an answer to a request of an api and version.
func PrintFrame(w io.Writer, frame []byte, isRequest bool, api *API, version int16, o FramesOptions) error {
	f := framePrinter{printer: printer{w: w}, o: o}
	var m *message
	if isRequest {
		var err error
		if m, err = parseRequest(frame, false); err != nil {
			return err
		}
		if m.api != api || m.call.version != version {
			return fmt.Errorf("the frame is a request of %s v%d", m.api.Name, m.call.version)
		}
	} else {
		if len(frame) < 4 {
			return fmt.Errorf("a frame of %d bytes: an answer begins with 4 bytes of correlation id", len(frame))
		}
		id := decoder{b: frame}
		asked := &message{call: &call{api: api, version: version, correlation: int32(id.int(4))}}
		d := dialogue{asked: map[int32]*message{asked.correlation: asked}}
		_, m = d.answer(frame, false)
	}
	f.f("%s\n", m.title())
	f.body(m)
	if f.err == nil && !m.whole() {
		return errors.New("the frame does not decode to its end")
	}
	return f.err
}

type framePrinter struct {
	printer
	o FramesOptions
}

// line prints the first line of an event.
func (f *framePrinter) line(e *Event, arrow, format string, args ...any) {
	if len(f.o.Connections) > 0 && !slices.Contains(f.o.Connections, e.Connection) || arrow == "" && len(f.o.APIs) > 0 {
		return
	}
	f.f("%5d %+10.3fs  %d %1s %s\n", e.Number, e.Offset.Seconds(), e.Connection, arrow, fmt.Sprintf(format, args...))
}

// frame prints a request or an answer.
func (f *framePrinter) frame(e *Event, d *dialogue) {
	var m *message
	arrow := ">"
	if e.Kind == RequestSent {
		m, _ = d.request(e.Frame, false)
	} else {
		arrow = "<"
		_, m = d.answer(e.Frame, false)
	}
	if len(f.o.Connections) > 0 && !slices.Contains(f.o.Connections, e.Connection) || len(f.o.APIs) > 0 &&
		(m == nil || !slices.ContainsFunc(f.o.APIs, func(name string) bool { return strings.EqualFold(name, m.api.Name) })) {
		return
	}
	title := "a frame that no request or answer of the session explains"
	if m != nil {
		title = m.title()
	}
	switch {
	case e.Flags&Withheld != 0 && m == nil:
		f.line(e, arrow, "%d bytes withheld: a token of SASL, or unknown", e.Length)
		return
	case e.Flags&Withheld != 0:
		f.line(e, arrow, "%s, %d bytes withheld", title, e.Length)
		return
	case e.Flags&Redacted != 0:
		title += ", secrets redacted"
	}
	f.line(e, arrow, "%s", title)
	if m != nil {
		f.body(m)
	} else if f.o.Hex {
		f.hex(e.Frame)
	}
}

// title names a message: Fetch v17 #12 client "app".
func (m *message) title() string {
	s := fmt.Sprintf("%s v%d #%d", m.api.Name, m.call.version, m.correlation)
	switch {
	case !m.isRequest:
	case m.clientID == nullClientID:
		s += " client null"
	default:
		s += fmt.Sprintf(" client %q", m.clientID)
	}
	if m.outcome != "answered" {
		s += ", " + m.outcome
	}
	return s
}

// margin is how far fields are indented at the top.
const margin = "        "

func (f *framePrinter) body(m *message) {
	if m.root != nil {
		f.fields(m.root, margin)
	}
	if m.fault != "" {
		f.f("%s(does not decode) %s\n", margin, m.fault)
	}
	if len(m.rest) > 0 {
		f.f("%s(bytes left over) 0x%x\n", margin, m.rest)
	}
	if f.o.Hex {
		f.hex(m.frame)
	}
}

func (f *framePrinter) hex(frame []byte) {
	for line := range strings.Lines(hex.Dump(frame)) {
		f.f("%s%s", margin, line)
	}
}

// fields prints the fields of a struct, a line each.
func (f *framePrinter) fields(n *Node, indent string) {
	for _, c := range n.Children {
		switch {
		case c.Kind == Leaf:
			f.f("%s%s: %s\n", indent, c.Name, frameValue(c))
		case c.Kind == Struct:
			f.f("%s%s:\n", indent, c.Name)
			f.fields(c, indent+"  ")
		case c.Field != nil && c.Field.Type == "records":
			f.batches(c, indent)
		default:
			f.array(c, indent)
		}
	}
}

func (f *framePrinter) array(n *Node, indent string) {
	if len(n.Children) == 0 || n.Children[0].Kind == Leaf {
		var values []string
		for _, c := range n.Children {
			values = append(values, valueText(n.Name, c.Value))
		}
		f.f("%s%s: [%s]\n", indent, n.Name, strings.Join(values, ", "))
		return
	}
	f.f("%s%s: %d\n", indent, n.Name, len(n.Children))
	for _, c := range n.Children {
		if flat(c) {
			var values []string
			for _, v := range c.Children {
				values = append(values, v.Name+": "+frameValue(v))
			}
			f.f("%s- %s\n", indent, strings.Join(values, ", "))
			continue
		}
		f.f("%s-\n", indent)
		f.fields(c, indent+"  ")
	}
}

// frameValue is a value for people, of an api's key with its name.
func frameValue(n *Node) string {
	s := valueText(n.Name, n.Value)
	if key, ok := n.Value.(int64); ok && n.Name == "apiKey" {
		if api, known := APIByKey(int16(key)); known {
			s += " " + api.Name
		}
	}
	return s
}

// flat reports whether a struct has nothing but leaves, few enough for a line.
func flat(n *Node) bool {
	return len(n.Children) <= 6 && !slices.ContainsFunc(n.Children, func(c *Node) bool { return c.Kind != Leaf })
}

// batches prints a line for each record batch, and with Deep one for each record.
func (f *framePrinter) batches(n *Node, indent string) {
	f.f("%s%s: %d bytes\n", indent, n.Name, n.End-n.Start)
	for _, b := range n.Children {
		if bad := b.Child("(no batch)"); bad != nil {
			f.f("%s- no batch: %v\n", indent, bad.Value)
			continue
		}
		f.f("%s- %s\n", indent, batchText(b))
		if !f.o.Deep {
			continue
		}
		for _, r := range b.Child("records").Children {
			f.record(b, r, indent+"    ")
		}
	}
}

// batchText sums up a batch in a line.
func batchText(b *Node) string {
	base := b.int("baseOffset")
	s := fmt.Sprintf("batch of %d records, offsets %d to %d, %d bytes", b.int("count"), base, base+b.int("lastOffsetDelta"), b.End-b.Start)
	attributes := b.int("attributes")
	if codec := attributes & 7; codec != 0 {
		s += ", " + []string{"", "gzip", "snappy", "lz4", "zstd", "codec 5", "codec 6", "codec 7"}[codec]
	}
	if id := b.int("producerId"); id >= 0 {
		s += fmt.Sprintf(", producer %d epoch %d sequence %d", id, b.int("producerEpoch"), b.int("baseSequence"))
	}
	for _, flag := range []struct {
		bit  int64
		name string
	}{{1 << 3, "LogAppendTime"}, {1 << 4, "transactional"}, {1 << 5, "control"}} {
		if attributes&flag.bit != 0 {
			s += ", " + flag.name
		}
	}
	s += fmt.Sprintf(", times %d to %d, leader epoch %d", b.int("baseTimestamp"), b.int("maxTimestamp"), b.int("partitionLeaderEpoch"))
	if crc := b.Child("crc"); crc != nil && crc.Value != "valid" {
		s += fmt.Sprintf(", CRC %v", crc.Value)
	}
	return s
}

func (f *framePrinter) record(b, r *Node, indent string) {
	if bad := r.Child("(does not parse)"); bad != nil {
		f.f("%s(does not parse) %v\n", indent, bad.Value)
		return
	}
	text := func(n *Node, name string) string { return valueText(name, n.Child(name).Value) }
	s := fmt.Sprintf("%d: time %d, key %s, value %s", b.int("baseOffset")+r.int("offsetDelta"), b.int("baseTimestamp")+r.int("timestampDelta"),
		text(r, "key"), text(r, "value"))
	for _, h := range r.Child("headers").Children {
		s += fmt.Sprintf(", header %s=%s", text(h, "key"), text(h, "value"))
	}
	f.f("%s%s\n", indent, s)
}
