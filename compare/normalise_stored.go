package compare

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// madeIDLength is the least length of a member id that a broker makes up: it ends with a UUID.
const madeIDLength = 36

// stored makes comparable the key or the value of a record in __consumer_offsets: ids of topics and those that a broker
// gave to members stand by their names, and eight bytes that are a time of the run are its clock. Names change the
// length of what is told, not what the record says of its own length.
func (n *normaliser) stored(b []byte) []byte {
	if n.prefix != "" {
		b = bytes.ReplaceAll(b, []byte(n.prefix), []byte("~"))
	}
	for id := range n.known {
		b = bytes.ReplaceAll(b, id[:], []byte(n.topicID(id)))
	}
	for id, name := range n.names["member id"] {
		if len(id) >= madeIDLength {
			b = bytes.ReplaceAll(b, []byte(id), []byte(name))
		}
	}
	const size = 8
	var out []byte
	for len(b) >= size {
		if v := int64(binary.BigEndian.Uint64(b)); n.notBefore <= v && v <= n.notAfter {
			out, b = append(out, "<clock>"...), b[size:]
			continue
		}
		out, b = append(out, b[0]), b[1:]
	}
	return append(out, b...)
}

// isMarker reports whether a batch is a marker that ends a transaction. Kafka: EndTransactionMarker.
func isMarker(batch *Node) bool {
	const control = 0x20
	attributes, _ := batch.Child("attributes").value().(int64)
	records := batch.Child("records")
	return attributes&control != 0 && records != nil && len(records.Children) == 1
}

// endMarker is the value of a marker's record, or the body of its batch, in which the epoch of the coordinator stands by
// its name: it is the last of the value, and in a body only the number of headers follows.
func (n *normaliser) endMarker(b []byte) string {
	const value, epoch = 6, 4
	end := len(b)
	if end > value {
		end-- // a body
	}
	if end < value {
		return valueText("value", b)
	}
	at := end - epoch
	name := n.bind("coordinator epoch", strconv.FormatInt(int64(int32(binary.BigEndian.Uint32(b[at:]))), 10))
	return fmt.Sprintf("0x%x%s%x", b[:at], name, b[end:])
}

// isStored reports whether a field is the key or the value of a record that a coordinator of groups has written.
func isStored(at, name string) bool {
	return (name == "key" || name == "value") && strings.Contains(at, "__consumer_offsets")
}
