package compare

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/kaen-log/gateway/storage/record"
)

// buildRecords makes the value of a field of type records: a list of batches, each a map with `batch` or `hex`, or one
// such map, or a plain string of hex.
func buildRecords(v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []byte:
		return v, nil
	case map[string]any:
		return buildBatch(v)
	case []any:
		out := []byte{}
		for i, item := range v {
			m, ok := item.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("[%d]: got %T, want a map with batch fields or hex", i, item)
			}
			b, err := buildBatch(m)
			if err != nil {
				return nil, fmt.Errorf("[%d]: %w", i, err)
			}
			out = append(out, b...)
		}
		return out, nil
	}
	return nil, fmt.Errorf("got %T, want a batch or a list of batches", v)
}

// headerFields are the fields of a batch's header that `set` changes after the batch is built: position and size.
var headerFields = map[string]struct{ pos, size int }{
	"baseoffset": {record.BaseOffsetPos, 8}, "length": {record.LengthPos, 4}, "leaderepoch": {record.LeaderEpochPos, 4},
	"magic": {record.MagicPos, 1}, "crc": {record.CRCPos, 4}, "attributes": {record.AttributesPos, 2},
	"lastoffsetdelta": {record.LastOffsetDeltaPos, 4}, "basetimestamp": {record.BaseTimestampPos, 8},
	"maxtimestamp": {record.MaxTimestampPos, 8}, "producerid": {record.ProducerIDPos, 8},
	"producerepoch": {record.ProducerEpochPos, 2}, "basesequence": {record.BaseSequencePos, 4}, "count": {record.CountPos, 4},
}

// maxBuilt bounds the bytes of the keys and values in a batch that a scenario builds; maxTimes how many records are equal.
const (
	maxBuilt = 128 << 20
	maxTimes = 1 << 20
)

// buildBatch builds one batch as a client sends it, then applies `body` (hex in the place of the records' bytes),
// `set` (header fields, after which the CRC is computed again unless it is set itself), `append` (hex after the last
// record, counted by the length) and `cut` (bytes taken off the end, length unchanged).
func buildBatch(m map[string]any) ([]byte, error) {
	if text, ok := m["hex"]; ok {
		return hex.DecodeString(strings.ReplaceAll(fmt.Sprint(text), " ", ""))
	}
	o := record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch}
	var records []record.Record
	var deltas []int64
	var set map[string]any
	var body, tail []byte
	cut := int64(0)
	for name, v := range m {
		var err error
		var n int64
		switch name {
		case "records":
			records, deltas, err = buildBatchRecords(v)
		case "codec":
			o.Codec, err = record.ParseCodec(fmt.Sprint(v))
		case "producerId":
			o.HasProducer = true
			o.ProducerID, err = asInt(v)
		case "producerEpoch":
			n, err = asInt(v)
			o.ProducerEpoch = int16(n)
		case "baseSequence":
			n, err = asInt(v)
			o.BaseSequence = int32(n)
		case "transactional":
			o.Transactional = v == true
		case "control":
			o.Control = v == true
		case "set":
			set, _ = v.(map[string]any)
		case "body":
			body, err = hex.DecodeString(strings.ReplaceAll(fmt.Sprint(v), " ", ""))
		case "append":
			tail, err = hex.DecodeString(fmt.Sprint(v))
		case "cut":
			cut, err = intUpTo(v, maxBuilt)
		default:
			err = errors.New("unknown: want records, codec, producerId, producerEpoch, baseSequence, transactional, control, body, set, append, cut or hex")
		}
		if err != nil {
			return nil, fmt.Errorf("batch %s: %w", name, err)
		}
	}
	b := record.NewBuilder(o)
	for i, r := range records {
		b.AppendAt(deltas[i], r)
	}
	if len(records) == 0 {
		b.SetLastOffset(0)
	}
	batch := []byte(b.Bytes())
	if body != nil {
		batch = append(batch[:record.HeaderSize:record.HeaderSize], body...)
	}
	batch = append(batch, tail...)
	if len(body)+len(tail) > 0 {
		binary.BigEndian.PutUint32(batch[record.LengthPos:], uint32(len(batch)-record.LogOverhead))
	}
	fixCRC := true
	for name, v := range set {
		f, ok := headerFields[strings.ToLower(name)]
		n, err := asInt(v)
		if !ok || err != nil {
			return nil, fmt.Errorf("batch set %s: no such field, or not a number: %v", name, v)
		}
		for i := range f.size {
			batch[f.pos+i] = byte(n >> (8 * (f.size - 1 - i)))
		}
		fixCRC = fixCRC && !strings.EqualFold(name, "crc")
	}
	if fixCRC {
		binary.BigEndian.PutUint32(batch[record.CRCPos:], record.CRC32C(batch[record.AttributesPos:]))
	}
	if cut > int64(len(batch)) {
		return nil, fmt.Errorf("batch cut: %d of %d bytes", cut, len(batch))
	}
	return batch[:int64(len(batch))-cut], nil
}

func buildBatchRecords(v any) ([]record.Record, []int64, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, nil, fmt.Errorf("got %T, want a list", v)
	}
	var out []record.Record
	var deltas []int64
	next, size := int64(0), int64(0)
	for i, item := range list {
		m, ok := item.(map[string]any)
		if !ok {
			return nil, nil, fmt.Errorf("[%d]: got %v, want a map", i, item)
		}
		r := record.Record{Timestamp: fixedTime}
		times := int64(1)
		for name, v := range m {
			var err error
			switch name {
			case "key":
				r.Key = recordBytes(v)
			case "value":
				r.Value = recordBytes(v)
			case "size": // a value of so many bytes
				var n int64
				if n, err = intUpTo(v, maxBuilt); err == nil {
					r.Value = []byte(strings.Repeat("x", int(n)))
				}
			case "timestamp":
				r.Timestamp, err = asInt(v)
			case "delta": // its offset in the batch
				if next, err = intUpTo(v, math.MaxInt32); err == nil && len(deltas) > 0 && next <= deltas[len(deltas)-1] {
					err = fmt.Errorf("got %d after %d, want offsets that rise", next, deltas[len(deltas)-1])
				}
			case "times": // so many equal records
				times, err = intUpTo(v, maxTimes)
			case "headers":
				err = buildHeaders(&r, v)
			default:
				err = errors.New("unknown: want key, value, size, timestamp, delta, times or headers")
			}
			if err != nil {
				return nil, nil, fmt.Errorf("[%d] %s: %w", i, name, err)
			}
		}
		if size += times * int64(1+len(r.Key)+len(r.Value)); size > maxBuilt || next+times > math.MaxInt32 {
			return nil, nil, fmt.Errorf("[%d]: too much for a batch: at most %d bytes, and offsets up to %d", i, maxBuilt, math.MaxInt32)
		}
		for range times {
			out, deltas = append(out, r), append(deltas, next)
			next++
		}
	}
	return out, deltas, nil
}

// fixedTime is the timestamp of a record that names none: old enough never to be mistaken for a broker's clock.
const fixedTime = 1_700_000_000_000

func recordBytes(v any) []byte {
	switch v := v.(type) {
	case nil:
		return nil
	case []byte:
		return v
	}
	return []byte(fmt.Sprint(v))
}

func buildHeaders(r *record.Record, v any) error {
	list, ok := v.([]any)
	if !ok {
		return fmt.Errorf("got %T, want a list of [key, value]", v)
	}
	for _, item := range list {
		pair, ok := item.([]any)
		if !ok || len(pair) != 2 {
			return fmt.Errorf("got %v, want [key, value]", item)
		}
		r.Headers = append(r.Headers, record.Header{Key: recordBytes(pair[0]), Value: recordBytes(pair[1])})
	}
	return nil
}

// batches hangs the record batches in b under n: an array of structs with the header's fields, the records and the bytes
// of the body. A last batch that is cut short is left out (see Normalisers).
func (d *decoder) batches(n *Node, b []byte, start int) {
	if len(b) == 0 {
		return
	}
	n.Kind = Array
	n.Value = nil
	reader := record.Reader{MaxDecompressed: maxAnswer}
	for len(b) > 0 && d.err == nil {
		size, err := record.PeekSize(b)
		if errors.Is(err, record.ErrShort) || err == nil && size > len(b) && len(n.Children) > 0 {
			return // the cut-off rule
		}
		if err != nil || size > len(b) {
			item := &Node{Kind: Struct, Start: start, End: start + len(b)}
			item.leaf("(no batch)", fmt.Sprintf("%d bytes", len(b)), start, start+len(b))
			n.Children = append(n.Children, item)
			return
		}
		n.Children = append(n.Children, d.batch(record.Batch(b[:size]), start, &reader))
		b, start = b[size:], start+size
	}
}

// leaf appends a value to a struct.
func (n *Node) leaf(name string, v any, start, end int) {
	n.Children = append(n.Children, &Node{Name: name, Value: v, Start: start, End: end})
}

func (d *decoder) batch(b record.Batch, start int, reader *record.Reader) *Node {
	const header, perRecord, perHeader = 16, 8, 3 // nodes
	d.spend(header * nodeSize)
	n := &Node{Kind: Struct, Start: start, End: start + len(b)}
	at := func(name string, v any) {
		f := headerFields[strings.ToLower(name)]
		n.leaf(name, v, start+f.pos, start+f.pos+f.size)
	}
	at("baseOffset", b.BaseOffset())
	at("length", int64(b.Size()-record.LogOverhead))
	at("partitionLeaderEpoch", int64(b.LeaderEpoch()))
	at("magic", int64(b.Magic()))
	crc := "valid"
	if err := b.VerifyCRC(); err != nil {
		crc = fmt.Sprintf("invalid: %08x", b.CRC())
	}
	at("crc", crc)
	at("attributes", int64(b.Attributes()))
	at("lastOffsetDelta", int64(b.LastOffsetDelta()))
	at("baseTimestamp", b.BaseTimestamp())
	at("maxTimestamp", b.MaxTimestamp())
	at("producerId", b.ProducerID())
	at("producerEpoch", int64(b.ProducerEpoch()))
	at("baseSequence", int64(b.BaseSequence()))
	at("count", int64(b.Count()))
	body := start + record.HeaderSize
	if b.Codec() != record.None {
		n.leaf("compressedBody", []byte(b.Body()), body, n.End)
	}
	list := &Node{Name: "records", Kind: Array, Start: body, End: n.End}
	for r, err := range reader.Records(b) {
		item := &Node{Kind: Struct, Start: body, End: n.End}
		if err != nil {
			item.leaf("(does not parse)", err.Error(), body, n.End)
			list.Children = append(list.Children, item)
			break
		}
		d.spend(int64((perRecord+perHeader*len(r.Headers))*nodeSize + len(r.Key) + len(r.Value)))
		for _, h := range r.Headers {
			d.spend(int64(len(h.Key) + len(h.Value)))
		}
		if d.err != nil {
			break
		}
		item.leaf("attributes", int64(r.Attributes), body, n.End)
		item.leaf("offsetDelta", int64(r.OffsetDelta), body, n.End)
		item.leaf("timestampDelta", r.TimestampDelta, body, n.End)
		item.leaf("key", recordValue(r.Key), body, n.End)
		item.leaf("value", recordValue(r.Value), body, n.End)
		headers := &Node{Name: "headers", Kind: Array, Start: body, End: n.End}
		for _, h := range r.Headers {
			header := &Node{Kind: Struct, Start: body, End: n.End}
			header.leaf("key", recordValue(h.Key), body, n.End)
			header.leaf("value", recordValue(h.Value), body, n.End)
			headers.Children = append(headers.Children, header)
		}
		item.Children = append(item.Children, headers)
		list.Children = append(list.Children, item)
	}
	n.Children = append(n.Children, list)
	if b.Codec() == record.None {
		n.leaf("body", []byte(b.Body()), body, n.End)
	}
	return n
}

// recordValue is a copy of a key or value, which the reader reuses; null stays null.
func recordValue(b []byte) any {
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}
