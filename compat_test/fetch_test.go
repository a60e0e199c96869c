package compat_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// empty checks an answer without records: zero bytes, never null.
func empty(t testing.TB, got fetched) {
	t.Helper()
	if got.RecordBatches == nil || len(got.RecordBatches) != 0 {
		t.Fatalf("records are %d bytes, null %t; want an empty field", len(got.RecordBatches), got.RecordBatches == nil)
	}
}

func TestFetch(t *testing.T) {
	t.Parallel()
	s := newServer(t)

	at(t, "FETCH-01 first batch larger than the limits is still returned", versions(4, 12, 18), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "fetch-01", 2)
		c := s.dial(t)
		big := batch{Records: []rec{{Value: bytes.Repeat([]byte("x"), 1<<20-200)}}}
		mustProduce(c, tp, 0, big)
		mustProduce(c, tp, 0, big)
		mustProduce(c, tp, 1, big)
		req := fetchRequest(tp, 0, 0)
		req.MaxBytes = 1
		req.Topics[0].Partitions[0].PartitionMaxBytes = 1
		got := batches(t, fetchOne(c, v, req).RecordBatches)
		want(t, "batches", len(got), 1)
		want(t, "base offset", got[0].FirstOffset, 0)

		// only the first partition that has data gets more than its share
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, fetchTopic(tp, 1, 0).Partitions[0])
		req.Topics[0].Partitions[1].PartitionMaxBytes = 1
		req.MaxBytes = 50 << 20
		res := ask[*kmsg.FetchResponse](c, v, req)
		want(t, "partitions", len(res.Topics[0].Partitions), 2)
		want(t, "batches of the first", len(batches(t, res.Topics[0].Partitions[0].RecordBatches)), 1)
		want(t, "bytes of the second", len(res.Topics[0].Partitions[1].RecordBatches), 0)
	})

	at(t, "FETCH-03 fetch inside a batch returns the batch that contains the offset", versions(4, 12, 18), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "fetch-03", 1)
		c := s.dial(t)
		sent := one("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
		mustProduce(c, tp, 0, sent)
		mustProduce(c, tp, 0, one("10"))
		for _, offset := range []int64{0, 5, 9} {
			got := fetch(c, v, tp, 0, offset)
			want(t, "base offset", got[0].FirstOffset, 0)
			want(t, "records", len(got[0].Records), 10)
			want(t, "batches", len(got), 2)
		}
		want(t, "base offset from 10", fetch(c, v, tp, 0, 10)[0].FirstOffset, 10)
	})

	at(t, "FETCH-05 out-of-range versus end-of-log", versions(4, 12, 18), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "fetch-05", 1)
		c := s.dial(t)
		for range 4 {
			mustProduce(c, tp, 0, one("a", "b", "c", "d", "e"))
		}
		deleteRecords(t, c, tp, 0, 10)
		req := fetchRequest(tp, 0, 20)
		req.MaxWaitMillis = 200
		began := time.Now()
		got := fetchOne(c, v, req)
		if took := time.Since(began); took < 190*time.Millisecond {
			t.Errorf("answered at the end of the log after %s, want the 200 ms", took)
		}
		wantCode(t, "at the end", got.ErrorCode, noError)
		empty(t, got)
		want(t, "high watermark", got.HighWatermark, 20)
		want(t, "last stable offset", got.LastStableOffset, 20)
		if v >= 5 {
			want(t, "log start offset", got.LogStartOffset, 10)
		}
		for _, offset := range []int64{21, 9, -1, 1 << 40} {
			req := fetchRequest(tp, 0, offset)
			req.MaxWaitMillis = int32(waitLimit.Milliseconds()) * 2 // an error is answered at once
			got := fetchOne(c, v, req)
			wantCode(t, "outside", got.ErrorCode, offsetOutOfRange)
			empty(t, got)
			want(t, "high watermark", got.HighWatermark, -1)
			want(t, "last stable offset", got.LastStableOffset, -1)
			want(t, "log start offset", got.LogStartOffset, -1)
		}
		wantCode(t, "at the start", fetchOne(c, v, fetchRequest(tp, 0, 10)).ErrorCode, noError)
	})

	at(t, "FETCH-07 long poll wakes on data and honours max_wait", versions(4, 12, 18), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "fetch-07", 1)
		c := s.dial(t)
		req := fetchRequest(tp, 0, 0)
		req.MaxWaitMillis = 500
		began := time.Now()
		got := fetchOne(c, v, req)
		if took := time.Since(began); took < 490*time.Millisecond {
			t.Errorf("empty topic answered after %s, want 500 ms", took)
		}
		wantCode(t, "empty topic", got.ErrorCode, noError)
		empty(t, got)

		req.MaxWaitMillis = int32(waitLimit.Milliseconds()) * 2 // the test fails before this is over
		id := c.send(v, req)
		mustProduce(s.dial(t), tp, 0, one("wake"))
		res := receive[*kmsg.FetchResponse](c, id, req)
		want(t, "woken with", string(batches(t, res.Topics[0].Partitions[0].RecordBatches)[0].Records[0].Value), "wake")

		// min_bytes holds until there is enough
		req = fetchRequest(tp, 0, 1)
		req.MaxWaitMillis, req.MinBytes = int32(waitLimit.Milliseconds())*2, 1000
		id = c.send(v, req)
		small := s.dial(t)
		mustProduce(small, tp, 0, one("too little"))
		mustProduce(small, tp, 0, batch{Records: []rec{{Value: make([]byte, 1000)}}})
		res = receive[*kmsg.FetchResponse](c, id, req)
		want(t, "batches", len(batches(t, res.Topics[0].Partitions[0].RecordBatches)), 2)

		req = fetchRequest(tp, 0, 3)
		req.MaxWaitMillis, req.MinBytes = int32(waitLimit.Milliseconds())*2, 0
		empty(t, fetchOne(c, v, req)) // min_bytes 0 never waits
	})

	at(t, "FETCH-18 empty record set is zero bytes, not null", versions(4, 11, 12, 18), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "fetch-18", 1)
		c := s.dial(t)
		got := fetchOne(c, v, fetchRequest(tp, 0, 0))
		wantCode(t, "empty partition", got.ErrorCode, noError)
		empty(t, got)
		if got.AbortedTransactions != nil {
			t.Errorf("aborted transactions of a read_uncommitted fetch are %v, want null", got.AbortedTransactions)
		}
		req := fetchRequest(tp, 0, 0)
		req.IsolationLevel = 1
		if got := fetchOne(c, v, req); got.AbortedTransactions == nil || len(got.AbortedTransactions) > 0 {
			t.Errorf("aborted transactions of a read_committed fetch are %v, null %t; want none", got.AbortedTransactions, got.AbortedTransactions == nil)
		}
		got = fetchOne(c, v, fetchRequest(tp, 7, 0))
		wantCode(t, "unknown partition", got.ErrorCode, unknownTopicOrPart)
		empty(t, got)
		want(t, "high watermark", got.HighWatermark, -1)
		absent := topic{Name: fresh("absent"), ID: [16]byte{7}}
		got = fetchOne(c, v, fetchRequest(absent, 0, 0))
		if v < 13 {
			wantCode(t, "unknown topic", got.ErrorCode, unknownTopicOrPart)
		} else {
			wantCode(t, "unknown topic", got.ErrorCode, unknownTopicID)
		}
		empty(t, got)
	})

	t.Run("FETCH-19 zstd topic and old Fetch", func(t *testing.T) {
		tp := s.createTopic(t, "fetch-19", 1, "compression.type", "zstd")
		c := s.dial(t)
		mustProduce(c, tp, 0, one("x"))
		// Apache Kafka 4.x no longer refuses Fetch before v10 here: the data is sent.
		for _, v := range versions(4, 9, 10, 18) {
			got := fetch(c, v, tp, 0, 0)
			want(t, "batches", len(got), 1)
			want(t, "codec", got[0].Attributes&7, int16(kgo.CodecZstd))
		}
	})

	at(t, "limits are kept beyond the first batch", versions(4, 18), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "limits", 1)
		c := s.dial(t)
		b := batch{Records: []rec{{Value: incompressible(1000)}}}
		for range 10 {
			mustProduce(c, tp, 0, b)
		}
		size := len(b.bytes(t))
		for _, limits := range [][2]int{{3 * size, 1 << 20}, {1 << 20, 3 * size}} {
			req := fetchRequest(tp, 0, 0)
			req.MaxBytes = int32(limits[0])
			req.Topics[0].Partitions[0].PartitionMaxBytes = int32(limits[1])
			got := fetchOne(c, v, req).RecordBatches
			if len(got) != 3*size {
				t.Errorf("max_bytes %d, partition_max_bytes %d: got %d bytes, want %d", limits[0], limits[1], len(got), 3*size)
			}
		}
	})
}

func TestFetchEpochs(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	tp := s.createTopic(t, "fetch-12", 1)
	if !s.External() { // so that there are epochs below
		mustProduce(s.dial(t), tp, 0, one("a"))
		s.Restart(t, stopped)
	}
	c := s.dial(t)
	mustProduce(c, tp, 0, one("b"))
	epoch := leaderEpoch(c, tp, 0)

	at(t, "FETCH-12 current_leader_epoch fencing", versions(9, 12, 18), func(t *testing.T, v int16) {
		c := s.dial(t)
		for _, test := range []struct {
			epoch int32
			want  int16
		}{{epoch + 1, unknownLeaderEpoch}, {epoch - 1, fencedLeaderEpoch}, {epoch, noError}, {-1, noError}} {
			if test.epoch < -1 || test.epoch == epoch-1 && epoch == 0 {
				continue
			}
			req := fetchRequest(tp, 0, 0)
			req.Topics[0].Partitions[0].CurrentLeaderEpoch = test.epoch
			got := fetchOne(c, v, req)
			wantCode(t, "fetch", got.ErrorCode, test.want)
			if test.want != noError {
				empty(t, got)
				want(t, "high watermark", got.HighWatermark, -1)
			}

			// in a session the epoch is remembered
			full := fetchRequest(tp, 0, 0)
			full.SessionEpoch = 0
			full.Topics[0].Partitions[0].CurrentLeaderEpoch = test.epoch
			res := ask[*kmsg.FetchResponse](c, v, full)
			wantCode(t, "full", res.Topics[0].Partitions[0].ErrorCode, test.want)
			if res.SessionID == 0 {
				t.Fatal("no session")
			}
			next := fetchRequest(tp, 0, 0)
			next.Topics = nil
			next.SessionID, next.SessionEpoch = res.SessionID, 1
			res = ask[*kmsg.FetchResponse](c, v, next)
			wantCode(t, "incremental", res.ErrorCode, noError)
			want(t, "topics", len(res.Topics), 1)
			wantCode(t, "incremental partition", res.Topics[0].Partitions[0].ErrorCode, test.want)
		}
	})

	at(t, "FETCH-21 OffsetForLeaderEpoch for a consumer", versions(2, 3, 4), func(t *testing.T, v int16) {
		c := s.dial(t)
		end := offsetOf(c, tp, 0, latest)
		ask1 := func(p int32, current, asked int32) kmsg.OffsetForLeaderEpochResponseTopicPartition {
			req := kmsg.NewPtrOffsetForLeaderEpochRequest()
			req.ReplicaID = -2
			rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
			rt.Topic = tp.Name
			rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			rp.Partition, rp.CurrentLeaderEpoch, rp.LeaderEpoch = p, current, asked
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
			return ask[*kmsg.OffsetForLeaderEpochResponse](c, v, req).Topics[0].Partitions[0]
		}
		for _, test := range []struct {
			partition, current, asked int32
			code                      int16
			epoch                     int32
			end                       int64
		}{
			{0, -1, epoch, noError, epoch, end},
			{0, epoch, epoch, noError, epoch, end},
			{0, -1, epoch + 10, noError, -1, -1},
			{0, -1, -1, noError, -1, -1},
			{0, epoch + 1, epoch, unknownLeaderEpoch, -1, -1},
			{9, -1, epoch, unknownTopicOrPart, -1, -1},
		} {
			got := ask1(test.partition, test.current, test.asked)
			if got.ErrorCode != test.code || got.LeaderEpoch != test.epoch || got.EndOffset != test.end || got.Partition != test.partition {
				t.Errorf("%+v: got error %s, epoch %d, end %d", test, code(got.ErrorCode), got.LeaderEpoch, got.EndOffset)
			}
		}
		if epoch > 0 && !s.External() {
			first := fetch(c, 12, tp, 0, 0)[0].PartitionLeaderEpoch
			got := ask1(0, -1, first)
			if got.ErrorCode != 0 || got.LeaderEpoch != first || got.EndOffset != 1 {
				t.Errorf("epoch %d, before the restart: got %+v, want end 1", first, got)
			}
			wantCode(t, "fenced", ask1(0, first, first).ErrorCode, fencedLeaderEpoch)
		}
	})
}

func TestFetchSessions(t *testing.T) {
	t.Parallel()
	s := newServer(t)

	// listedIn is the partitions of an answer, sorted.
	listedIn := func(res *kmsg.FetchResponse) []int32 {
		var ps []int32
		for _, rt := range res.Topics {
			for _, rp := range rt.Partitions {
				ps = append(ps, rp.Partition)
			}
		}
		slices.Sort(ps)
		return ps
	}
	open := func(t *testing.T, c *conn, v int16, tp topic, partitions ...int32) int32 {
		t.Helper()
		req := fetchRequest(tp, partitions[0], 0)
		for _, p := range partitions[1:] {
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, fetchTopic(tp, p, 0).Partitions[0])
		}
		req.SessionEpoch = 0
		res := ask[*kmsg.FetchResponse](c, v, req)
		wantCode(t, "full fetch", res.ErrorCode, noError)
		if res.SessionID == 0 {
			t.Fatal("no session")
		}
		if !slices.Equal(listedIn(res), partitions) {
			t.Fatalf("full fetch lists %v, want %v", listedIn(res), partitions)
		}
		return res.SessionID
	}
	next := func(session, epoch int32) *kmsg.FetchRequest {
		req := kmsg.NewPtrFetchRequest()
		req.ReplicaID, req.MinBytes, req.MaxBytes = -1, 1, 50<<20
		req.SessionID, req.SessionEpoch = session, epoch
		return req
	}

	at(t, "FETCH-09 session creation and refusal", versions(7, 12, 18), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "fetch-09", 1)
		c := s.dial(t)
		a, b := open(t, c, v, tp, 0), open(t, c, v, tp, 0)
		if a == b {
			t.Errorf("two sessions are both %d", a)
		}
		res := ask[*kmsg.FetchResponse](c, v, fetchRequest(tp, 0, 0))
		want(t, "session id without a session", res.SessionID, 0)
		want(t, "topics", len(res.Topics), 1)

		res = ask[*kmsg.FetchResponse](c, v, next(a, 5))
		wantCode(t, "wrong epoch", res.ErrorCode, invalidFetchEpoch)
		want(t, "topics", len(res.Topics), 0)
		res = ask[*kmsg.FetchResponse](c, v, next(a^b^1<<30|1, 1))
		wantCode(t, "unknown session", res.ErrorCode, fetchSessionNotFound)
		want(t, "session id", res.SessionID, 0)
		res = ask[*kmsg.FetchResponse](c, v, next(a, 1))
		wantCode(t, "right epoch", res.ErrorCode, noError)
		want(t, "session id", res.SessionID, a)
		want(t, "unchanged partitions", len(res.Topics), 0)
		closing := fetchRequest(tp, 0, 0)
		closing.SessionID = a
		res = ask[*kmsg.FetchResponse](c, v, closing)
		wantCode(t, "closing", res.ErrorCode, noError)
		want(t, "session id", res.SessionID, 0)
		want(t, "topics", len(res.Topics), 1)
		wantCode(t, "after closing", ask[*kmsg.FetchResponse](c, v, next(a, 2)).ErrorCode, fetchSessionNotFound)
		if v >= 13 {
			wantCode(t, "names in a session with ids", ask[*kmsg.FetchResponse](c, 12, next(b, 1)).ErrorCode, fetchSessionTopicID)
		}
	})

	t.Run("FETCH-09 sessions and fetches without one are bounded in memory", func(t *testing.T) {
		s := newServer(t)
		s.needProcess(t)
		tp := s.createTopic(t, "fetch-09", 1)
		c := s.dial(t)
		mustProduce(c, tp, 0, one("x"))
		created, refused := 0, 0
		req := fetchRequest(tp, 0, 0)
		req.SessionEpoch = 0
		for range 1500 {
			res := ask[*kmsg.FetchResponse](c, 12, req)
			want(t, "topics", len(res.Topics), 1)
			if res.SessionID == 0 {
				refused++
			} else {
				created++
			}
		}
		if created > 1000 || refused == 0 {
			t.Errorf("%d sessions were made and %d refused, want at most 1000 made", created, refused)
		}
		before := residentKiB(s.PID())
		req.SessionEpoch = -1
		for range 10000 {
			want(t, "session id", ask[*kmsg.FetchResponse](c, 12, req).SessionID, 0)
		}
		if grown := residentKiB(s.PID()) - before; grown > 32<<10 {
			t.Errorf("10,000 fetches without a session cost %d KiB of memory", grown)
		}
	})

	at(t, "FETCH-11 incremental replies list only changed partitions", versions(7, 12, 18), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "fetch-11", 2)
		c := s.dial(t)
		mustProduce(c, tp, 1, one("b1", "b2"))
		id := open(t, c, v, tp, 0, 1)
		advance := next(id, 1) // B's records were read
		advance.Topics = append(advance.Topics, fetchTopic(tp, 1, 2))
		res := ask[*kmsg.FetchResponse](c, v, advance)
		wantCode(t, "incremental", res.ErrorCode, noError)
		want(t, "unchanged", len(listedIn(res)), 0)

		mustProduce(c, tp, 0, one("a"))
		res = ask[*kmsg.FetchResponse](c, v, next(id, 2))
		if got := listedIn(res); !slices.Equal(got, []int32{0}) {
			t.Fatalf("after a record for A: %v", got)
		}
		want(t, "record", string(batches(t, res.Topics[0].Partitions[0].RecordBatches)[0].Records[0].Value), "a")

		forget := next(id, 3)
		ft := kmsg.NewFetchRequestForgottenTopic()
		ft.Topic, ft.TopicID, ft.Partitions = tp.Name, tp.ID, []int32{0}
		forget.ForgottenTopics = append(forget.ForgottenTopics, ft)
		mustProduce(c, tp, 0, one("a2"))
		res = ask[*kmsg.FetchResponse](c, v, forget)
		wantCode(t, "forget", res.ErrorCode, noError)
		want(t, "after forgetting A", len(listedIn(res)), 0)

		deleteRecords(t, c, tp, 1, 1)
		res = ask[*kmsg.FetchResponse](c, v, next(id, 4))
		if got := listedIn(res); !slices.Equal(got, []int32{1}) {
			t.Fatalf("after deleting records of B: %v", got)
		}
		empty(t, res.Topics[0].Partitions[0])
		want(t, "log start offset", res.Topics[0].Partitions[0].LogStartOffset, 1)
		res = ask[*kmsg.FetchResponse](c, v, next(id, 5))
		want(t, "and then", len(listedIn(res)), 0)
	})

	t.Run("a session's partition in error is sent again", func(t *testing.T) {
		tp := s.createTopic(t, "session-error", 1)
		c := s.dial(t)
		id := open(t, c, 12, tp, 0)
		bad := next(id, 1)
		bad.Topics = append(bad.Topics, fetchTopic(tp, 0, 99))
		res := ask[*kmsg.FetchResponse](c, 12, bad)
		wantCode(t, "out of range", res.Topics[0].Partitions[0].ErrorCode, offsetOutOfRange)
		good := next(id, 2)
		good.Topics = append(good.Topics, fetchTopic(tp, 0, 0))
		res = ask[*kmsg.FetchResponse](c, 12, good)
		want(t, "topics", len(res.Topics), 1)
		wantCode(t, "again", res.Topics[0].Partitions[0].ErrorCode, noError)
	})
}

// deleteRecords moves the log start and checks the answer.
func deleteRecords(t testing.TB, c *conn, tp topic, p int32, before int64) {
	t.Helper()
	got := deleteRecordsAt(c, 2, tp, p, before)
	wantCode(t, "DeleteRecords", got.ErrorCode, noError)
	want(t, "low watermark", got.LowWatermark, before)
}

func deleteRecordsAt(c *conn, v int16, tp topic, p int32, before int64) kmsg.DeleteRecordsResponseTopicPartition {
	c.t.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 10000
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = tp.Name
	rp := kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Partition, rp.Offset = p, before
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	res := ask[*kmsg.DeleteRecordsResponse](c, v, req)
	if len(res.Topics) != 1 || res.Topics[0].Topic != tp.Name || len(res.Topics[0].Partitions) != 1 || res.Topics[0].Partitions[0].Partition != p {
		c.t.Fatalf("DeleteRecords of %s-%d answers %+v", tp.Name, p, res.Topics)
	}
	return res.Topics[0].Partitions[0]
}
