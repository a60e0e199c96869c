package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage/record"
)

// checkRefused checks a batch that was not taken: the code, no offsets, and nothing appended.
func checkRefused(t *testing.T, b *broker, topic string, got kmsg.ProduceResponseTopicPartition, code int16) {
	t.Helper()
	if got.ErrorCode != code || got.BaseOffset != -1 || got.LogAppendTime != -1 {
		t.Errorf("got error %d, base offset %d, append time %d; want %d, -1, -1", got.ErrorCode, got.BaseOffset, got.LogAppendTime, code)
	}
	if end := b.offsets(topic, got.Partition).End; end != 0 {
		t.Errorf("log ends at %d, want 0", end)
	}
}

// setCRC makes the CRC of a batch right after a test has changed it.
func setCRC(batch []byte) []byte {
	binary.BigEndian.PutUint32(batch[record.CRCPos:], record.CRC32C(batch[record.AttributesPos:]))
	return batch
}

func TestProduceFieldCases(t *testing.T) {
	atVersions(t, "PROD-01", 0, 3, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		req := b.produceRequest(v, "t", produced{0, b.batch("x")})
		req.Acks = 0
		if resp, err := b.dispatch(req); resp != nil || err != nil {
			t.Errorf("acks=0: got response %v, error %v; want none", resp, err)
		}
		if end := b.offsets("t", 0).End; end != 1 {
			t.Errorf("log ends at %d, want 1", end)
		}
		// An error can only be told by the end of the connection.
		req = b.produceRequest(v, "t", produced{7, b.batch("x")})
		req.Acks = 0
		if resp, err := b.dispatch(req); resp != nil || err == nil {
			t.Errorf("acks=0 to a missing partition: got response %v, error %v; want an error only", resp, err)
		}
	})
	atVersions(t, "PROD-03", 0, 3, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		req := b.produceRequest(v, "t", produced{0, b.batch("x")})
		req.Acks = 2
		p := ask[*kmsg.ProduceResponse](b, req).Topics[0].Partitions[0]
		checkRefused(t, b, "t", p, 21)
		if p.LogStartOffset != -1 {
			t.Errorf("log start offset %d, want -1", p.LogStartOffset)
		}
	})
	atVersions(t, "PROD-04", 0, 3, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1, "max.message.bytes", "10000")
		random := make([]byte, 20_000)
		for i := range random {
			random[i] = byte(rand.Uint32())
		}
		p := b.produce(v, "t", 0, b.batch(string(random)))
		checkRefused(t, b, "t", p, 10)
		if p.LogStartOffset != -1 {
			t.Errorf("log start offset %d, want -1", p.LogStartOffset)
		}
		zeros := newBatch(record.BuilderOptions{Codec: record.Gzip}, b.nowMs(), strings.Repeat("\x00", 200_000))
		if p := b.produce(v, "t", 0, zeros); p.ErrorCode != 0 || p.BaseOffset != 0 {
			t.Errorf("%d compressed bytes: got error %d, base offset %d; want 0, 0", len(zeros), p.ErrorCode, p.BaseOffset)
		}
	})
	atVersions(t, "PROD-05", 0, 3, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1, "max.message.bytes", "10000", "compression.type", "uncompressed")
		zeros := newBatch(record.BuilderOptions{Codec: record.Gzip}, b.nowMs(), strings.Repeat("\x00", 200_000))
		checkRefused(t, b, "t", b.produce(v, "t", 0, zeros), 10)
	})
	atVersions(t, "PROD-06", 0, 3, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 2)
		bad := b.batch("x")
		bad[record.CRCPos] ^= 1
		resp := ask[*kmsg.ProduceResponse](b, b.produceRequest(v, "t", produced{0, bad}, produced{1, b.batch("y")}))
		checkRefused(t, b, "t", resp.Topics[0].Partitions[0], 2)
		if p := resp.Topics[0].Partitions[1]; p.ErrorCode != 0 || p.BaseOffset != 0 {
			t.Errorf("the other partition: got error %d, base offset %d; want 0, 0", p.ErrorCode, p.BaseOffset)
		}
	})
	atVersions(t, "PROD-08", 0, 3, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		checkRefused(t, b, "t", b.produce(v, "t", 0, append(b.batch("x"), b.batch("y")...)), 87)
	})
	atVersions(t, "PROD-09", 0, 3, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		checkRefused(t, b, "t", b.produce(v, "t", 0, []byte{}), 87)
		checkRefused(t, b, "t", b.produce(v, "t", 0, nil), 87)
	})
	for _, c := range []struct{ version, code int16 }{{3, 76}, {6, 76}, {7, 0}, {13, 0}} {
		t.Run(fmt.Sprintf("PROD-10/v%d", c.version), func(t *testing.T) {
			b := newBroker(t, nil)
			b.topic("t", 1)
			p := b.produce(c.version, "t", 0, newBatch(record.BuilderOptions{Codec: record.Zstd}, b.nowMs(), "x"))
			if p.ErrorCode != c.code {
				t.Errorf("zstd in version %d: got error %d, want %d", c.version, p.ErrorCode, c.code)
			}
		})
	}
	atVersions(t, "PROD-12", 0, 3, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		for _, c := range []struct {
			what                   string
			records                int
			lastOffsetDelta, count uint32
		}{
			{"count 2, last offset delta 5", 2, 5, 2},
			{"count 0", 1, 0, 0},
			{"count 3, 2 records", 2, 2, 3},
			{"count 1, 2 records", 2, 0, 1},
		} {
			batch := b.batch(make([]string, c.records)...)
			binary.BigEndian.PutUint32(batch[record.LastOffsetDeltaPos:], c.lastOffsetDelta)
			binary.BigEndian.PutUint32(batch[record.CountPos:], c.count)
			p := b.produce(v, "t", 0, setCRC(batch))
			t.Log(c.what)
			checkRefused(t, b, "t", p, 87)
		}
	})
	atVersions(t, "PROD-14", 0, 3, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1, "cleanup.policy", "compact")
		build := record.NewBuilder(record.BuilderOptions{LeaderEpoch: -1})
		for i := range 3 {
			r := record.Record{Timestamp: b.nowMs(), Key: []byte{}, Value: []byte("v")} // an empty key is a key
			if i == 1 {
				r.Key = nil
			}
			build.Append(r)
		}
		p := b.produce(v, "t", 0, build.Bytes())
		checkRefused(t, b, "t", p, 87)
		if v < 8 {
			return
		}
		if len(p.ErrorRecords) != 1 || p.ErrorRecords[0].RelativeOffset != 1 || p.ErrorRecords[0].ErrorMessage == nil || p.ErrorMessage == nil {
			t.Errorf("got record errors %+v, message %v; want one at index 1 and texts", p.ErrorRecords, p.ErrorMessage)
		}
	})
	atVersions(t, "PROD-16", 0, 3, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		future := func() []byte {
			return newBatch(record.BuilderOptions{}, b.nowMs()+2*time.Hour.Milliseconds(), "x")
		}
		p := b.produce(v, "t", 0, future())
		checkRefused(t, b, "t", p, 32)
		if v >= 8 && len(p.ErrorRecords) != 1 {
			t.Errorf("got record errors %+v, want one", p.ErrorRecords)
		}
		b.topic("after", 1, "message.timestamp.after.max.ms", "9223372036854775807")
		if p := b.produce(v, "after", 0, future()); p.ErrorCode != 0 {
			t.Errorf("without a limit: got error %d, want 0", p.ErrorCode)
		}
		b.topic("before", 1, "message.timestamp.before.max.ms", "1000")
		checkRefused(t, b, "before", b.produce(v, "before", 0, newBatch(record.BuilderOptions{}, b.nowMs()-1001, "x")), 32)
		b.topic("append", 1, "message.timestamp.type", "LogAppendTime")
		if p := b.produce(v, "append", 0, future()); p.ErrorCode != 0 {
			t.Errorf("with LogAppendTime: got error %d, want 0", p.ErrorCode)
		}
	})
	atVersions(t, "PROD-17", 0, 3, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1, "message.timestamp.type", "LogAppendTime")
		b.topic("create", 1)
		old := newBatch(record.BuilderOptions{}, 1000, "x")
		p := b.produce(v, "t", 0, old)
		if p.ErrorCode != 0 || p.LogAppendTime != b.nowMs() {
			t.Errorf("got error %d, append time %d; want 0, %d", p.ErrorCode, p.LogAppendTime, b.nowMs())
		}
		stored := b.batches(b.fetchOne(b.fetchRequest(12, asked{"t", 0, 0})).RecordBatches)[0]
		if !stored.LogAppendTime() || stored.MaxTimestamp() != b.nowMs() {
			t.Errorf("stored attributes %#x, max timestamp %d; want bit 3 and %d", stored.Attributes(), stored.MaxTimestamp(), b.nowMs())
		}
		p = b.produce(v, "create", 0, newBatch(record.BuilderOptions{}, 1000, "x"))
		if p.ErrorCode != 0 || p.LogAppendTime != -1 {
			t.Errorf("CreateTime: got error %d, append time %d; want 0, -1", p.ErrorCode, p.LogAppendTime)
		}
		stored = b.batches(b.fetchOne(b.fetchRequest(12, asked{"create", 0, 0})).RecordBatches)[0]
		if stored.LogAppendTime() || stored.MaxTimestamp() != 1000 {
			t.Errorf("CreateTime: stored attributes %#x, max timestamp %d; want no bit 3 and 1000", stored.Attributes(), stored.MaxTimestamp())
		}
	})
	atVersions(t, "PROD-19", 0, 3, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		for _, epoch := range []int32{-1, 0, 99} {
			batch := b.batch("x")
			record.Batch(batch).SetLeaderEpoch(epoch)
			if p := b.produce(v, "t", 0, batch); p.ErrorCode != 0 {
				t.Errorf("leader epoch %d: got error %d, want 0", epoch, p.ErrorCode)
			}
		}
		for _, stored := range b.batches(b.fetchOne(b.fetchRequest(12, asked{"t", 0, 0})).RecordBatches) {
			if got, want := stored.LeaderEpoch(), b.log("t", 0).LeaderEpoch(); got != want {
				t.Errorf("stored leader epoch %d, want %d", got, want)
			}
		}
	})
	atVersions(t, "PROD-20", 0, 3, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		send := func(seq int32) kmsg.ProduceResponseTopicPartition {
			o := record.BuilderOptions{HasProducer: true, ProducerID: 5, BaseSequence: seq}
			return b.produce(v, "t", 0, newBatch(o, b.nowMs(), "x"))
		}
		for seq := range int32(6) {
			if p := send(seq); p.ErrorCode != 0 || p.BaseOffset != int64(seq) {
				t.Fatalf("sequence %d: got error %d, base offset %d", seq, p.ErrorCode, p.BaseOffset)
			}
		}
		if p := send(2); p.ErrorCode != 0 || p.BaseOffset != 2 {
			t.Errorf("third again: got error %d, base offset %d; want 0, 2", p.ErrorCode, p.BaseOffset)
		}
		if p := send(0); p.ErrorCode != 45 || p.BaseOffset != -1 {
			t.Errorf("first again: got error %d, base offset %d; want 45, -1", p.ErrorCode, p.BaseOffset)
		}
		if end := b.offsets("t", 0).End; end != 6 {
			t.Errorf("log ends at %d, want 6", end)
		}
	})
	atVersions(t, "PROD-23", 0, 3, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		for _, c := range []struct {
			epoch int16
			seq   int32
			code  int16
		}{{1, 0, 0}, {0, 1, 47}, {2, 5, 45}, {2, 0, 0}} {
			o := record.BuilderOptions{HasProducer: true, ProducerID: 5, ProducerEpoch: c.epoch, BaseSequence: c.seq}
			p := b.produce(v, "t", 0, newBatch(o, b.nowMs(), "x"))
			if p.ErrorCode != c.code {
				t.Errorf("epoch %d sequence %d: got error %d, want %d", c.epoch, c.seq, p.ErrorCode, c.code)
			}
			if v >= 5 && p.LogStartOffset != 0 {
				t.Errorf("epoch %d sequence %d: log start offset %d, want 0", c.epoch, c.seq, p.LogStartOffset)
			}
		}
	})
	atVersions(t, "PROD-24", 0, 3, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		o := record.BuilderOptions{HasProducer: true, ProducerID: 5, BaseSequence: -1}
		checkRefused(t, b, "t", b.produce(v, "t", 0, newBatch(o, b.nowMs(), "x")), 87)
	})
	atVersions(t, "PROD-26", 0, 3, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 2)
		bad := b.batch("x")
		bad[record.CRCPos] ^= 1
		resp := ask[*kmsg.ProduceResponse](b, b.produceRequest(v, "t", produced{0, b.batch("x")}, produced{9, b.batch("x")}, produced{1, bad}))
		got := map[int32]int16{}
		for _, p := range resp.Topics[0].Partitions {
			if _, twice := got[p.Partition]; twice {
				t.Errorf("partition %d is answered twice", p.Partition)
			}
			got[p.Partition] = p.ErrorCode
		}
		if len(resp.Topics) != 1 || len(got) != 3 || got[0] != 0 || got[9] != 3 || got[1] != 2 {
			t.Errorf("got errors by partition %v, want 0:0 9:3 1:2", got)
		}
	})
	t.Run("PROD-27/v13", func(t *testing.T) {
		b := newBroker(t, nil)
		old := b.topic("t", 1)
		req := b.produceRequest(13, "t", produced{0, b.batch("x")})
		if err := b.store.DeleteTopic(old.ID()); err != nil {
			t.Fatal(err)
		}
		b.topic("t", 1)
		p := ask[*kmsg.ProduceResponse](b, req).Topics[0].Partitions[0]
		checkRefused(t, b, "t", p, 100)
	})
	atVersions(t, "PROD-28", 0, 7, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		offset := int64(0)
		for codec := record.None; codec <= record.Zstd; codec++ {
			sent := newBatch(record.BuilderOptions{Codec: codec}, b.nowMs(), strings.Repeat("value ", 100), "other")
			if p := b.produce(v, "t", 0, bytes.Clone(sent)); p.ErrorCode != 0 || p.BaseOffset != offset {
				t.Fatalf("%v: got error %d, base offset %d; want 0, %d", codec, p.ErrorCode, p.BaseOffset, offset)
			}
			stored := b.batches(b.fetchOne(b.fetchRequest(12, asked{"t", 0, offset})).RecordBatches)[0]
			if got, want := stored[record.MagicPos:], sent[record.MagicPos:]; !bytes.Equal(got, want) {
				t.Errorf("%v: stored bytes from the magic on differ:\n got %x\nwant %x", codec, got, want)
			}
			offset += 2
		}
	})
}

func TestProduceRefusesWholeRequest(t *testing.T) {
	atVersions(t, "transactional without an id", 0, 3, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 2)
		o := record.BuilderOptions{HasProducer: true, ProducerID: 5, Transactional: true}
		req := b.produceRequest(v, "t", produced{0, b.batch("x")}, produced{1, newBatch(o, b.nowMs(), "x")})
		for _, p := range ask[*kmsg.ProduceResponse](b, req).Topics[0].Partitions {
			checkRefused(t, b, "t", p, 53)
		}
	})
	atVersions(t, "no batch at all", 0, 3, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 2)
		odd := b.batch("x")
		odd[record.MagicPos] = 7
		for _, p := range ask[*kmsg.ProduceResponse](b, b.produceRequest(v, "t", produced{0, b.batch("x")}, produced{1, odd})).Topics[0].Partitions {
			checkRefused(t, b, "t", p, 2)
		}
	})
}

// Before zstd a codec is looked at before the partitions are kept apart; afterwards it is the append that fails.
func TestProduceOfUnknownCodecFailsWholeRequestBeforeZstd(t *testing.T) {
	for version := int16(3); version <= 13; version++ {
		b := newBroker(t, nil)
		b.topic("t", 2)
		odd := b.batch("x")
		odd[record.AttributesPos+1] = 5
		ps := ask[*kmsg.ProduceResponse](b, b.produceRequest(version, "t", produced{0, b.batch("x")}, produced{1, setCRC(odd)})).Topics[0].Partitions
		want := [2]int16{0, -1}
		if version < 7 {
			want[0] = -1
		}
		if len(ps) != 2 || ps[0].ErrorCode != want[0] || ps[1].ErrorCode != want[1] {
			t.Errorf("version %d: got %+v, want errors %v", version, ps, want)
		}
		if version < 7 && (ps[0].LogStartOffset != -1 || ps[1].LogStartOffset != -1) {
			t.Errorf("version %d: got log starts %d and %d, want -1", version, ps[0].LogStartOffset, ps[1].LogStartOffset)
		}
	}
}

func TestProduceChecksRecordSet(t *testing.T) {
	b := newBroker(t, nil)
	good := b.batch("x")
	with := func(f func(batch []byte)) []byte {
		batch := bytes.Clone(good)
		f(batch)
		return batch
	}
	short := with(func(b []byte) { binary.BigEndian.PutUint32(b[record.LengthPos:], 30) })[:42]
	for _, c := range []struct {
		what    string
		records []byte
		code    int16
	}{
		{"one batch", good, 0},
		{"some bytes behind it", append(bytes.Clone(good), 1, 2, 3), 0},
		{"part of a second batch behind it", append(bytes.Clone(good), good[:40]...), 0},
		{"nonsense behind it", append(bytes.Clone(good), make([]byte, 20)...), 2},
		{"cut off", good[:len(good)-1], 87},
		{"only a length", good[:12], 87},
		{"magic 1", with(func(b []byte) { b[record.MagicPos] = 1 }), 87},
		{"base offset 1", with(func(b []byte) { record.Batch(b).SetBaseOffset(1) }), 87},
		{"negative base offset", with(func(b []byte) { record.Batch(b).SetBaseOffset(-1) }), 87},
		{"smaller than a header", short, 2},
		{"unknown codec", setCRC(with(func(b []byte) { b[record.AttributesPos+1] = 6 })), -1},
		{"control batch", setCRC(with(func(b []byte) { b[record.AttributesPos+1] = 0x20 })), 87},
	} {
		b.topic(strings.ReplaceAll(c.what, " ", "-"), 1)
		if p := b.produce(13, strings.ReplaceAll(c.what, " ", "-"), 0, c.records); p.ErrorCode != c.code {
			t.Errorf("%s: got error %d, want %d", c.what, p.ErrorCode, c.code)
		}
	}
}

func TestProduceTakesLastMentionOfPartition(t *testing.T) {
	b := newBroker(t, nil)
	b.topic("t", 1)
	resp := ask[*kmsg.ProduceResponse](b, b.produceRequest(12, "t", produced{0, b.batch("first")}, produced{0, b.batch("second", "third")}))
	if p := resp.Topics[0].Partitions; len(p) != 1 || p[0].ErrorCode != 0 || p[0].BaseOffset != 0 {
		t.Errorf("got answers %+v, want one without an error", p)
	}
	if end := b.offsets("t", 0).End; end != 2 {
		t.Errorf("log ends at %d, want 2", end)
	}
}

func TestProduceToInternalTopic(t *testing.T) {
	b := newBroker(t, nil)
	b.topic("__consumer_offsets", 1)
	checkRefused(t, b, "__consumer_offsets", b.produce(13, "__consumer_offsets", 0, b.batch("x")), 17)
	b.r.clientID = "__admin_client"
	if p := b.produce(13, "__consumer_offsets", 0, b.batch("x")); p.ErrorCode != 0 {
		t.Errorf("admin client: got error %d, want 0", p.ErrorCode)
	}
}

// parkedProduce sends a request in the background; its answer for the first partition and how long it took come on the
// channel.
func (b *broker) parkedProduce(req *kmsg.ProduceRequest) <-chan parkedProduceAnswer {
	out := make(chan parkedProduceAnswer, 1)
	began := time.Now()
	go func() {
		resp, err := b.dispatch(req)
		if err != nil {
			b.t.Errorf("produce: %v", err)
		}
		out <- parkedProduceAnswer{resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0], time.Since(began)}
	}()
	synctest.Wait()
	return out
}

type parkedProduceAnswer struct {
	kmsg.ProduceResponseTopicPartition
	took time.Duration
}

func TestProduceWaitsForTheDisk(t *testing.T) {
	check := func(t *testing.T, answer <-chan parkedProduceAnswer, took time.Duration, code int16, base int64) {
		t.Helper()
		a := <-answer
		if a.took != took || a.ErrorCode != code || a.BaseOffset != base {
			t.Errorf("answered after %v with error %d, base offset %d; want after %v, %d, %d", a.took, a.ErrorCode, a.BaseOffset, took, code, base)
		}
	}
	for _, acks := range []int16{1, -1} {
		t.Run(fmt.Sprintf("acks=%d", acks), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newRunningBroker(t, nil)
				b.topic("t", 1)
				gate := make(chan struct{})
				b.onSync("t-0", func() error { <-gate; return nil })
				o := record.BuilderOptions{HasProducer: true, ProducerID: 5}
				req := b.produceRequest(13, "t", produced{0, newBatch(o, b.nowMs(), "x")})
				req.Acks = acks
				first := b.parkedProduce(req)
				again := b.parkedProduce(req) // a duplicate is not acknowledged before its original is safe
				if p := b.fetchOne(b.fetchRequest(18, asked{"t", 0, 0})); len(p.RecordBatches) != 0 || p.HighWatermark != 0 {
					t.Errorf("before the sync: fetched %d bytes, high watermark %d; want none, 0", len(p.RecordBatches), p.HighWatermark)
				}
				<-time.After(3 * time.Second)
				close(gate)
				check(t, first, 3*time.Second, 0, 0)
				check(t, again, 3*time.Second, 0, 0)
				checkBases(t, b, b.fetchOne(b.fetchRequest(18, asked{"t", 0, 0})), 0)
			})
		})
	}
	t.Run("timeout", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newRunningBroker(t, nil)
			b.topic("t", 1)
			gate := make(chan struct{})
			b.onSync("t-0", func() error { <-gate; return nil })
			req := b.produceRequest(13, "t", produced{0, b.batch("x")})
			req.TimeoutMillis = 4000
			check(t, b.parkedProduce(req), 4*time.Second, 7, 0)
			req.TimeoutMillis = 0
			check(t, b.parkedProduce(req), time.Second, 7, 1)
			close(gate)
		})
	})
	t.Run("failed sync", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newRunningBroker(t, nil)
			b.topic("t", 1)
			b.topic("other", 1)
			b.mustProduce("t", 0, b.batch("0"))
			failures := 1
			b.onSync("t-0", func() error {
				if failures--; failures == 0 {
					return errors.New("bad disk")
				}
				return nil
			})
			check(t, b.parkedProduce(b.produceRequest(13, "t", produced{0, b.batch("1", "2")})), 0, 56, -1)
			check(t, b.parkedProduce(b.produceRequest(13, "other", produced{0, b.batch("0")})), 0, 0, 0)
			check(t, b.parkedProduce(b.produceRequest(13, "t", produced{0, b.batch("again")})), 0, 0, 1)
		})
	})
}

// Damage that a read meets takes the partition offline; every API says so, the other partition serves.
func TestOfflinePartition(t *testing.T) {
	b := newBroker(t, nil)
	b.topic("t", 2)
	for i := range 3 {
		b.mustProduce("t", 0, b.batch(fmt.Sprint(i)))
		b.mustProduce("t", 1, b.batch(fmt.Sprint(i)))
	}
	b.damage("t-0")
	if p := b.fetchOne(b.fetchRequest(6, asked{"t", 0, 0})); p.ErrorCode != 56 || p.HighWatermark != -1 {
		t.Errorf("fetch v6: got error %d, high watermark %d; want 56, -1", p.ErrorCode, p.HighWatermark)
	}
	if p := b.fetchOne(b.fetchRequest(5, asked{"t", 0, 0})); p.ErrorCode != 6 {
		t.Errorf("fetch v5: got error %d, want 6", p.ErrorCode)
	}
	if p := b.produce(13, "t", 0, b.batch("x")); p.ErrorCode != 56 || p.LogStartOffset != -1 {
		t.Errorf("produce: got error %d, log start %d; want 56, -1", p.ErrorCode, p.LogStartOffset)
	}
	for _, ms := range []int64{-1, -2, -3, 0} {
		if p := ask[*kmsg.ListOffsetsResponse](b, listOffsetsRequest(11, "t", ms)).Topics[0].Partitions[0]; p.ErrorCode != 56 || p.Offset != -1 {
			t.Errorf("list offsets at %d: got error %d, offset %d; want 56, -1", ms, p.ErrorCode, p.Offset)
		}
	}
	if _, err := b.s.deleteBefore("t", 0, 1); errorCode(err) != 56 {
		t.Errorf("delete records: got %v, want error 56", err)
	}
	end := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
	if err := b.s.epochEnd("t", &kmsg.OffsetForLeaderEpochRequestTopicPartition{CurrentLeaderEpoch: -1}, &end); errorCode(err) != 56 {
		t.Errorf("offset for leader epoch: got %v, want error 56", err)
	}
	checkBases(t, b, b.fetchOne(b.fetchRequest(18, asked{"t", 1, 0})), 0, 1, 2)
}

// FuzzCheckRecords checks that what is taken for the one batch of a partition is one: a prefix of the bytes with a whole
// header and the length that it says, behind which no other batch fits.
func FuzzCheckRecords(f *testing.F) {
	good := newBatch(record.BuilderOptions{}, 1000, "value")
	f.Add(int16(13), good)
	f.Add(int16(3), newBatch(record.BuilderOptions{Codec: record.Zstd}, 1000, "value"))
	f.Add(int16(9), append(bytes.Clone(good), good...))
	f.Add(int16(9), append(bytes.Clone(good), good[:30]...))
	f.Add(int16(9), good[:20])
	f.Fuzz(func(t *testing.T, version int16, records []byte) {
		before := bytes.Clone(records)
		batch, err := checkRecords(version, records)
		if !bytes.Equal(before, records) {
			t.Fatal("the bytes were changed")
		}
		if err != nil {
			if code := errorCode(err); code != 2 && code != 76 && code != 87 && err != errUnknownCodec {
				t.Fatalf("refused with error %d: %v", code, err)
			}
			return
		}
		if len(batch) < record.HeaderSize || batch.Size() != len(batch) || batch.Magic() != 2 || !bytes.HasPrefix(records, batch) {
			t.Fatalf("took %x of %x", batch, records)
		}
		if version < 7 && batch.Codec() == record.Zstd {
			t.Fatalf("took zstd in version %d", version)
		}
		if second, _, err := cutBatch(records[len(batch):]); second != nil || err != nil {
			t.Fatalf("behind the batch stands another of %d bytes, error %v", len(second), err)
		}
	})
}
