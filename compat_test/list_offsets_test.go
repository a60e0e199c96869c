package compat_test

import (
	"testing"
	"time"
)

// timed is a batch with one record for each time.
func timed(times ...int64) batch {
	var b batch
	for _, ms := range times {
		b.Records = append(b.Records, rec{Value: []byte("x"), Time: ms})
	}
	return b
}

// wantListed checks a whole answer of ListOffsets; leader epochs came with v4.
func wantListed(t *testing.T, v int16, what string, got listed, offset, timestamp int64, epoch int32) {
	t.Helper()
	if v < 4 {
		epoch = -1
	}
	if got.ErrorCode != 0 || got.Offset != offset || got.Timestamp != timestamp || got.LeaderEpoch != epoch {
		t.Fatalf("%s: got error %s, offset %d, timestamp %d, epoch %d; want 0, %d, %d, %d",
			what, code(got.ErrorCode), got.Offset, got.Timestamp, got.LeaderEpoch, offset, timestamp, epoch)
	}
}

func TestListOffsets(t *testing.T) {
	t.Parallel()
	s := newServer(t)

	at(t, "LOFF-01 earliest and latest", versions(1, 4, 11), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "loff-01", 1)
		c := s.dial(t)
		epoch := leaderEpoch(c, tp, 0)
		wantListed(t, v, "latest of an empty log", listOffset(c, v, tp, 0, latest, 0), 0, -1, epoch)
		empty := listOffset(c, v, tp, 0, earliest, 0)
		want(t, "earliest of an empty log", empty.Offset, 0)
		mustProduce(c, tp, 0, one("a", "b", "c", "d", "e"))
		for _, isolation := range []int8{0, 1} {
			wantListed(t, v, "latest", listOffset(c, v, tp, 0, latest, isolation), 5, -1, epoch)
		}
		wantListed(t, v, "earliest", listOffset(c, v, tp, 0, earliest, 0), 0, -1, epoch)
		deleteRecords(t, c, tp, 0, 3)
		wantListed(t, v, "earliest", listOffset(c, v, tp, 0, earliest, 0), 3, -1, epoch)
		wantCode(t, "unknown partition", listOffset(c, v, tp, 9, latest, 0).ErrorCode, unknownTopicOrPart)
		wantCode(t, "unknown topic", listOffset(c, v, topic{Name: fresh("absent")}, 0, latest, 0).ErrorCode, unknownTopicOrPart)
		if v >= 4 {
			for _, test := range []struct {
				epoch int32
				want  int16
			}{{epoch + 1, unknownLeaderEpoch}, {epoch, noError}} {
				req := listRequest(tp, []int32{0}, latest, 0)
				req.Topics[0].Partitions[0].CurrentLeaderEpoch = test.epoch
				res := ask[*listResponse](c, v, req)
				wantCode(t, "with an epoch", res.Topics[0].Partitions[0].ErrorCode, test.want)
			}
		}
	})

	at(t, "LOFF-02 timestamp lookup finds the record, not the batch", versions(1, 11), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "loff-02", 1)
		c := s.dial(t)
		epoch := leaderEpoch(c, tp, 0)
		mustProduce(c, tp, 0, timed(2, 4, 6, 8))
		mustProduce(c, tp, 0, timed(20, 5, 30))
		for _, test := range []struct{ ask, offset, timestamp int64 }{
			{0, 0, 2}, {2, 0, 2}, {3, 1, 4}, {4, 1, 4}, {5, 2, 6}, {8, 3, 8}, {9, 4, 20}, {21, 6, 30}, {30, 6, 30},
		} {
			wantListed(t, v, "lookup", listOffset(c, v, tp, 0, test.ask, 0), test.offset, test.timestamp, epoch)
		}
		wantListed(t, v, "nothing that late", listOffset(c, v, tp, 0, 31, 0), -1, -1, -1)
		deleteRecords(t, c, tp, 0, 2)
		wantListed(t, v, "never below the log start", listOffset(c, v, tp, 0, 0, 0), 2, 6, epoch)
	})

	at(t, "LOFF-05 max timestamp", versions(1, 6, 7, 11), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "loff-05", 1)
		c := s.dial(t)
		epoch := leaderEpoch(c, tp, 0)
		if v < 7 {
			got := listOffset(c, v, tp, 0, maxTimestamp, 0)
			wantCode(t, "too early a version", got.ErrorCode, unsupportedVersion)
			return
		}
		wantListed(t, v, "empty log", listOffset(c, v, tp, 0, maxTimestamp, 0), -1, -1, -1)
		mustProduce(c, tp, 0, timed(10, 50, 20))
		mustProduce(c, tp, 0, timed(50, 40))
		wantListed(t, v, "ties go to the first", listOffset(c, v, tp, 0, maxTimestamp, 0), 1, 50, epoch)
		mustProduce(c, tp, 0, timed(3, 60))
		wantListed(t, v, "a later one", listOffset(c, v, tp, 0, maxTimestamp, 0), 6, 60, epoch)

		appended := s.createTopic(t, "loff-05", 1, "message.timestamp.type", "LogAppendTime")
		first := produce(c, 9, appended, 0, timed(10, 50, 20).bytes(t)).LogAppendTime
		at := appendAfter(c, appended, first)
		wantListed(t, v, "LogAppendTime", listOffset(c, v, appended, 0, maxTimestamp, 0), at.offset, at.time, epoch)
	})

	at(t, "LOFF-06 -4 and -5 without tiered storage", versions(1, 7, 8, 9, 10, 11), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "loff-06", 1)
		c := s.dial(t)
		epoch := leaderEpoch(c, tp, 0)
		mustProduce(c, tp, 0, one("a", "b", "c"))
		deleteRecords(t, c, tp, 0, 2)
		for _, test := range []struct {
			timestamp int64
			since     int16
			offset    int64
			epoch     int32
		}{{earliestLocal, 8, 2, epoch}, {latestTiered, 9, -1, -1}, {earliestUpload, 11, -1, -1}} {
			got := listOffset(c, v, tp, 0, test.timestamp, 0)
			if v < test.since {
				wantCode(t, "too early a version", got.ErrorCode, unsupportedVersion)
				want(t, "offset", got.Offset, -1)
				want(t, "timestamp", got.Timestamp, -1)
				continue
			}
			wantListed(t, v, "special timestamp", got, test.offset, -1, test.epoch)
		}
		wantCode(t, "-7", listOffset(c, v, tp, 0, -7, 0).ErrorCode, unsupportedVersion)
	})

	at(t, "LOFF-07 duplicate partition in one request", versions(1, 11), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "loff-07", 2)
		c := s.dial(t)
		res := ask[*listResponse](c, v, listRequest(tp, []int32{0, 1, 0}, latest, 0))
		for _, got := range res.Topics[0].Partitions {
			if got.Partition == 0 {
				wantCode(t, "partition named twice", got.ErrorCode, invalidRequest)
				want(t, "offset", got.Offset, -1)
			} else {
				wantCode(t, "the other", got.ErrorCode, noError)
				want(t, "offset", got.Offset, 0)
			}
		}
	})

	at(t, "LOFF-08 time lookup on a LogAppendTime topic", versions(1, 11), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "loff-08", 1, "message.timestamp.type", "LogAppendTime")
		c := s.dial(t)
		epoch := leaderEpoch(c, tp, 0)
		first := produce(c, 9, tp, 0, timed(1000, 2000).bytes(t)).LogAppendTime
		second := appendAfter(c, tp, first)
		wantListed(t, v, "after the first append", listOffset(c, v, tp, 0, first+1, 0), second.offset, second.time, epoch)
		wantListed(t, v, "at the first append", listOffset(c, v, tp, 0, first, 0), 0, first, epoch)
		wantListed(t, v, "by the client's time", listOffset(c, v, tp, 0, 1500, 0), 0, first, epoch)
		wantListed(t, v, "later than all", listOffset(c, v, tp, 0, second.time+1, 0), -1, -1, -1)
	})
}

// appendedAt is where and when a batch was appended.
type appendedAt struct{ offset, time int64 }

// appendAfter appends to a LogAppendTime topic until the broker's clock is past a
// time, and returns the first batch of the new time.
func appendAfter(c *conn, tp topic, ms int64) appendedAt {
	c.t.Helper()
	for began := time.Now(); time.Since(began) < waitLimit; {
		next := produce(c, 9, tp, 0, timed(7, 9, 8).bytes(c.t))
		if next.ErrorCode != 0 {
			c.t.Fatalf("produce: %s", code(next.ErrorCode))
		}
		if next.LogAppendTime > ms {
			return appendedAt{next.BaseOffset, next.LogAppendTime}
		}
	}
	c.t.Fatal("the broker's clock stands still")
	return appendedAt{}
}
