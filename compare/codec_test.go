package compare

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

// decodeBody reads the fields of a message of a version from b, which starts at position base of its frame.
func decodeBody(fields []*Field, b []byte, base int, version int16, flexible bool) (root *Node, left int, err error) {
	d := decoder{b: b, base: base, version: version, flexible: flexible}
	return d.body(fields)
}

// FuzzDecodeBody decodes arbitrary bytes as an answer: what is read lies within them, and no claimed length is believed.
func FuzzDecodeBody(f *testing.F) {
	f.Add(int16(18), int16(0), []byte{0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 5})
	f.Add(int16(3), int16(12), []byte{0, 0, 0, 0, 2, 0, 0, 0, 1, 2, 'h', 0, 0, 35, 0x84, 0, 0})
	f.Add(int16(1), int16(4), []byte{0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, key, version int16, b []byte) {
		api, ok := APIByKey(key)
		if !ok || !api.Valid.Has(version) {
			return
		}
		root, left, err := decodeBody(api.Response, b, 0, version, api.Flexible.Has(version))
		if left < 0 || left > len(b) {
			t.Fatalf("%d bytes left of %d, error %v", left, len(b), err)
		}
		var within func(n *Node)
		within = func(n *Node) {
			if n.Start < 0 || n.End < n.Start || n.End > len(b) {
				t.Fatalf("%s at [%d, %d) of %d bytes", n.Name, n.Start, n.End, len(b))
			}
			for _, c := range n.Children {
				within(c)
			}
		}
		within(root)
		newNormaliser("gwcmp-", false).flatten(api, root, nil, nil)
	})
}

// FuzzParseScenario reads arbitrary text as a scenario.
func FuzzParseScenario(f *testing.F) {
	f.Add([]byte("why: x\ntags: [a]\nsteps: [{api: Metadata, version: \"1\", send: {topics: []}}]\n"))
	f.Add([]byte("why: x\ntags: [a]\neach: [{a: 1}]\nsteps: [{raw: \"00\", pin: closed}]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := ParseScenario("fuzzed", text)
		if err == nil && (len(s.Steps) == 0 || s.Why == "") {
			t.Fatalf("%q has no steps or no why, and no error", text)
		}
	})
}

// TestBytesLeftInATagAreAFault has a tag that is longer than its field.
func TestBytesLeftInATagAreAFault(t *testing.T) {
	fields := []*Field{{Name: "tagged", Type: "int16", Versions: Range{0, 0}, Null: noVersion, Tagged: Range{0, 0}, Tag: 5}}
	for body, want := range map[string]string{"\x01\x05\x02\x00\x07": "", "\x01\x05\x03\x00\x07\x00": "position 5: 1 bytes left in tag 5"} {
		_, _, err := decodeBody(fields, []byte(body), 0, 0, true)
		if got := fmt.Sprint(err); err != nil != (want != "") || !strings.HasPrefix(got, want) && err != nil {
			t.Errorf("%x: got error %v, want %q", body, err, want)
		}
	}
}

// TestDecodingStopsBeforeItTakesTooMuch has messages whose nodes, tags or decompressed records are more than a decoder
// has left to spend.
func TestDecodingStopsBeforeItTakesTooMuch(t *testing.T) {
	item := &Field{Name: "items", Type: "struct", Array: true, Versions: Range{0, 0}, Null: noVersion, Tagged: noVersion}
	records := &Field{Name: "records", Type: "records", Versions: Range{0, 0}, Null: noVersion, Tagged: noVersion}
	batch := func(record map[string]any) []byte {
		b, err := buildBatch(map[string]any{"codec": "gzip", "records": []any{record}})
		if err != nil {
			t.Fatal(err)
		}
		return append(binary.AppendUvarint(nil, uint64(len(b)+1)), append(b, 0)...)
	}
	for what, c := range map[string]struct {
		field *Field
		body  []byte
		room  int64
	}{
		"elements of a byte each": {item, append([]byte{101}, make([]byte, 101)...), 100 * nodeSize},
		"tags":                    {item, append([]byte{0, 20}, make([]byte, 40)...), 10 * nodeSize},
		"a long record":           {records, batch(map[string]any{"size": 1 << 20}), 1 << 19},
		"many records":            {records, batch(map[string]any{"value": "a", "times": 1000}), 1000 * nodeSize},
	} {
		d := decoder{b: c.body, flexible: true}
		if _, left, err := d.body([]*Field{c.field}); err != nil || left != 0 {
			t.Fatalf("%s: %d bytes left, error %v; want it to decode", what, left, err)
		}
		d = decoder{b: c.body, flexible: true, spent: maxDecoded - c.room}
		if _, _, err := d.body([]*Field{c.field}); err == nil || !strings.Contains(err.Error(), "takes more than") {
			t.Errorf("%s: got error %v, want that it takes too much", what, err)
		}
	}
}
