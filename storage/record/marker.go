package record

import "encoding/binary"

// Marker is the end of a transaction, written to each of its partitions as a control batch of one record. The key is
// int16 version 0 and int16 type (0 abort, 1 commit); the value is int16 version 0 and int32 coordinator epoch.
// Kafka: EndTransactionMarker, ControlRecordType.
type Marker struct {
	Commit           bool  // false is abort
	CoordinatorEpoch int32 // of the transaction coordinator that decided
}

// EndTxnMarker returns the control batch that ends a transaction of the producer; its base offset is 0.
func EndTxnMarker(producerID int64, producerEpoch int16, m Marker, timestampMs int64, leaderEpoch int32) Batch {
	var key [4]byte
	if m.Commit {
		key[3] = 1
	}
	var value [6]byte
	binary.BigEndian.PutUint32(value[2:], uint32(m.CoordinatorEpoch))
	b := NewBuilder(BuilderOptions{
		LeaderEpoch: leaderEpoch, Transactional: true, Control: true,
		HasProducer: true, ProducerID: producerID, ProducerEpoch: producerEpoch, BaseSequence: NoSequence,
	})
	b.Append(Record{Timestamp: timestampMs, Key: key[:], Value: value[:]})
	return b.Bytes()
}

// ParseEndTxnMarker reads a record of a control batch. ok is false when it is a control record of another kind, which
// a reader passes over; the error is a *CorruptError. A newer version is read as version 0, as Kafka does.
func ParseEndTxnMarker(r Record) (m Marker, ok bool, err error) {
	if len(r.Key) < 4 {
		return Marker{}, false, corrupt("control record key of %d bytes, want at least 4", len(r.Key))
	}
	if v := int16(binary.BigEndian.Uint16(r.Key)); v < 0 {
		return Marker{}, false, corrupt("control record key version %d", v)
	}
	kind := int16(binary.BigEndian.Uint16(r.Key[2:]))
	if kind != 0 && kind != 1 {
		return Marker{}, false, nil
	}
	if len(r.Value) < 6 {
		return Marker{}, false, corrupt("end-transaction marker value of %d bytes, want at least 6", len(r.Value))
	}
	if v := int16(binary.BigEndian.Uint16(r.Value)); v < 0 {
		return Marker{}, false, corrupt("end-transaction marker version %d", v)
	}
	return Marker{Commit: kind == 1, CoordinatorEpoch: int32(binary.BigEndian.Uint32(r.Value[2:]))}, true, nil
}
