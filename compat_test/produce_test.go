package compat_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// incompressible is n bytes that no codec makes smaller.
func incompressible(n int) []byte {
	r := rand.NewChaCha8([32]byte{1})
	b := make([]byte, n)
	r.Read(b)
	return b
}

func TestProduce(t *testing.T) {
	t.Parallel()
	s := newServer(t)

	at(t, "PROD-01 acks=0 sends nothing and must not block later replies", versions(3, 12, 13), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "prod-01", 1)
		c := s.dial(t)
		c.send(v, produceRequest(0, part{tp, 0, one("quiet").bytes(t)}))
		meta := metadataRequest()
		receive[*kmsg.MetadataResponse](c, c.send(9, meta), meta)
		if got := values(c, tp, 0, 0); !slices.Equal(got, []string{"quiet"}) {
			t.Fatalf("stored %q", got)
		}
		bad := one("bad").bytes(t)
		bad[len(bad)-1] ^= 1
		c.send(v, produceRequest(0, part{tp, 0, bad}))
		c.wantClosed("acks=0 with a batch that is refused") // how a producer without answers learns of it
		wantEnd(s.dial(t), tp, 0, 1)
	})

	at(t, "PROD-03 acks other than -1, 0, 1 is rejected", versions(3, 13), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "prod-03", 1)
		c := s.dial(t)
		for _, acks := range []int16{2, -2, 32767} {
			got := produceAll(c, v, acks, part{tp, 0, one("x").bytes(t)})[0]
			refused(t, got, invalidRequiredAcks)
			if v >= 5 {
				want(t, "log start offset", got.LogStartOffset, -1)
			}
		}
		wantEnd(c, tp, 0, 0)
		for i, acks := range []int16{-1, 1} {
			got := produceAll(c, v, acks, part{tp, 0, one("x").bytes(t)})[0]
			wantCode(t, "good acks", got.ErrorCode, noError)
			want(t, "base offset", got.BaseOffset, int64(i))
			want(t, "append time", got.LogAppendTime, -1)
			if v >= 5 {
				want(t, "log start offset", got.LogStartOffset, 0)
			}
		}
	})

	at(t, "PROD-04 size limit is on the batch as sent", versions(3, 13), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "prod-04", 1, "max.message.bytes", "10000")
		c := s.dial(t)
		big := batch{Records: []rec{{Value: incompressible(20 << 10)}}}
		refused(t, produce(c, v, tp, 0, big.bytes(t)), messageTooLarge)
		broken := big.bytes(t)
		broken[17] ^= 1
		refused(t, produce(c, v, tp, 0, broken), messageTooLarge) // the size comes before the CRC
		wantEnd(c, tp, 0, 0)
		zeros := batch{Codec: kgo.CodecGzip, Records: []rec{{Value: make([]byte, 200<<10)}}}
		wantCode(t, "200 KiB of zeros, gzip", produce(c, v, tp, 0, zeros.bytes(t)).ErrorCode, noError)
		exact := batch{Records: []rec{{Value: make([]byte, 9000)}}}
		exact.Records[0].Value = make([]byte, 9000+10000-len(exact.bytes(t)))
		want(t, "size", len(exact.bytes(t)), 10000)
		wantCode(t, "exactly the limit", produce(c, v, tp, 0, exact.bytes(t)).ErrorCode, noError)
		exact.Records[0].Value = append(exact.Records[0].Value, 0)
		refused(t, produce(c, v, tp, 0, exact.bytes(t)), messageTooLarge)
		wantEnd(c, tp, 0, 2)
	})

	at(t, "PROD-05 limit is checked again after broker recompression", versions(3, 13), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "prod-05", 1, "compression.type", "uncompressed", "max.message.bytes", "10000")
		c := s.dial(t)
		zeros := batch{Codec: kgo.CodecGzip, Records: []rec{{Value: make([]byte, 200<<10)}}}
		refused(t, produce(c, v, tp, 0, zeros.bytes(t)), messageTooLarge)
		wantEnd(c, tp, 0, 0)
	})

	at(t, "PROD-06 bad CRC is refused", versions(3, 13), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "prod-06", 2)
		c := s.dial(t)
		bad := one("bad").bytes(t)
		bad[20] ^= 1
		got := produceAll(c, v, -1, part{tp, 0, bad}, part{tp, 1, one("good").bytes(t)})
		refused(t, got[0], corruptMessage)
		wantCode(t, "the other partition", got[1].ErrorCode, noError)
		want(t, "base offset", got[1].BaseOffset, 0)
		wantEnd(c, tp, 0, 0)
		wantEnd(c, tp, 1, 1)
	})

	at(t, "PROD-08 exactly one batch per partition", versions(3, 9, 13), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "prod-08", 1)
		c := s.dial(t)
		two := append(one("a").bytes(t), one("b").bytes(t)...)
		refused(t, produce(c, v, tp, 0, two), invalidRecord)
		wantEnd(c, tp, 0, 0)
	})

	at(t, "PROD-09 zero-length record set", versions(3, 9, 13), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "prod-09", 1)
		c := s.dial(t)
		refused(t, produce(c, v, tp, 0, []byte{}), invalidRecord)
		if !s.External() { // Kafka 4.4 trips over null records and never answers
			refused(t, produce(c, v, tp, 0, nil), invalidRecord)
		}
		wantEnd(c, tp, 0, 0)
		want(t, "next offset", mustProduce(c, tp, 0, one("x")), 0)
	})

	t.Run("PROD-10 zstd needs Produce v7", func(t *testing.T) {
		tp := s.createTopic(t, "prod-10", 1)
		c := s.dial(t)
		b := one("zstd")
		b.Codec = kgo.CodecZstd
		refused(t, produce(c, 3, tp, 0, b.bytes(t)), unsupportedCompression)
		refused(t, produce(c, 6, tp, 0, b.bytes(t)), unsupportedCompression)
		wantEnd(c, tp, 0, 0)
		wantCode(t, "v7", produce(c, 7, tp, 0, b.bytes(t)).ErrorCode, noError)
		wantCode(t, "v13", produce(c, 13, tp, 0, b.bytes(t)).ErrorCode, noError)
	})

	at(t, "PROD-12 record count, last_offset_delta and body must agree", versions(3, 13), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "prod-12", 1)
		c := s.dial(t)
		mustProduce(c, tp, 0, one("before"))
		for name, b := range map[string]batch{
			"count 2, last delta 5":         {Records: one("a", "b").Records, LastDelta: ptr(int32(5))},
			"count 0":                       {Records: one("a").Records, Count: ptr(int32(0))},
			"count 0, last delta -1":        {Records: nil, Body: []byte{}},
			"count -1":                      {Records: one("a").Records, Count: ptr(int32(-1))},
			"count 3, body of 2":            {Records: one("a", "b").Records, Count: ptr(int32(3)), LastDelta: ptr(int32(2))},
			"count 1, body of 2":            {Records: one("a", "b").Records, Count: ptr(int32(1)), LastDelta: ptr(int32(0))},
			"count 3, gzip body of 2":       {Records: one("a", "b").Records, Codec: kgo.CodecGzip, Count: ptr(int32(3)), LastDelta: ptr(int32(2))},
			"count 1, gzip body of 2":       {Records: one("a", "b").Records, Codec: kgo.CodecGzip, Count: ptr(int32(1)), LastDelta: ptr(int32(0))},
			"a record length that overruns": {Records: one("a").Records, Body: []byte{0x7e, 0, 0, 0, 1}},
		} {
			got := produce(c, v, tp, 0, b.bytes(t))
			if got.ErrorCode != invalidRecord && got.ErrorCode != corruptMessage {
				t.Errorf("%s: got error %s, want %s", name, code(got.ErrorCode), code(invalidRecord))
			}
			want(t, name+": base offset", got.BaseOffset, -1)
		}
		wantEnd(c, tp, 0, 1)
		want(t, "next offset", mustProduce(c, tp, 0, one("after")), 1)
		if got := values(c, tp, 0, 0); !slices.Equal(got, []string{"before", "after"}) {
			t.Fatalf("stored %q", got)
		}
	})

	at(t, "PROD-14 key-less record on a compacted topic", versions(3, 8, 9, 13), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "prod-14", 1, "cleanup.policy", "compact")
		c := s.dial(t)
		b := batch{Records: []rec{{Key: []byte("a")}, {Value: []byte("x")}, {Key: []byte{}, Value: []byte("y")}}}
		got := produce(c, v, tp, 0, b.bytes(t))
		refused(t, got, invalidRecord)
		if v >= 8 {
			if len(got.ErrorRecords) != 1 || got.ErrorRecords[0].RelativeOffset != 1 || got.ErrorRecords[0].ErrorMessage == nil {
				t.Errorf("record errors are %+v, want one for record 1 with a message", got.ErrorRecords)
			}
			if got.ErrorMessage == nil || *got.ErrorMessage == "" {
				t.Error("no error message")
			}
		}
		wantEnd(c, tp, 0, 0)
		wantCode(t, "an empty key is a key", produce(c, v, tp, 0, batch{Records: []rec{{Key: []byte{}}}}.bytes(t)).ErrorCode, noError)
	})

	at(t, "PROD-16 future timestamps are refused by default", versions(3, 8, 13), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "prod-16", 1)
		c := s.dial(t)
		future := time.Now().Add(2 * time.Hour).UnixMilli()
		b := batch{Records: []rec{{Value: []byte("now")}, {Value: []byte("then"), Time: future}}}
		got := produce(c, v, tp, 0, b.bytes(t))
		refused(t, got, invalidTimestamp)
		if v >= 8 && (len(got.ErrorRecords) != 1 || got.ErrorRecords[0].RelativeOffset != 1) {
			t.Errorf("record errors are %+v, want one for record 1", got.ErrorRecords)
		}
		wantEnd(c, tp, 0, 0)
		soon := batch{Records: []rec{{Value: []byte("soon"), Time: time.Now().Add(50 * time.Minute).UnixMilli()}, {Value: []byte("long ago"), Time: 1}}}
		wantCode(t, "50 minutes ahead and 1970", produce(c, v, tp, 0, soon.bytes(t)).ErrorCode, noError)
		open := s.createTopic(t, "prod-16", 1, "message.timestamp.after.max.ms", "9223372036854775807")
		wantCode(t, "after.max.ms at its greatest", produce(c, v, open, 0, b.bytes(t)).ErrorCode, noError)
		bounded := s.createTopic(t, "prod-16", 1, "message.timestamp.before.max.ms", "1000")
		refused(t, produce(c, v, bounded, 0, batch{Records: []rec{{Time: time.Now().Add(-time.Hour).UnixMilli()}}}.bytes(t)), invalidTimestamp)
		appended := s.createTopic(t, "prod-16", 1, "message.timestamp.type", "LogAppendTime", "message.timestamp.before.max.ms", "1000")
		wantCode(t, "LogAppendTime, future", produce(c, v, appended, 0, b.bytes(t)).ErrorCode, noError)
	})

	at(t, "PROD-17 LogAppendTime is reported and stamped", versions(3, 13), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "prod-17", 1, "message.timestamp.type", "LogAppendTime")
		c := s.dial(t)
		sent := batch{Records: []rec{{Value: []byte("a"), Time: 1000}, {Value: []byte("b"), Time: 3000}}}
		before := time.Now().UnixMilli()
		got := produce(c, v, tp, 0, sent.bytes(t))
		wantCode(t, "produce", got.ErrorCode, noError)
		if got.LogAppendTime < before || got.LogAppendTime > time.Now().UnixMilli() {
			t.Fatalf("log append time %d, asked at %d", got.LogAppendTime, before)
		}
		b := fetch(c, 4, tp, 0, 0)[0]
		want(t, "attributes", b.Attributes, bitLogAppendTime)
		want(t, "max timestamp", b.MaxTimestamp, got.LogAppendTime)
		want(t, "base timestamp as sent", b.FirstTimestamp, 1000)
		want(t, "delta as sent", b.Records[1].TimestampDelta64, 2000)

		created := s.createTopic(t, "prod-17", 1)
		got = produce(c, v, created, 0, sent.bytes(t))
		want(t, "log append time with CreateTime", got.LogAppendTime, -1)
		b = fetch(c, 4, created, 0, 0)[0]
		want(t, "attributes", b.Attributes, 0)
		want(t, "max timestamp", b.MaxTimestamp, 3000)
		if want := sent.bytes(t); !bytes.Equal(b.Raw[21:], want[21:]) {
			t.Errorf("stored % x, sent % x", b.Raw, want)
		}
		sent.MaxTime = ptr(int64(999999)) // lies
		got = produce(c, v, created, 0, sent.bytes(t))
		wantCode(t, "a max timestamp that lies", got.ErrorCode, noError)
		want(t, "max timestamp corrected", fetch(c, 4, created, 0, 2)[0].MaxTimestamp, 3000)
	})

	at(t, "PROD-19 partition_leader_epoch from clients is ignored", versions(3, 13), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "prod-19", 1)
		c := s.dial(t)
		epoch := leaderEpoch(c, tp, 0)
		for i, sent := range []int32{-1, 0, 99} {
			b := one("x")
			b.LeaderEpoch = sent
			wantCode(t, "produce", produce(c, v, tp, 0, b.bytes(t)).ErrorCode, noError)
			got := fetch(c, 4, tp, 0, int64(i))[0] // checks the CRC
			want(t, "leader epoch", got.PartitionLeaderEpoch, epoch)
			want(t, "base offset", got.FirstOffset, int64(i))
		}
	})

	at(t, "PROD-26 one bad partition does not fail the others", versions(3, 12, 13), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "prod-26", 2)
		c := s.dial(t)
		bad := one("bad").bytes(t)
		bad[17] ^= 1
		got := produceAll(c, v, -1,
			part{tp, 0, one("good").bytes(t)}, part{tp, 9, one("none").bytes(t)}, part{tp, 1, bad},
			part{topic{Name: fresh("absent"), ID: [16]byte{9}}, 0, one("no topic").bytes(t)})
		wantCode(t, "partition 0", got[0].ErrorCode, noError)
		want(t, "base offset", got[0].BaseOffset, 0)
		refused(t, got[1], unknownTopicOrPart)
		refused(t, got[2], corruptMessage)
		if v < 13 {
			refused(t, got[3], unknownTopicOrPart)
		} else {
			refused(t, got[3], unknownTopicID)
		}
	})

	t.Run("PROD-27 produce by topic id after re-creation", func(t *testing.T) {
		old := s.createTopic(t, "prod-27", 1)
		c := s.dial(t)
		mustProduce(c, old, 0, one("old"))
		deleteTopic(t, c, old)
		again := s.createNamedTopic(t, old.Name, 1)
		if old.ID == again.ID {
			t.Fatalf("the topic has its old id %x", old.ID)
		}
		refused(t, produce(c, 13, old, 0, one("lost").bytes(t)), unknownTopicID)
		wantEnd(c, again, 0, 0)
		want(t, "by the new id", produce(c, 13, again, 0, one("new").bytes(t)).ErrorCode, noError)
		wantEnd(c, again, 0, 1)
	})

	at(t, "PROD-28 every codec round-trips untouched", versions(7, 13), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "prod-28", 1)
		c := s.dial(t)
		records := []rec{
			{Key: []byte("k"), Value: bytes.Repeat([]byte("abc"), 200), Time: 1700000000000},
			{Value: []byte{}, Headers: []kmsg.Header{{Key: "h", Value: nil}, {Key: "", Value: []byte("v")}}, Time: 1700000000005},
		}
		plain, _, _ := batch{Records: records}.encodeRecords()
		framing := batch{Records: records, Codec: kgo.CodecSnappy, Body: xerial(compress(t, kgo.CodecSnappy, plain))}
		for i, b := range []batch{
			{Records: records},
			{Records: records, Codec: kgo.CodecGzip},
			{Records: records, Codec: kgo.CodecSnappy},
			framing,
			{Records: records, Codec: kgo.CodecLz4},
			{Records: records, Codec: kgo.CodecZstd},
		} {
			sent := b.bytes(t)
			wantCode(t, "produce", produce(c, v, tp, 0, sent).ErrorCode, noError)
			got := fetch(c, 10, tp, 0, int64(2*i))[0]
			if !bytes.Equal(got.Raw[16:], sent[16:]) {
				t.Errorf("codec %d: stored % x\nsent % x", b.Codec, got.Raw, sent)
			}
			want(t, "base offset", got.FirstOffset, int64(2*i))
		}
	})

	t.Run("compression.type recompresses", func(t *testing.T) {
		for name, codec := range map[string]int16{"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4} {
			tp := s.createTopic(t, "recompress", 1, "compression.type", name)
			c := s.dial(t)
			for i, from := range []kgo.CompressionCodecType{kgo.CodecNone, kgo.CodecGzip, kgo.CodecSnappy, kgo.CodecLz4, kgo.CodecZstd} {
				b := batch{Codec: from, Records: []rec{{Key: []byte("k"), Value: []byte("v1"), Time: 5}, {Value: []byte("v2"), Time: 7, Headers: []kmsg.Header{{Key: "h"}}}}}
				r := produce(c, 9, tp, 0, b.idempotent(77, 3, int32(2*i)).bytes(t))
				wantCode(t, "produce", r.ErrorCode, noError)
				got := fetch(c, 12, tp, 0, int64(2*i))[0]
				want(t, name+": codec", got.Attributes, codec)
				want(t, "producer id", got.ProducerID, 77)
				want(t, "producer epoch", got.ProducerEpoch, 3)
				want(t, "base sequence", got.FirstSequence, int32(2*i))
				want(t, "records", len(got.Records), 2)
				want(t, "time", got.Records[1].Time, 7)
				want(t, "headers", len(got.Records[1].Headers), 1)
				want(t, "max timestamp", got.MaxTimestamp, 7)
			}
		}
	})

	at(t, "what a client may not set in a batch", versions(3, 13), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "client-batch", 1)
		c := s.dial(t)
		control := batch{Records: []rec{{Key: []byte{0, 0, 0, 0}, Value: []byte{0, 0, 0, 0, 0, 0}}}, Attributes: bitControl}
		refused(t, produce(c, v, tp, 0, control.bytes(t)), invalidRecord)
		based := one("x")
		based.Base = 5
		refused(t, produce(c, v, tp, 0, based.bytes(t)), invalidRecord)
		gaps := one("a", "b")
		gaps.Deltas, gaps.LastDelta = []int32{0, 5}, ptr(int32(1))
		wantCode(t, "deltas with a gap are mended", produce(c, v, tp, 0, gaps.bytes(t)).ErrorCode, noError)
		if got := values(c, tp, 0, 0); !slices.Equal(got, []string{"a", "b"}) {
			t.Fatalf("stored %q", got)
		}
		wantEnd(c, tp, 0, 2)
		old := one("x").bytes(t)
		old[16] = 1
		refused(t, produce(c, v, tp, 0, old), invalidRecord) // magic 1
		wantEnd(c, tp, 0, 2)
	})
}
