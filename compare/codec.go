package compare

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// UUID is Kafka's 16-byte id; its text is base64url without padding.
type UUID [16]byte

func (u UUID) String() string { return base64.RawURLEncoding.EncodeToString(u[:]) }

func parseUUID(s string) (UUID, error) {
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "="))
	if err != nil || len(b) != 16 {
		return UUID{}, fmt.Errorf("got %q, want a uuid: 22 characters of base64url", s)
	}
	return UUID(b), nil
}

// Node is one decoded value of an answer: a leaf, a struct or an array.
type Node struct {
	Name  string // of the field; "" for the root and for elements of arrays
	Field *Field // nil for the root and for what is inside record batches
	Kind  Kind
	// Value of a leaf: nil, bool, int64, float64, string, []byte or UUID. Null structs and arrays are leaves of nil.
	Value      any
	Children   []*Node
	Start, End int // its bytes in the frame that was decoded
}

// Kind says what a Node is.
type Kind int8

// The kinds of nodes.
const (
	Leaf Kind = iota
	Struct
	Array
)

// Child finds a field of a struct by name, or nil.
func (n *Node) Child(name string) *Node {
	for _, c := range n.Children {
		if strings.EqualFold(c.Name, name) {
			return c
		}
	}
	return nil
}

// encodeBody writes the fields of a message from values by Kafka's names. What is missing gets its default; what the
// version does not have is left out, so that one text serves every version; an unknown name is an error.
func encodeBody(fields []*Field, values map[string]any, version int16, flexible bool) ([]byte, error) {
	e := encoder{version: version, flexible: flexible}
	if err := e.structure(fields, values); err != nil {
		return nil, err
	}
	return e.out, nil
}

type encoder struct {
	version  int16
	flexible bool
	out      []byte
}

func (e *encoder) structure(fields []*Field, values map[string]any) error {
	for name := range values {
		if name != "+" && !slices.ContainsFunc(fields, func(f *Field) bool { return strings.EqualFold(f.Name, name) }) {
			return fmt.Errorf("no field %q, there are %s", name, fieldNames(fields))
		}
	}
	type tagged struct {
		tag  uint64
		data []byte
	}
	var tags []tagged
	for _, f := range fields {
		if !f.Versions.Has(e.version) {
			continue
		}
		v, given := lookup(values, f.Name)
		if f.Tagged.Has(e.version) {
			if given {
				inner := encoder{version: e.version, flexible: e.flexible}
				if err := inner.field(f, v); err != nil {
					return fmt.Errorf("%s: %w", f.Name, err)
				}
				tags = append(tags, tagged{f.Tag, inner.out})
			}
			continue
		}
		if !given {
			v = e.defaultOf(f)
		}
		if err := e.field(f, v); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	// "+" adds tags that no schema knows, by number.
	if more, ok := values["+"].(map[string]any); ok {
		for number, v := range more {
			tag, err := strconv.ParseUint(number, 10, 32)
			if err != nil {
				return fmt.Errorf("tag %q: %w", number, err)
			}
			b, err := asBytes(v)
			if err != nil {
				return fmt.Errorf("tag %d: %w", tag, err)
			}
			tags = append(tags, tagged{tag, b})
		}
	}
	if !e.flexible {
		return nil
	}
	slices.SortFunc(tags, func(a, b tagged) int { return int(a.tag) - int(b.tag) })
	e.out = binary.AppendUvarint(e.out, uint64(len(tags)))
	for _, t := range tags {
		e.out = binary.AppendUvarint(e.out, t.tag)
		e.out = binary.AppendUvarint(e.out, uint64(len(t.data)))
		e.out = append(e.out, t.data...)
	}
	return nil
}

func fieldNames(fields []*Field) string {
	var names []string
	for _, f := range fields {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}

func lookup(values map[string]any, name string) (any, bool) {
	if v, ok := values[name]; ok {
		return v, true
	}
	for k, v := range values {
		if strings.EqualFold(k, name) {
			return v, true
		}
	}
	return nil, false
}

// defaultOf is what an absent field is written as.
func (e *encoder) defaultOf(f *Field) any {
	switch {
	case f.Default == "null" && f.Null.Has(e.version):
		return nil
	case f.Array:
		return []any{}
	case f.Default != "" && f.Default != "null":
		return f.Default
	}
	switch f.Type {
	case "struct":
		return map[string]any{}
	case "string":
		return ""
	case "bytes":
		return []byte{}
	case "records":
		return nil
	case "bool":
		return false
	case "uuid":
		return UUID{}
	}
	return 0
}

func (e *encoder) field(f *Field, v any) error {
	if f.Array {
		return e.array(f, v)
	}
	return e.scalar(f, v, true)
}

func (e *encoder) array(f *Field, v any) error {
	if v == nil {
		if e.flexible {
			e.out = append(e.out, 0)
		} else {
			e.out = append(e.out, 0xff, 0xff, 0xff, 0xff)
		}
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		return fmt.Errorf("got %v (%T), want a list", v, v)
	}
	if e.flexible {
		e.out = binary.AppendUvarint(e.out, uint64(len(list)+1))
	} else {
		e.out = binary.BigEndian.AppendUint32(e.out, uint32(len(list)))
	}
	for i, item := range list {
		if err := e.scalar(f, item, false); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return nil
}

// scalar writes one value. A struct that may be null (whole says that it is not an element) has a byte before it.
func (e *encoder) scalar(f *Field, v any, whole bool) error {
	switch f.Type {
	case "struct":
		nullable := whole && f.Null.Has(e.version)
		if v == nil {
			if !nullable {
				return errors.New("got null, want a map")
			}
			e.out = append(e.out, 0xff)
			return nil
		}
		m, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("got %v (%T), want a map", v, v)
		}
		if nullable {
			e.out = append(e.out, 1)
		}
		return e.structure(f.Fields, m)
	case "string":
		if v == nil {
			return e.null(2)
		}
		s := fmt.Sprint(v)
		if e.flexible {
			e.out = binary.AppendUvarint(e.out, uint64(len(s)+1))
		} else {
			if len(s) > math.MaxInt16 {
				return fmt.Errorf("%d characters, a string has at most %d before flexible versions", len(s), math.MaxInt16)
			}
			e.out = binary.BigEndian.AppendUint16(e.out, uint16(len(s)))
		}
		e.out = append(e.out, s...)
		return nil
	case "bytes", "records":
		if v == nil {
			return e.null(4)
		}
		b, err := asBytes(v)
		if err != nil {
			return err
		}
		if e.flexible {
			e.out = binary.AppendUvarint(e.out, uint64(len(b)+1))
		} else {
			e.out = binary.BigEndian.AppendUint32(e.out, uint32(len(b)))
		}
		e.out = append(e.out, b...)
		return nil
	case "uuid":
		u, ok := v.(UUID)
		if !ok {
			var err error
			if u, err = parseUUID(fmt.Sprint(v)); err != nil {
				return err
			}
		}
		e.out = append(e.out, u[:]...)
		return nil
	case "bool":
		b, err := strconv.ParseBool(fmt.Sprint(v))
		if err != nil {
			return fmt.Errorf("got %v, want true or false", v)
		}
		e.out = append(e.out, map[bool]byte{true: 1}[b])
		return nil
	case "float64":
		x, err := strconv.ParseFloat(fmt.Sprint(v), 64)
		if err != nil {
			return fmt.Errorf("got %v, want a number", v)
		}
		e.out = binary.BigEndian.AppendUint64(e.out, math.Float64bits(x))
		return nil
	}
	n, err := asInt(v)
	if err != nil {
		return err
	}
	size := intSizes[f.Type]
	if size == 0 {
		panic("compare: type " + f.Type)
	}
	if shift := 64 - 8*size; n<<shift>>shift != n && !strings.HasPrefix(f.Type, "u") {
		return fmt.Errorf("%d does not fit %s", n, f.Type)
	}
	for i := size - 1; i >= 0; i-- {
		e.out = append(e.out, byte(n>>(8*i)))
	}
	return nil
}

// intSizes is how many bytes an integer of a type has.
var intSizes = map[string]int{"int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8}

// null writes the length of null: one zero byte, or -1 in so many bytes. It is written also where the field may not be
// null: what a broker does with that is worth comparing.
func (e *encoder) null(size int) error {
	if e.flexible {
		e.out = append(e.out, 0)
		return nil
	}
	for range size {
		e.out = append(e.out, 0xff)
	}
	return nil
}

func asInt(v any) (int64, error) {
	switch v := v.(type) {
	case int:
		return int64(v), nil
	case int64:
		return v, nil
	case uint64:
		return int64(v), nil
	}
	s := fmt.Sprint(v)
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil {
		return 0, fmt.Errorf("got %v, want a whole number", v)
	}
	return n, nil
}

// intUpTo is a whole number from 0 to most.
func intUpTo(v any, most int64) (int64, error) {
	n, err := asInt(v)
	if err == nil && (n < 0 || n > most) {
		err = fmt.Errorf("got %d, want 0 to %d", n, most)
	}
	return n, err
}

func asBytes(v any) ([]byte, error) {
	switch v := v.(type) {
	case []byte:
		return v, nil
	case string:
		return []byte(v), nil
	}
	return nil, fmt.Errorf("got %v (%T), want bytes", v, v)
}

// body reads a whole message. It returns what it could read also with an error, and how many bytes were left.
func (d *decoder) body(fields []*Field) (root *Node, left int, err error) {
	root = &Node{Kind: Struct, Start: d.base}
	d.structure(root, fields)
	root.End = d.base + d.at
	return root, len(d.b) - d.at, d.err
}

type decoder struct {
	b        []byte
	at, base int
	version  int16
	flexible bool
	opaque   bool // record batches stay bytes
	spent    int64
	err      error
}

// maxDecoded bounds the memory that one decoded frame takes: a node may stand for a byte, and a record batch may
// decompress to much more than it has. nodeSize is about what a node takes.
const (
	maxDecoded = 1 << 30
	nodeSize   = 128
)

// node makes a node of a field, at the next byte.
func (d *decoder) node(f *Field) *Node {
	d.spend(nodeSize)
	return &Node{Field: f, Start: d.base + d.at}
}

// spend counts memory; beyond the bound decoding ends.
func (d *decoder) spend(n int64) {
	if d.spent += n; d.spent > maxDecoded && d.err == nil {
		d.err = fmt.Errorf("position %d: what is decoded takes more than %d MiB", d.base+d.at, maxDecoded>>20)
	}
}

func (d *decoder) take(n int) []byte {
	if d.err == nil && (n < 0 || n > len(d.b)-d.at) {
		d.err = fmt.Errorf("position %d: want %d bytes, %d are left", d.base+d.at, n, len(d.b)-d.at)
	}
	if d.err != nil {
		return nil
	}
	b := d.b[d.at : d.at+n]
	d.at += n
	return b
}

func (d *decoder) uvarint() uint64 {
	if d.err != nil {
		return 0
	}
	v, n := binary.Uvarint(d.b[d.at:])
	if n <= 0 {
		d.err = fmt.Errorf("position %d: bad varint", d.base+d.at)
		return 0
	}
	d.at += n
	return v
}

func (d *decoder) int(size int) int64 {
	b := d.take(size)
	var n uint64
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	shift := 64 - 8*size
	return int64(n<<shift) >> shift
}

// length reads a length in so many bytes, or as a varint; -1 is null.
func (d *decoder) length(size int) int {
	n := int64(-1)
	if d.flexible {
		n = int64(d.uvarint()) - 1
	} else {
		n = d.int(size)
	}
	if n > int64(len(d.b)) || n < -1 {
		if d.err == nil {
			d.err = fmt.Errorf("position %d: length %d in a frame of %d bytes", d.base+d.at, n, len(d.b))
		}
		return -1
	}
	return int(n)
}

func (d *decoder) structure(n *Node, fields []*Field) {
	var tagged []*Field
	for _, f := range fields {
		switch {
		case !f.Versions.Has(d.version):
		case f.Tagged.Has(d.version):
			tagged = append(tagged, f)
		case d.err == nil:
			n.Children = append(n.Children, d.field(f))
		}
	}
	if !d.flexible {
		return
	}
	for range d.uvarint() {
		tag := d.uvarint()
		data := d.take(int(min(d.uvarint(), math.MaxInt32)))
		if d.err != nil {
			return
		}
		start := d.base + d.at - len(data)
		i := slices.IndexFunc(tagged, func(f *Field) bool { return f.Tag == tag })
		if i < 0 {
			d.spend(nodeSize)
			n.Children = append(n.Children, &Node{Name: fmt.Sprintf("(tag %d)", tag), Value: data, Start: start, End: d.base + d.at})
			continue
		}
		inner := decoder{b: data, base: start, version: d.version, flexible: true, opaque: d.opaque, spent: d.spent}
		n.Children = append(n.Children, inner.field(tagged[i]))
		d.spent = inner.spent
		if d.err = inner.err; d.err == nil && inner.at < len(data) {
			d.err = fmt.Errorf("position %d: %d bytes left in tag %d after %s", start+inner.at, len(data)-inner.at, tag, tagged[i].Name)
		}
	}
}

func (d *decoder) field(f *Field) *Node {
	n := d.node(f)
	n.Name = f.Name
	defer func() { n.End = d.base + d.at }()
	if !f.Array {
		d.value(n, f, f.Null.Has(d.version))
		return n
	}
	length := d.length(4)
	if length < 0 {
		return n
	}
	n.Kind = Array
	for range length {
		if d.err != nil {
			break
		}
		item := d.node(f)
		d.value(item, f, false)
		item.End = d.base + d.at
		n.Children = append(n.Children, item)
	}
	return n
}

func (d *decoder) value(n *Node, f *Field, nullable bool) {
	switch f.Type {
	case "struct":
		if nullable && d.int(1) < 0 {
			return
		}
		n.Kind = Struct
		d.structure(n, f.Fields)
	case "string":
		if length := d.length(2); length >= 0 {
			n.Value = string(d.take(length))
		}
	case "bytes", "records":
		if length := d.length(4); length >= 0 {
			start := d.base + d.at
			b := d.take(length)
			n.Value = b
			if f.Type == "records" && d.err == nil && !d.opaque {
				d.batches(n, b, start)
			}
		}
	case "uuid":
		if b := d.take(16); b != nil {
			n.Value = UUID(b)
		}
	case "bool":
		n.Value = d.int(1) != 0
	case "float64":
		n.Value = math.Float64frombits(uint64(d.int(8)))
	case "uint16", "uint32":
		n.Value = d.int(intSizes[f.Type]) & (1<<(8*intSizes[f.Type]) - 1)
	default:
		n.Value = d.int(intSizes[f.Type])
	}
}
