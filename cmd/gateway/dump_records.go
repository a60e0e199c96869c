package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// batchRecords prints the records of a batch. sound says that its checksum is right; otherwise the damage is
// reported already.
func (l *logDump) batchRecords(position int64, b record.Batch, sound bool) {
	next := b.BaseOffset()
	var last error
	for r, err := range l.reader.Records(b) {
		if err != nil {
			last = err
			break
		}
		l.oneRecord(b, r)
		if r.Offset < next || r.Offset > b.LastOffset() {
			last = fmt.Errorf("record at offset %d, want %d to %d", r.Offset, next, b.LastOffset())
		}
		next = r.Offset + 1
		if l.ctx.Err() != nil {
			return
		}
	}
	switch {
	case last == nil:
	case sound:
		l.fault(position, "records of the batch: %v", last)
	default:
		l.printf("    records cannot be read on: %v\n", last)
	}
}

func (l *logDump) oneRecord(b record.Batch, r record.Record) {
	l.printf("    offset %-10d  %13d %-24s  ", r.Offset, r.Timestamp, isoTime(r.Timestamp))
	switch {
	case b.Control():
		l.printf("%s", l.controlText(r))
	case l.file.topic == gatewayMetadata:
		l.printf("%s", gatewayMetadataText(r.Key, r.Value))
	default:
		if text, ok := knownRecord(l.file.topic, r.Key, r.Value); ok {
			l.printf("%s", text)
		} else {
			l.printf("key %s  value %s", l.text(r.Key), l.text(r.Value))
		}
	}
	for i, h := range r.Headers {
		word := ", "
		if i == 0 {
			word = "  headers "
		}
		l.printf("%s%s=%s", word, l.text(h.Key), l.text(h.Value))
	}
	l.printf("\n")
}

// controlTypes names the control records that are no end of a transaction. Kafka: ControlRecordType.
var controlTypes = map[int16]string{
	2: "leader change", 3: "snapshot header", 4: "snapshot footer", 5: "raft version", 6: "raft voters",
}

// controlText is a record of a control batch.
func (d *dumper) controlText(r record.Record) string {
	m, ok, err := record.ParseEndTxnMarker(r)
	switch {
	case err != nil:
		return fmt.Sprintf("control record that cannot be read (%v)  key %s  value %s", err, d.text(r.Key), d.text(r.Value))
	case ok && m.Commit:
		return fmt.Sprintf("COMMIT  coordinator epoch %d", m.CoordinatorEpoch)
	case ok:
		return fmt.Sprintf("ABORT  coordinator epoch %d", m.CoordinatorEpoch)
	}
	kind := int16(-1)
	if len(r.Key) >= 4 {
		kind = int16(binary.BigEndian.Uint16(r.Key[2:]))
	}
	name := controlTypes[kind]
	if name == "" {
		name = "of unknown type"
	}
	return fmt.Sprintf("control record %d, %s  value %s", kind, name, d.text(r.Value))
}

// gatewayMetadata is the topic of our own metadata log. Its bytes are not printed: some are what proves users.
const gatewayMetadata = "__gateway_metadata"

// gatewayMetadataText says what a record of our metadata log means.
func gatewayMetadataText(key, value []byte) string {
	text, err := storage.DescribeMetadataRecord(key, value)
	if err != nil {
		return fmt.Sprintf("a record of %d bytes that cannot be read: %v", len(key)+len(value), err)
	}
	return text
}

// maxKnownRecord bounds the values that are decoded: an array in them costs more memory than bytes.
const maxKnownRecord = 1 << 20

// knownRecord decodes a record of a topic in which Kafka keeps its own. ok is false when the record is to be shown
// as it is.
func knownRecord(topic string, key, value []byte) (text string, ok bool) {
	if len(key) < 2 || len(value) > maxKnownRecord || len(key) > maxKnownRecord {
		return "", false
	}
	defer func() {
		if recover() != nil { // the decoder's, on bytes that nobody checked
			text, ok = "", false
		}
	}()
	var err error
	kind := int16(binary.BigEndian.Uint16(key))
	switch {
	case topic == "__consumer_offsets" && kind <= 1 && kind >= 0:
		text, err = offsetCommitText(key, value)
	case topic == "__consumer_offsets" && kind == 2:
		text, err = groupMetadataText(key, value)
	case topic == "__transaction_state" && kind == 0:
		text, err = txnMetadataText(key, value)
	default:
		return "", false
	}
	return text, err == nil
}

// errNewerValue is a value in a version that the decoder does not know.
var errNewerValue = errors.New("value of a newer version")

func checkVersion(value []byte, most int16) error {
	if len(value) < 2 || int16(binary.BigEndian.Uint16(value)) > most {
		return errNewerValue
	}
	return nil
}

func offsetCommitText(key, value []byte) (string, error) {
	var k kmsg.OffsetCommitKey
	if err := k.ReadFrom(key); err != nil {
		return "", err
	}
	head := fmt.Sprintf("committed offset  group %q topic %q partition %d", k.Group, k.Topic, k.Partition)
	if value == nil {
		return head + ": removed", nil
	}
	if err := checkVersion(value, 4); err != nil {
		return "", err
	}
	v := kmsg.NewOffsetCommitValue()
	if err := v.ReadFrom(value); err != nil {
		return "", err
	}
	text := fmt.Sprintf("%s: offset %d", head, v.Offset)
	if v.Version >= 3 {
		text += fmt.Sprintf(" leader epoch %s", orNone(v.LeaderEpoch))
	}
	text += fmt.Sprintf(" metadata %q committed %d %s", v.Metadata, v.CommitTimestamp, isoTime(v.CommitTimestamp))
	if v.Version == 1 && v.ExpireTimestamp >= 0 {
		text += fmt.Sprintf(" expires %d %s", v.ExpireTimestamp, isoTime(v.ExpireTimestamp))
	}
	return text, nil
}

func groupMetadataText(key, value []byte) (string, error) {
	var k kmsg.GroupMetadataKey
	if err := k.ReadFrom(key); err != nil {
		return "", err
	}
	head := fmt.Sprintf("group metadata  group %q", k.Group)
	if value == nil {
		return head + ": removed", nil
	}
	if err := checkVersion(value, 4); err != nil {
		return "", err
	}
	v := kmsg.NewGroupMetadataValue()
	if err := v.ReadFrom(value); err != nil {
		return "", err
	}
	text := fmt.Sprintf("%s: type %q generation %d protocol %s leader %s", head, v.ProtocolType, v.Generation, nullable(v.Protocol), nullable(v.Leader))
	for _, m := range v.Members {
		text += fmt.Sprintf(" member %q client %q host %q", m.MemberID, m.ClientID, m.ClientHost)
	}
	return text, nil
}

func txnMetadataText(key, value []byte) (string, error) {
	var k kmsg.TxnMetadataKey
	if err := k.ReadFrom(key); err != nil {
		return "", err
	}
	head := fmt.Sprintf("transaction  id %q", k.TransactionalID)
	if value == nil {
		return head + ": removed", nil
	}
	if err := checkVersion(value, 1); err != nil {
		return "", err
	}
	v := kmsg.NewTxnMetadataValue()
	if err := v.ReadFrom(value); err != nil {
		return "", err
	}
	text := fmt.Sprintf("%s: %s producer %d epoch %d timeout %dms updated %d %s", head, strings.ToUpper(v.State.String()), v.ProducerID, v.ProducerEpoch,
		v.TimeoutMillis, v.LastUpdateTimestamp, isoTime(v.LastUpdateTimestamp))
	for _, t := range v.Topics {
		for _, p := range t.Partitions {
			text += fmt.Sprintf(" %s-%d", t.Topic, p)
		}
	}
	return text, nil
}

func nullable(s *string) string {
	if s == nil {
		return "null"
	}
	return fmt.Sprintf("%q", *s)
}
