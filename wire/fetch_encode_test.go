package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage"
)

// kmsgFetch says the same as f in kmsg's type.
func kmsgFetch(f *fetchResponse, version int16) *kmsg.FetchResponse {
	out := &kmsg.FetchResponse{Version: version, ThrottleMillis: f.throttleMs, ErrorCode: f.code, SessionID: f.sessionID}
	named := false
	for i := range f.partitions {
		p := &f.partitions[i]
		if p.omit {
			continue
		}
		n := len(out.Topics)
		if n == 0 || version >= 13 && out.Topics[n-1].TopicID != p.key.id || version < 13 && out.Topics[n-1].Topic != p.key.topic {
			out.Topics = append(out.Topics, kmsg.FetchResponseTopic{Topic: p.key.topic, TopicID: p.key.id})
		}
		t := &out.Topics[len(out.Topics)-1]
		o := kmsg.NewFetchResponseTopicPartition()
		o.Partition, o.ErrorCode = p.key.partition, p.code
		o.HighWatermark, o.LastStableOffset, o.LogStartOffset = p.highWatermark, p.lastStable, p.logStart
		if o.RecordBatches = p.records; o.RecordBatches == nil {
			o.RecordBatches = []byte{}
		}
		if !p.abortedNull {
			o.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
		}
		for _, a := range p.aborted {
			x := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
			x.ProducerID, x.FirstOffset = a.ProducerID, a.FirstOffset
			o.AbortedTransactions = append(o.AbortedTransactions, x)
		}
		if p.divergingEpoch >= 0 {
			o.DivergingEpoch.Epoch, o.DivergingEpoch.EndOffset = p.divergingEpoch, p.divergingEnd
		}
		if p.namesLeader {
			o.CurrentLeader.LeaderID, o.CurrentLeader.LeaderEpoch = f.leaderID, p.leaderEpoch
			named = true
		}
		t.Partitions = append(t.Partitions, o)
	}
	if named {
		b := kmsg.NewFetchResponseBroker()
		b.NodeID, b.Host, b.Port, b.Rack = f.leaderID, f.leaderHost, f.leaderPort, f.leaderRack
		out.Brokers = []kmsg.FetchResponseBroker{b}
	}
	return out
}

// checkEncoding compares our encoding with kmsg's, byte by byte, and that the pieces add up.
func checkEncoding(f *fetchResponse, version int16) error {
	want := kmsgFetch(f, version).AppendTo(nil)
	e := f.encode(version, nil)
	defer e.release()
	got := e.AppendTo(nil)
	if !bytes.Equal(got, want) {
		return fmt.Errorf("version %d of %+v:\n got %x\nwant %x", version, f, got, want)
	}
	if e.size() != len(want) {
		return fmt.Errorf("version %d: size %d, want %d", version, e.size(), len(want))
	}
	withRecords := 0
	for i := range f.partitions {
		p := &f.partitions[i]
		if p.omit || len(p.records) == 0 {
			continue
		}
		withRecords++
		if piece := e.pieces[2*withRecords-1]; &piece[0] != &p.records[0] {
			return fmt.Errorf("version %d: records of partition %v were copied", version, p.key)
		}
	}
	return nil
}

func TestFetchEncodingIsKmsgs(t *testing.T) {
	rack := "r1"
	partitions := []fetchPartition{
		{key: fetchKey{topic: "orders", id: storage.TopicID{1}, partition: 0}, highWatermark: 10, lastStable: 8, logStart: 2,
			records: []byte("records of orders-0"), aborted: []storage.AbortedTxn{{ProducerID: 7, FirstOffset: 3}, {ProducerID: 9, FirstOffset: 4}},
			divergingEpoch: -1, divergingEnd: -1},
		{key: fetchKey{topic: "orders", id: storage.TopicID{1}, partition: 1}, omit: true, records: []byte("left out"), divergingEpoch: -1},
		{key: fetchKey{topic: "orders", id: storage.TopicID{1}, partition: 5}, code: 74, highWatermark: -1, lastStable: -1, logStart: -1,
			abortedNull: true, divergingEpoch: -1, divergingEnd: -1, namesLeader: true, leaderEpoch: 3},
		{key: fetchKey{topic: "bills", id: storage.TopicID{2}, partition: 300}, highWatermark: 1, lastStable: 1, divergingEpoch: 4, divergingEnd: 12,
			records: bytes.Repeat([]byte{0xab}, 20000)},
		{key: fetchKey{topic: "orders", id: storage.TopicID{1}, partition: 9}, code: 1, highWatermark: -1, lastStable: -1, logStart: -1,
			divergingEpoch: -1, divergingEnd: -1},
	}
	for version := int16(4); version <= 18; version++ {
		for _, f := range []*fetchResponse{
			{},
			{throttleMs: 5, code: 70},
			{sessionID: 12345, partitions: partitions[:1]},
			{sessionID: 1, partitions: partitions[1:2]},
			{sessionID: 1, partitions: partitions[1:], leaderID: 1, leaderHost: "gateway.example", leaderPort: 9092},
			{partitions: partitions, leaderID: 1, leaderHost: "gateway.example", leaderPort: 9092, leaderRack: &rack},
		} {
			if err := checkEncoding(f, version); err != nil {
				t.Error(err)
			}
		}
	}
}

// FuzzFetchEncoding makes a response from a seed and the sizes of its parts, and compares our encoding with kmsg's.
func FuzzFetchEncoding(f *testing.F) {
	f.Add(int16(4), uint64(1), uint8(3), uint16(100), "t")
	f.Add(int16(11), uint64(2), uint8(0), uint16(0), "")
	f.Add(int16(12), uint64(3), uint8(40), uint16(127), "orders")
	f.Add(int16(18), uint64(4), uint8(255), uint16(65535), "a.rather.long.name-of-a_topic")
	f.Fuzz(func(t *testing.T, version int16, seed uint64, partitions uint8, size uint16, name string) {
		if version < 4 || version > 18 || len(name) > 1<<15-1 {
			return
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		r := &fetchResponse{
			throttleMs: rng.Int32(), code: int16(rng.Int32()), sessionID: rng.Int32(),
			leaderID: rng.Int32(), leaderHost: name, leaderPort: rng.Int32(),
		}
		if rng.IntN(2) == 0 {
			r.leaderRack = &name
		}
		for range partitions {
			p := fetchPartition{
				code: int16(rng.Int32()), highWatermark: int64(rng.Uint64()), lastStable: int64(rng.Uint64()), logStart: int64(rng.Uint64()),
				divergingEpoch: -1, divergingEnd: -1, omit: rng.IntN(4) == 0, abortedNull: rng.IntN(2) == 0,
			}
			p.key.partition = rng.Int32()
			p.key.topic = name[:rng.IntN(min(len(name)+1, 3))]
			binary.BigEndian.PutUint32(p.key.id[:], uint32(rng.IntN(3)))
			p.records = make([]byte, rng.IntN(int(size)+1))
			if !p.abortedNull {
				p.aborted = make([]storage.AbortedTxn, rng.IntN(3))
				for i := range p.aborted {
					p.aborted[i] = storage.AbortedTxn{ProducerID: int64(rng.Uint64()), FirstOffset: int64(rng.Uint64())}
				}
			}
			if rng.IntN(4) == 0 {
				p.divergingEpoch, p.divergingEnd = rng.Int32(), int64(rng.Uint64())
			}
			if version >= 16 && rng.IntN(4) == 0 {
				p.namesLeader, p.leaderEpoch = true, rng.Int32()
			}
			r.partitions = append(r.partitions, p)
		}
		if err := checkEncoding(r, version); err != nil {
			t.Error(err)
		}
	})
}
