package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/kaen-log/gateway/storage/record"
)

const (
	demoValue = `{"event":"OrderPlaced","order_id":"ORD-1042","total":129900}`
	demoKey   = "ORD-1042"
	demoNowMs = 1700000000000
	demoWidth = 15 // of a value that has its bytes beside it
)

// newDemoRecordCommand walks through one record batch: its bytes, its checksum, varints, null and empty values, and
// what the server changes when it stores it.
func newDemoRecordCommand() *cobra.Command {
	d := &recordDemo{}
	cmd := d.command("record", "Take one record batch apart, byte by byte",
		"Builds a batch of one record as a client sends it, takes it apart, and stores it\n"+
			"as the server does. The same flags always print the same bytes.", d.run)
	cmd.Flags().Lookup("now-ms").Usage = "timestamp of the record and clock of the server, in milliseconds"
	cmd.Flags().BoolVar(&d.hex, "hex", false, "show the bytes of each field and the whole batch")
	cmd.Flags().StringVar(&d.key, "key", demoKey, "key of the record")
	return cmd
}

type recordDemo struct {
	walkThrough
	hex bool
	key string
}

func (d *recordDemo) run() error {
	batch := d.build([]byte(demoValue))
	first, rest, err := record.Cut(batch)
	if err != nil {
		return &exitError{Code: exitNo, Err: err}
	}
	if len(rest) != 0 {
		return &exitError{Code: exitNo, Err: fmt.Errorf("%d bytes after the batch", len(rest))}
	}
	d.printf("A record batch as a client sends it: %d bytes, one record, uncompressed, no producer id\n\n", len(first))
	d.header(first)
	if err := d.record(first); err != nil {
		return &exitError{Code: exitNo, Err: err}
	}
	if d.hex {
		d.printf("\nThe whole batch\n\n%s", hex.Dump(first))
	}
	d.checksums()
	d.varints()
	for _, step := range []func() error{d.nulls, func() error { return d.store(first) }} {
		if err := step(); err != nil {
			return &exitError{Code: exitNo, Err: err}
		}
	}
	return nil
}

// build makes the batch of one record with the key and a value.
func (d *recordDemo) build(value []byte) record.Batch {
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
	b.Append(record.Record{Timestamp: d.nowMs, Key: []byte(d.key), Value: value})
	return b.Bytes()
}

// field prints one row: position, name, value and, when asked for, bytes, 16 to a row.
func (d *recordDemo) field(at int, name, value string, b []byte) {
	if !d.hex {
		d.printf("  %3d  %-17s  %s\n", at, name, value)
		return
	}
	if len(value) > demoWidth {
		d.printf("  %3d  %-17s  %s\n", at, name, value)
		name, value = "", ""
	}
	for first := true; first || len(b) > 0; first = false {
		n := min(len(b), 16)
		if name == "" {
			d.printf("%*s% x\n", 2+3+2+17+2+demoWidth+2, "", b[:n])
		} else {
			d.printf("  %3d  %-17s  %-*s  % x\n", at, name, demoWidth, value, b[:n])
		}
		b, name, value = b[n:], "", ""
	}
}

func (d *recordDemo) header(b record.Batch) {
	for _, f := range []struct {
		at, size int
		name     string
		value    string
	}{
		{record.BaseOffsetPos, 8, "base_offset", fmt.Sprint(b.BaseOffset())},
		{record.LengthPos, 4, "batch_length", fmt.Sprint(b.Size() - record.LogOverhead)},
		{record.LeaderEpochPos, 4, "leader_epoch", fmt.Sprint(b.LeaderEpoch())},
		{record.MagicPos, 1, "magic", fmt.Sprint(b.Magic())},
		{record.CRCPos, 4, "crc", fmt.Sprintf("%#08x", b.CRC())},
		{record.AttributesPos, 2, "attributes", fmt.Sprintf("%d (%v)", b.Attributes(), b.Codec())},
		{record.LastOffsetDeltaPos, 4, "last_offset_delta", fmt.Sprint(b.LastOffsetDelta())},
		{record.BaseTimestampPos, 8, "base_timestamp", fmt.Sprint(b.BaseTimestamp())},
		{record.MaxTimestampPos, 8, "max_timestamp", fmt.Sprint(b.MaxTimestamp())},
		{record.ProducerIDPos, 8, "producer_id", fmt.Sprint(b.ProducerID())},
		{record.ProducerEpochPos, 2, "producer_epoch", fmt.Sprint(b.ProducerEpoch())},
		{record.BaseSequencePos, 4, "base_sequence", fmt.Sprint(b.BaseSequence())},
		{record.CountPos, 4, "records", fmt.Sprint(b.Count())},
	} {
		d.field(f.at, f.name, f.value, b[f.at:f.at+f.size])
	}
}

// record takes the only record of b apart.
func (d *recordDemo) record(b record.Batch) error {
	var reader record.Reader
	for r, err := range reader.Records(b) {
		if err != nil {
			return err
		}
		d.printf("\nIts record\n\n")
		body := b.Body()
		length, n := record.Varint32(body)
		at := record.HeaderSize
		next := func(name, value string, size int) {
			d.field(at, name, value, b[at:at+size])
			at += size
		}
		next("length", fmt.Sprint(length), n)
		next("attributes", fmt.Sprint(r.Attributes), 1)
		next("timestamp_delta", fmt.Sprint(r.TimestampDelta), record.VarintLen(r.TimestampDelta))
		next("offset_delta", fmt.Sprint(r.OffsetDelta), record.VarintLen(int64(r.OffsetDelta)))
		next("key_length", fmt.Sprint(len(r.Key)), record.VarintLen(int64(len(r.Key))))
		next("key", string(r.Key), len(r.Key))
		next("value_length", fmt.Sprint(len(r.Value)), record.VarintLen(int64(len(r.Value))))
		next("value", string(r.Value), len(r.Value))
		next("headers", fmt.Sprint(len(r.Headers)), record.VarintLen(int64(len(r.Headers))))
		d.printf("\n  the record begins % x\n", body[:6])
	}
	return nil
}

func (d *recordDemo) checksums() {
	const check = "123456789"
	d.printf("\nThe checksum is CRC-32C (Castagnoli), from attributes to the end\n\n")
	d.printf("  crc-32c of %s  %#08x\n", check, record.CRC32C([]byte(check)))
	d.printf("  which is not crc-32   %#08x\n", crc32.ChecksumIEEE([]byte(check)))
}

func (d *recordDemo) varints() {
	d.printf("\nLengths and deltas are zigzag varints\n\n")
	for _, v := range []int64{0, -1, 1, -2, 64, -64, 129900} {
		d.printf("  %6d  % x\n", v, record.AppendVarint(nil, v))
	}
}

// nulls shows that a tombstone and an empty value differ, and not in size.
func (d *recordDemo) nulls() error {
	d.printf("\nA null value (a tombstone) is not an empty value\n\n")
	for _, c := range []struct {
		name  string
		value []byte
	}{{"tombstone", nil}, {"empty", []byte{}}} {
		b := d.build(c.value)
		var reader record.Reader
		for r, err := range reader.Records(b) {
			if err != nil {
				return err
			}
			decoded := "null"
			if r.Value != nil {
				decoded = strconv.Itoa(len(r.Value)) + " bytes"
			}
			d.printf("  %-9s  %d bytes, value_length %02x, decodes to %s\n", c.name, len(b), b[len(b)-2], decoded)
		}
	}
	return nil
}

// store does to b what the server does when the next offset of the partition is 41.
func (d *recordDemo) store(b record.Batch) error {
	var v record.Validator
	stored := bytes.Clone(b)
	validated, err := v.Validate(stored, record.Rules{NowMs: d.nowMs, BeforeMaxMs: math.MaxInt64, AfterMaxMs: math.MaxInt64,
		TargetProducer: true, FromClient: true})
	if err != nil {
		return err
	}
	s := validated.Batch
	s.SetBaseOffset(41 - int64(s.LastOffsetDelta()))
	s.SetLeaderEpoch(0)
	d.printf("\nStored as last offset 41 at leader epoch 0\n\n")
	d.printf("  base_offset   %d\n", s.BaseOffset())
	d.printf("  leader_epoch  %d\n", s.LeaderEpoch())
	d.printf("  crc           %#08x, as it came: base_offset and leader_epoch lie before it\n", s.CRC())
	if s.CRC() != b.CRC() {
		return errors.New("the checksum has changed")
	}
	if err := s.VerifyCRC(); err != nil {
		return err
	}
	d.printf("  the batch validates\n")
	return nil
}
