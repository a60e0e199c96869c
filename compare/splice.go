package compare

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// edits are new values for nodes of one decoded frame: of a leaf, a value as Node holds it; of any node, verbatim bytes
// that stand in its place.
type edits map[*Node]any

// verbatim are the bytes of a node as they are written.
type verbatim []byte

// splice returns frame with the values of the edited nodes. Everything else stays as it was, byte for byte, also what
// another writer would have written otherwise; only the sizes of tags that hold an edited node are written anew. root
// is what was decoded of the frame.
func splice(frame []byte, root *Node, version int16, flexible bool, e edits) ([]byte, error) {
	if len(e) == 0 {
		return frame, nil
	}
	s := splicer{frame: frame, edits: e, encoder: encoder{version: version, flexible: flexible}, touched: map[*Node]bool{}}
	s.mark(root)
	s.out = append(make([]byte, 0, len(frame)+64), frame[:root.Start]...)
	if err := s.node(root); err != nil {
		return nil, err
	}
	return append(s.out, frame[root.End:]...), nil
}

type splicer struct {
	encoder
	frame   []byte
	edits   edits
	touched map[*Node]bool // nodes that are edited, and all that they stand in
}

func (s *splicer) mark(n *Node) bool {
	_, touched := s.edits[n]
	for _, c := range n.Children {
		touched = s.mark(c) || touched
	}
	if touched {
		s.touched[n] = true
	}
	return touched
}

// node writes a touched node: its edited value, or its bytes with those of the touched nodes in it replaced.
func (s *splicer) node(n *Node) error {
	if v, ok := s.edits[n]; ok {
		return s.value(n, v)
	}
	inside := slices.DeleteFunc(slices.Clone(n.Children), func(c *Node) bool { return !s.touched[c] })
	slices.SortStableFunc(inside, func(a, b *Node) int { return a.Start - b.Start })
	at := n.Start
	for _, c := range inside {
		if c.Start < at {
			return fmt.Errorf("%s at %d: written already up to %d", c.Name, c.Start, at)
		}
		s.out = append(s.out, s.frame[at:c.Start]...)
		write := s.node
		if c.Field != nil && c.Field.Tagged.Has(s.version) && n.Kind != Array {
			write = s.tagged
		}
		if err := write(c); err != nil {
			return err
		}
		at = c.End
	}
	s.out = append(s.out, s.frame[at:n.End]...)
	return nil
}

// tagged writes a node of the tag section, whose old size is the last thing that was written.
func (s *splicer) tagged(n *Node) error {
	size := binary.AppendUvarint(nil, uint64(n.End-n.Start))
	before, ok := cutSuffix(s.out, size)
	if !ok {
		return fmt.Errorf("%s at %d: no size of %d before it", n.Name, n.Start, n.End-n.Start)
	}
	s.out = nil
	if err := s.node(n); err != nil {
		return err
	}
	inner := s.out
	s.out = append(binary.AppendUvarint(before, uint64(len(inner))), inner...)
	return nil
}

func cutSuffix(b, suffix []byte) ([]byte, bool) {
	at := len(b) - len(suffix)
	if at < 0 || !slices.Equal(b[at:], suffix) {
		return b, false
	}
	return b[:at], true
}

func (s *splicer) value(n *Node, v any) error {
	switch b, ok := v.(verbatim); {
	case ok:
		s.out = append(s.out, b...)
		return nil
	case n.Field == nil:
		return fmt.Errorf("%s at %d: not a field of the schema", n.Name, n.Start)
	case n.Field.Array:
		return s.scalar(n.Field, v, false) // an element
	}
	return s.scalar(n.Field, v, true)
}
