package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// appendAs appends a batch as the broker itself does, which may be part of a transaction, and waits for the disk.
func (b *broker) appendAs(topic string, partition int32, batch []byte) {
	b.t.Helper()
	log := b.log(topic, partition)
	done, err := log.Append(batch, storage.AppendOptions{Origin: storage.OriginCoordinator, Unverified: true})
	if err == nil {
		err = log.WaitDurable(context.Background(), done)
	}
	if err != nil {
		b.t.Fatalf("append to %s-%d: %v", topic, partition, err)
	}
}

// inTxn appends one batch of a transaction; sequences are counted by the caller.
func (b *broker) inTxn(topic string, producerID int64, seq int32, values ...string) {
	b.t.Helper()
	o := record.BuilderOptions{HasProducer: true, ProducerID: producerID, BaseSequence: seq, Transactional: true}
	b.appendAs(topic, 0, newBatch(o, b.nowMs(), values...))
}

func (b *broker) endTxn(topic string, producerID int64, commit bool) {
	b.t.Helper()
	b.appendAs(topic, 0, record.EndTxnMarker(producerID, 0, record.Marker{Commit: commit}, b.nowMs(), -1))
}

// checkBases compares the base offsets of the batches of an answer.
func checkBases(t *testing.T, b *broker, p kmsg.FetchResponseTopicPartition, want ...int64) {
	t.Helper()
	if p.ErrorCode != 0 {
		t.Errorf("got error %d, want 0", p.ErrorCode)
	}
	var got []int64
	for _, batch := range b.batches(p.RecordBatches) {
		got = append(got, batch.BaseOffset())
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got batches at %v, want %v", got, want)
	}
}

func TestFetchFieldCases(t *testing.T) {
	atVersions(t, "FETCH-01", 1, 4, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 3)
		for partition := int32(1); partition < 3; partition++ {
			b.mustProduce("t", partition, b.batch(strings.Repeat("x", 1_000_000)))
			b.mustProduce("t", partition, b.batch("y"))
		}
		req := b.fetchRequest(v, asked{"t", 0, 0}, asked{"t", 1, 0}, asked{"t", 2, 0})
		req.MaxBytes = 1
		for i := range req.Topics[0].Partitions {
			req.Topics[0].Partitions[i].PartitionMaxBytes = 1
		}
		p := ask[*kmsg.FetchResponse](b, req).Topics[0].Partitions
		checkBases(t, b, p[0])
		checkBases(t, b, p[1], 0) // the first that has any, one whole batch
		checkBases(t, b, p[2])
	})
	atVersions(t, "FETCH-03", 1, 4, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		b.mustProduce("t", 0, b.batch("0", "1", "2", "3", "4", "5", "6", "7", "8", "9"))
		b.mustProduce("t", 0, b.batch("10"))
		checkBases(t, b, b.fetchOne(b.fetchRequest(v, asked{"t", 0, 5})), 0, 10)
		checkBases(t, b, b.fetchOne(b.fetchRequest(v, asked{"t", 0, 10})), 10)
	})
	atVersions(t, "FETCH-04", 1, 4, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		b.mustProduce("t", 0, b.batch("x"))
		// What compaction leaves: gaps between batches, at the end of a batch and at the end of a segment.
		b.rewrite("t", 27, map[int64][]byte{
			0: slices.Concat(
				compacted(b.nowMs(), 0, 3, 0, 1, 2, 3),
				compacted(b.nowMs(), 7, 8, 7, 8),
				compacted(b.nowMs(), 9, 12, 9),
			),
			20: compacted(b.nowMs(), 25, 26, 25, 26),
		})
		for _, c := range []struct {
			offset int64
			want   []int64
		}{
			{3, []int64{0, 7, 9}}, {4, []int64{7, 9}}, {6, []int64{7, 9}}, {7, []int64{7, 9}}, {10, []int64{9}}, {12, []int64{9}},
			{13, []int64{25}}, {19, []int64{25}}, {20, []int64{25}}, {24, []int64{25}}, {26, []int64{25}}, {27, nil},
		} {
			t.Logf("offset %d", c.offset)
			checkBases(t, b, b.fetchOne(b.fetchRequest(v, asked{"t", 0, c.offset})), c.want...)
		}
	})
	atVersions(t, "FETCH-05", 1, 4, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		for range 2 {
			b.mustProduce("t", 0, b.batch("0", "1", "2", "3", "4", "5", "6", "7", "8", "9"))
		}
		if _, err := b.log("t", 0).DeleteBefore(10); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			offset int64
			code   int16
		}{{20, 0}, {10, 0}, {21, 1}, {9, 1}, {-1, 1}} {
			req := b.fetchRequest(v, asked{"t", 0, c.offset})
			if c.code != 0 {
				req.MaxWaitMillis = 3_600_000 // not waited for
			}
			p := b.fetchOne(req)
			if p.ErrorCode != c.code {
				t.Errorf("offset %d: got error %d, want %d", c.offset, p.ErrorCode, c.code)
			}
			hw, start := int64(20), int64(10)
			if c.code != 0 {
				hw, start = -1, -1
			}
			if v < 5 {
				start = -1
			}
			if p.HighWatermark != hw || p.LastStableOffset != hw || p.LogStartOffset != start {
				t.Errorf("offset %d: got high watermark %d, last stable %d, log start %d; want %d, %d, %d",
					c.offset, p.HighWatermark, p.LastStableOffset, p.LogStartOffset, hw, hw, start)
			}
			if c.offset == 20 && len(p.RecordBatches) != 0 || p.RecordBatches == nil {
				t.Errorf("offset %d: got records %v, want none, not null", c.offset, p.RecordBatches)
			}
		}
	})
	atVersions(t, "FETCH-09", 1, 7, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		req := b.fetchRequest(v, asked{"t", 0, 0})
		req.SessionEpoch = 0
		if id := ask[*kmsg.FetchResponse](b, req).SessionID; id <= 0 {
			t.Errorf("epoch 0: got session %d, want one", id)
		}
		req.SessionEpoch = -1
		for range 1000 {
			if id := ask[*kmsg.FetchResponse](b, req).SessionID; id != 0 {
				t.Fatalf("epoch -1: got session %d, want 0", id)
			}
		}
		if n := len(b.s.fetches.sessions.byID); n != 1 {
			t.Errorf("%d sessions, want 1", n)
		}
	})
	atVersions(t, "FETCH-11", 1, 7, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("a", 1)
		b.topic("b", 1)
		b.mustProduce("b", 0, b.batch("0", "1"))
		req := b.fetchRequest(v, asked{"a", 0, 0}, asked{"b", 0, 2})
		req.SessionEpoch = 0
		id := ask[*kmsg.FetchResponse](b, req).SessionID
		epoch := int32(0)
		incremental := func(change func(*kmsg.FetchRequest)) []string {
			epoch++
			req := b.fetchRequest(v)
			req.SessionID, req.SessionEpoch = id, epoch
			if change != nil {
				change(req)
			}
			resp := ask[*kmsg.FetchResponse](b, req)
			if resp.ErrorCode != 0 || resp.SessionID != id {
				t.Fatalf("epoch %d: got error %d, session %d; want 0, %d", epoch, resp.ErrorCode, resp.SessionID, id)
			}
			var topics []string
			for _, x := range resp.Topics {
				name := x.Topic
				if v >= 13 {
					known, _ := b.store.TopicByID(x.TopicID)
					name = known.Name()
				}
				topics = append(topics, fmt.Sprintf("%s:%d", name, len(b.batches(x.Partitions[0].RecordBatches))))
			}
			return topics
		}
		expect := func(what string, got []string, want ...string) {
			t.Helper()
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: got %v, want %v", what, got, want)
			}
		}
		b.mustProduce("a", 0, b.batch("x"))
		expect("after an append to a", incremental(nil), "a:1")
		expect("nothing new for b, a not read on", incremental(nil), "a:1")
		forget := func(req *kmsg.FetchRequest) {
			x := kmsg.NewFetchRequestForgottenTopic()
			x.Topic, x.Partitions = "a", []int32{0}
			known, _ := b.store.Topic("a")
			x.TopicID = known.ID()
			req.ForgottenTopics = append(req.ForgottenTopics, x)
		}
		expect("a forgotten", incremental(forget))
		b.mustProduce("a", 0, b.batch("y"))
		expect("after another append to a", incremental(nil))
		if _, err := b.log("b", 0).DeleteBefore(1); err != nil {
			t.Fatal(err)
		}
		expect("after records of b were deleted", incremental(nil), "b:0")
		expect("after that", incremental(nil))
	})
	atVersions(t, "FETCH-12", 1, 9, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		b.mustProduce("t", 0, b.batch("x"))
		epoch := b.log("t", 0).LeaderEpoch()
		cases := []struct {
			epoch int32
			code  int16
		}{{epoch + 1, 75}, {-1, 0}, {-2, 0}, {epoch, 0}}
		if epoch > 0 {
			cases = append(cases, struct {
				epoch int32
				code  int16
			}{epoch - 1, 74})
		}
		for _, c := range cases {
			req := b.fetchRequest(v, asked{"t", 0, 0})
			req.Topics[0].Partitions[0].CurrentLeaderEpoch = c.epoch
			req.MaxWaitMillis = 3_600_000
			resp := ask[*kmsg.FetchResponse](b, req)
			p := resp.Topics[0].Partitions[0]
			if p.ErrorCode != c.code {
				t.Errorf("epoch %d, ours is %d: got error %d, want %d", c.epoch, epoch, p.ErrorCode, c.code)
			}
			if named := c.code == 74 && v >= 16; named != (p.CurrentLeader.LeaderID != -1) || named != (len(resp.Brokers) == 1) {
				t.Errorf("epoch %d: got leader %+v, brokers %+v", c.epoch, p.CurrentLeader, resp.Brokers)
			}

			// The session remembers the epoch.
			req.SessionEpoch = 0
			id := ask[*kmsg.FetchResponse](b, req).SessionID
			again := b.fetchRequest(v)
			again.SessionID, again.SessionEpoch = id, 1
			resp = ask[*kmsg.FetchResponse](b, again)
			if c.code == 0 && len(resp.Topics) == 1 && resp.Topics[0].Partitions[0].ErrorCode == 0 {
				continue
			}
			if len(resp.Topics) != 1 || resp.Topics[0].Partitions[0].ErrorCode != c.code {
				t.Errorf("epoch %d in a session: got %+v, want error %d", c.epoch, resp.Topics, c.code)
			}
		}
	})
	atVersions(t, "FETCH-14", 1, 4, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		b.inTxn("t", 7, 0, "x")
		b.endTxn("t", 7, false)
		p := b.fetchOne(b.fetchRequest(v, asked{"t", 0, 0}))
		checkBases(t, b, p, 0, 1)
		if p.AbortedTransactions != nil || p.LastStableOffset != 2 {
			t.Errorf("got aborted %v, last stable %d; want null, 2", p.AbortedTransactions, p.LastStableOffset)
		}
	})
	atVersions(t, "FETCH-15", 1, 4, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		b.inTxn("t", 7, 0, "0", "1")
		b.endTxn("t", 7, true)
		b.inTxn("t", 8, 0, "3")
		b.mustProduce("t", 0, b.batch("4"))
		from := func(offset int64) kmsg.FetchResponseTopicPartition {
			req := b.fetchRequest(v, asked{"t", 0, offset})
			req.IsolationLevel = 1
			return b.fetchOne(req)
		}
		p := from(0)
		checkBases(t, b, p, 0, 2)
		if p.LastStableOffset != 3 || p.HighWatermark != 5 || p.AbortedTransactions == nil || len(p.AbortedTransactions) != 0 {
			t.Errorf("got last stable %d, high watermark %d, aborted %v; want 3, 5, none but not null",
				p.LastStableOffset, p.HighWatermark, p.AbortedTransactions)
		}
		checkBases(t, b, from(3))
		b.endTxn("t", 8, false)
		p = from(3)
		checkBases(t, b, p, 3, 4, 5)
		if len(p.AbortedTransactions) != 1 || p.AbortedTransactions[0].ProducerID != 8 || p.AbortedTransactions[0].FirstOffset != 3 {
			t.Errorf("got aborted %+v, want producer 8 from 3", p.AbortedTransactions)
		}
	})
	atVersions(t, "FETCH-18", 1, 4, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		for _, offset := range []int64{0, 5} { // empty, and out of range
			if p := b.fetchOne(b.fetchRequest(v, asked{"t", 0, offset})); p.RecordBatches == nil || len(p.RecordBatches) != 0 {
				t.Errorf("offset %d: got records %v, want zero bytes and not null", offset, p.RecordBatches)
			}
		}
		if p := b.fetchOne(b.fetchRequest(v, asked{"t", 9, 0})); p.RecordBatches == nil || p.ErrorCode != 3 || p.HighWatermark != -1 {
			t.Errorf("missing partition: got error %d, records %v, high watermark %d; want 3, zero bytes, -1", p.ErrorCode, p.RecordBatches, p.HighWatermark)
		}
	})
	// Kafka refused zstd below version 10 as long as it could convert old formats. Since 4.0 it sends what it has.
	for _, v := range []int16{4, 9, 10, 18} {
		t.Run(fmt.Sprintf("FETCH-19/v%d", v), func(t *testing.T) {
			b := newBroker(t, nil)
			b.topic("t", 1, "compression.type", "zstd")
			b.mustProduce("t", 0, b.batch(strings.Repeat("x", 1000)))
			p := b.fetchOne(b.fetchRequest(v, asked{"t", 0, 0}))
			checkBases(t, b, p, 0)
			if got := b.batches(p.RecordBatches)[0].Codec(); got != record.Zstd {
				t.Errorf("got codec %v, want zstd", got)
			}
		})
	}
	atVersions(t, "FETCH-20", 1, 4, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		for i, commit := range []bool{false, true, false} {
			b.inTxn("t", 7, int32(i), fmt.Sprint(i))
			b.endTxn("t", 7, commit)
		}
		req := b.fetchRequest(v, asked{"t", 0, 0})
		req.IsolationLevel = 1
		p := b.fetchOne(req)
		checkBases(t, b, p, 0, 1, 2, 3, 4, 5)
		if fmt.Sprint(abortedFrom(p)) != "[0 4]" {
			t.Errorf("aborted from %v, want [0 4]", abortedFrom(p))
		}
	})
	atVersions(t, "FETCH-21", 23, 2, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		b.mustProduce("t", 0, b.batch("0", "1"))
		epoch := b.log("t", 0).LeaderEpoch()
		for _, c := range []struct {
			asked, current  int32
			code            int16
			wantEpoch, want int64
		}{
			{epoch, -1, 0, int64(epoch), 2},
			{epoch + 10, -1, 0, -1, -1},
			{-1, -1, 0, -1, -1},
			{epoch, epoch + 1, 75, -1, -1},
		} {
			req := kmsg.NewPtrOffsetForLeaderEpochRequest()
			req.Version, req.ReplicaID = v, -2
			x := kmsg.NewOffsetForLeaderEpochRequestTopic()
			x.Topic = "t"
			y := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			y.CurrentLeaderEpoch, y.LeaderEpoch = c.current, c.asked
			missing := y
			missing.Partition = 4
			x.Partitions = append(x.Partitions, y, missing)
			req.Topics = append(req.Topics, x)
			p := ask[*kmsg.OffsetForLeaderEpochResponse](b, req).Topics[0].Partitions
			if p[0].ErrorCode != c.code || int64(p[0].LeaderEpoch) != c.wantEpoch || p[0].EndOffset != c.want {
				t.Errorf("epoch %d, current %d: got error %d, epoch %d, end %d; want %d, %d, %d",
					c.asked, c.current, p[0].ErrorCode, p[0].LeaderEpoch, p[0].EndOffset, c.code, c.wantEpoch, c.want)
			}
			if p[1].ErrorCode != 3 {
				t.Errorf("missing partition: got error %d, want 3", p[1].ErrorCode)
			}
		}
	})
}

func abortedFrom(p kmsg.FetchResponseTopicPartition) (from []int64) {
	for _, a := range p.AbortedTransactions {
		from = append(from, a.FirstOffset)
	}
	return from
}

// compacted is a batch from base to last of which only some offsets are left.
func compacted(ms, base, last int64, left ...int64) []byte {
	b := record.NewBuilder(record.BuilderOptions{BaseOffset: base})
	for _, offset := range left {
		b.AppendAt(offset, record.Record{Timestamp: ms, Key: []byte("k"), Value: []byte("v")})
	}
	b.SetLastOffset(last)
	return slices.Clone(b.Bytes())
}

// rewrite stops the store, replaces the segments of a topic's first partition, by base offset, and starts it again as
// after a crash. Everything below end is said to be on disk.
func (b *broker) rewrite(topic string, end int64, segments map[int64][]byte) {
	b.t.Helper()
	b.stop()
	must := func(err error) {
		b.t.Helper()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			b.t.Fatal(err)
		}
	}
	write := func(name string, content []byte) {
		b.t.Helper()
		f, err := b.fs.Create(name)
		must(err)
		_, err = f.WriteAt(content, 0)
		must(err)
		must(f.Close())
	}
	dir := path.Join(b.dir, topic+"-0")
	names, err := b.fs.List(dir)
	must(err)
	for _, name := range names {
		if name != "partition.metadata" {
			must(b.fs.Remove(path.Join(dir, name)))
		}
	}
	bases := slices.Sorted(maps.Keys(segments))
	for i, base := range bases {
		write(path.Join(dir, fmt.Sprintf("%020d.log", base)), segments[base])
		if i+1 < len(bases) {
			write(path.Join(dir, fmt.Sprintf("%020d.%020d.reaches", base, bases[i+1])), nil)
		}
	}
	must(b.fs.Remove(path.Join(b.dir, ".kafka_cleanshutdown")))
	write(path.Join(b.dir, "recovery-point-offset-checkpoint"), fmt.Appendf(nil, "0\n1\n%s 0 %d\n", topic, end))
	b.open(nil)
}

func TestFetchErrorsOfPartitions(t *testing.T) {
	atVersions(t, "unknown", 1, 4, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		b.mustProduce("t", 0, b.batch("x"))
		req := b.fetchRequest(v, asked{"nowhere", 0, 0}, asked{"t", 3, 0}, asked{"t", 0, 0})
		if v >= 13 {
			binary.BigEndian.PutUint32(req.Topics[0].TopicID[:], 0xdead)
		}
		req.MaxWaitMillis, req.MinBytes = 3_600_000, 1
		resp := ask[*kmsg.FetchResponse](b, req)
		var got []string
		for _, x := range resp.Topics {
			for _, p := range x.Partitions {
				got = append(got, fmt.Sprintf("%d:%d", p.Partition, p.ErrorCode))
			}
		}
		// What could be read comes first.
		want := "[0:0 0:3 3:3]"
		if v >= 13 {
			want = "[0:0 0:100 3:3]"
		}
		if fmt.Sprint(got) != want {
			t.Errorf("got partition:error %v, want %v", got, want)
		}
	})
	atVersions(t, "replica", 1, 4, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		b.mustProduce("t", 0, b.batch("x"))
		req := b.fetchRequest(v, asked{"t", 0, 0})
		if req.ReplicaID = 2; v >= 15 {
			req.ReplicaState.ID = 2
		}
		resp := ask[*kmsg.FetchResponse](b, req)
		p := resp.Topics[0].Partitions[0]
		if p.ErrorCode != 6 || len(p.RecordBatches) != 0 {
			t.Errorf("got error %d and %d bytes, want 6 and none", p.ErrorCode, len(p.RecordBatches))
		}
		if named := v >= 16; named != (p.CurrentLeader.LeaderID != -1) || len(resp.Brokers) != 0 {
			t.Errorf("got leader %+v at %+v; want it from version 16 on, and never its address", p.CurrentLeader, resp.Brokers)
		}
		if v < 9 {
			return
		}
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = b.log("t", 0).LeaderEpoch()
		if p := b.fetchOne(req); p.ErrorCode != 75 {
			t.Errorf("with a leader epoch: got error %d, want 75", p.ErrorCode)
		}
	})
	t.Run("diverging epoch", func(t *testing.T) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		b.mustProduce("t", 0, b.batch("0", "1"))
		epoch := b.log("t", 0).LeaderEpoch()
		req := b.fetchRequest(18, asked{"t", 0, 5})
		req.Topics[0].Partitions[0].LastFetchedEpoch = epoch
		if p := b.fetchOne(req); p.ErrorCode != 0 || p.DivergingEpoch.Epoch != epoch || p.DivergingEpoch.EndOffset != 2 {
			t.Errorf("got error %d, diverging %+v; want 0, epoch %d ending at 2", p.ErrorCode, p.DivergingEpoch, epoch)
		}
	})
}

func TestFetchSharesLimitAmongPartitions(t *testing.T) {
	b := newBroker(t, nil)
	b.topic("t", 40)
	partitions := make([]asked, 40)
	size := 0
	for i := range partitions {
		partitions[i] = asked{"t", int32(i), 0}
		for j := range 3 {
			batch := b.batch(strings.Repeat("x", 900+j))
			size = len(batch)
			b.mustProduce("t", int32(i), batch)
		}
	}
	req := b.fetchRequest(18, partitions...)
	total := 0
	for _, p := range ask[*kmsg.FetchResponse](b, req).Topics[0].Partitions {
		checkBases(t, b, p, 0, 1, 2)
		total += len(p.RecordBatches)
	}
	req.MaxBytes = int32(total / 2)
	got := 0
	for _, p := range ask[*kmsg.FetchResponse](b, req).Topics[0].Partitions {
		got += len(p.RecordBatches)
		b.batches(p.RecordBatches)
	}
	if got > total/2 || got < total/2-size {
		t.Errorf("got %d bytes with a limit of %d, batches have %d", got, total/2, size)
	}
	for i := range req.Topics[0].Partitions {
		req.Topics[0].Partitions[i].PartitionMaxBytes = int32(2*size + 10)
	}
	req.MaxBytes = 50 << 20
	for _, p := range ask[*kmsg.FetchResponse](b, req).Topics[0].Partitions {
		checkBases(t, b, p, 0, 1)
	}
}

func TestFetchStaysWithinMemory(t *testing.T) {
	b := newBroker(t, nil)
	b.topic("t", 3)
	for partition := range int32(3) {
		b.mustProduce("t", partition, b.batch(strings.Repeat("x", 100_000)))
	}
	b.s.answers.setLimit(150_000 * 8 / 7)
	p := ask[*kmsg.FetchResponse](b, b.fetchRequest(18, asked{"t", 0, 0}, asked{"t", 1, 0}, asked{"t", 2, 0})).Topics[0].Partitions
	checkBases(t, b, p[0], 0)
	for _, p := range p[1:] { // no room for these in this answer, but nothing is wrong with them
		checkBases(t, b, p)
		if p.HighWatermark != 1 {
			t.Errorf("partition %d: high watermark %d, want 1", p.Partition, p.HighWatermark)
		}
	}
	// The first batch is served whatever its size.
	b.s.answers.setLimit(1000)
	checkBases(t, b, b.fetchOne(b.fetchRequest(18, asked{"t", 1, 0})), 0)
	req := b.fetchRequest(18, asked{"t", 1, 0})
	req.MaxBytes = 10
	checkBases(t, b, b.fetchOne(req), 0)
}

func TestFetchWaitsForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRunningBroker(t, nil)
		b.topic("t", 1)
		b.mustProduce("t", 0, b.batch("x"))
		m := &b.s.answers
		m.large.force(m.large.limit)
		m.small.force(m.small.limit)
		answer := b.parkedFetch(b.fetchRequest(18, asked{"t", 0, 0}))
		<-time.After(time.Second)
		m.small.release(m.small.limit)
		m.large.release(m.large.limit)
		checkAnswered(t, b, answer, time.Second, 1)
	})
}
