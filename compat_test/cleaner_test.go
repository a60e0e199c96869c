package compat_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// newEagerServer is a server that looks for what it may forget all the time.
func newEagerServer(t testing.TB) *server {
	t.Helper()
	return newServer(t, "-c", "log.retention.check.interval.ms=100", "-c", "log.initial.task.delay.ms=0", "-c", "log.cleaner.backoff.ms=100")
}

// comes waits until ok; the server needs some time.
func comes(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx := within(t)
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("did not come: %s", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// compacted are the configs of a topic that is compacted as soon as a segment of a few records is closed.
func compacted(more ...string) []string {
	return append([]string{"cleanup.policy", "compact", "internal.segment.bytes", "400", "min.cleanable.dirty.ratio", "0.01"}, more...)
}

// setConfig sets one config of a topic.
func setConfig(t testing.TB, c *conn, tp topic, name, value string) {
	t.Helper()
	r := incrementalAlter(c, 1, kmsg.ConfigResourceTypeTopic, tp.Name, false, alter{name, opSet, ptr(value)})
	wantCode(t, "set "+name+"="+value, r.ErrorCode, noError)
}

// dated is a batch of one record with a time.
func dated(ms int64, key, value string) batch {
	return batch{Records: []rec{{Key: []byte(key), Value: []byte(value), Time: ms}}}
}

// all reads the batches of a partition from offset 0, or from where it begins.
func all(t testing.TB, c *conn, tp topic) (out []stored) {
	t.Helper()
	for offset := offsetOf(c, tp, 0, earliest); ; {
		read := fetch(c, 12, tp, 0, offset)
		if len(read) == 0 {
			return out
		}
		out = append(out, read...)
		last := read[len(read)-1]
		offset = last.FirstOffset + int64(last.LastOffsetDelta) + 1
	}
}

// held is what a partition holds: offset, key and value of each record.
func held(t testing.TB, c *conn, tp topic) (out []string) {
	t.Helper()
	for _, b := range all(t, c, tp) {
		for _, r := range b.Records {
			out = append(out, fmt.Sprintf("%d:%s=%s", r.Offset, r.Key, r.Value))
		}
	}
	return out
}

func TestRetentionByTime(t *testing.T) {
	t.Parallel()
	s := newEagerServer(t)
	t.Run("CLN-01 the open segment is emptied too", func(t *testing.T) {
		t.Parallel()
		c, tp := s.dial(t), s.createTopic(t, "old", 1, "retention.ms", "2000")
		mustProduce(c, tp, 0, one("0", "1", "2", "3", "4", "5", "6", "7", "8", "9"))
		comes(t, "the log begins where it ends", func() bool { return offsetOf(c, tp, 0, earliest) == 10 })
		wantEnd(c, tp, 0, 10)
		want(t, "offset of the next record", mustProduce(c, tp, 0, one("10")), 10)
	})
	t.Run("CLN-02 a record of the future keeps what follows", func(t *testing.T) {
		t.Parallel()
		c := s.dial(t)
		configs := []string{"retention.ms", "1000", "internal.segment.bytes", "100", "message.timestamp.after.max.ms", "9223372036854775807"}
		future, past := s.createTopic(t, "future", 1, configs...), s.createTopic(t, "past", 1, configs...)
		hour := time.Now().Add(-time.Hour).UnixMilli()
		mustProduce(c, future, 0, dated(4102444800000, "k", "in the year 2100"))
		for i := range 3 {
			mustProduce(c, future, 0, dated(hour+int64(i), "k", "an hour ago"))
		}
		mustProduce(c, past, 0, dated(hour, "k", "an hour ago"))
		comes(t, "the other topic is empty", func() bool { return offsetOf(c, past, 0, earliest) == 1 })
		want(t, "log start with a record of the future", offsetOf(c, future, 0, earliest), 0)
		setConfig(t, c, future, "retention.bytes", "1")
		comes(t, "the size still counts", func() bool { return offsetOf(c, future, 0, earliest) == 4 })
	})
	t.Run("CLN-04 records without timestamps are as old as their file", func(t *testing.T) {
		t.Parallel()
		c, tp := s.dial(t), s.createTopic(t, "timeless", 1, "retention.ms", "2000")
		began := time.Now()
		mustProduce(c, tp, 0, timed(-1, -1))
		comes(t, "the log begins where it ends", func() bool { return offsetOf(c, tp, 0, earliest) == 2 })
		if age := time.Since(began); age < 2*time.Second {
			t.Errorf("gone after %s, want them kept for retention.ms", age)
		}
	})
	t.Run("CLN-16 both policies delete and compact", func(t *testing.T) {
		t.Parallel()
		c, tp := s.dial(t), s.createTopic(t, "both", 1, compacted("cleanup.policy", "compact,delete", "retention.ms", "3000")...)
		mustProduce(c, tp, 0, keyed("only", "the newest of its key"))
		for i := range 20 {
			mustProduce(c, tp, 0, keyed("k", fmt.Sprint(i)))
		}
		comes(t, "it is compacted", func() bool { return len(held(t, c, tp)) < 15 })
		comes(t, "it is empty", func() bool { return offsetOf(c, tp, 0, earliest) == 21 })
	})
}

func TestCompaction(t *testing.T) {
	t.Parallel()
	s := newEagerServer(t)
	t.Run("CLN-06 a quiet topic is compacted", func(t *testing.T) {
		t.Parallel()
		c, tp := s.dial(t), s.createTopic(t, "quiet", 1, "cleanup.policy", "compact", "segment.ms", "2000")
		now := time.Now().UnixMilli()
		for i := range 10 {
			var b batch
			for n := range 100 {
				b.Records = append(b.Records, rec{Key: []byte("k"), Value: fmt.Append(nil, 100*i+n), Time: now})
			}
			mustProduce(c, tp, 0, b)
		}
		mustProduce(c, tp, 0, dated(now+3000, "k", "after 3 s"))
		const left = "[999:k=999 1000:k=after 3 s]"
		comes(t, "the closed segment has one record", func() bool { return fmt.Sprint(held(t, c, tp)) == left })
	})
	t.Run("CLN-08 a tombstone stays for delete.retention.ms", func(t *testing.T) {
		t.Parallel()
		c, tp := s.dial(t), s.createTopic(t, "tombstone", 1, compacted("delete.retention.ms", "3000")...)
		mustProduce(c, tp, 0, keyed("gone", "value"))
		tombstone := mustProduce(c, tp, 0, batch{Records: []rec{{Key: []byte("gone")}}})
		n := 0
		more := func() {
			mustProduce(c, tp, 0, keyed("other", fmt.Sprint(n))) // a log without new records is left alone
			n++
		}
		var horizon int64
		comes(t, "the tombstone alone is left and has a delete horizon", func() bool {
			more()
			first := all(t, c, tp)[0]
			if first.FirstOffset != tombstone || first.Attributes&0x40 == 0 {
				return false
			}
			horizon = first.FirstTimestamp
			want(t, "value of the tombstone", string(first.Records[0].Value), "")
			return true
		})
		comes(t, "it goes", func() bool {
			more()
			return !slices.ContainsFunc(held(t, c, tp), func(r string) bool { return strings.Contains(r, ":gone=") })
		})
		if now := time.Now().UnixMilli(); now < horizon {
			t.Errorf("gone at %d, before its horizon %d", now, horizon)
		}
		for range 20 {
			more()
			if got := held(t, c, tp); slices.ContainsFunc(got, func(r string) bool { return strings.Contains(r, ":gone=") }) {
				t.Fatalf("the key is back: %v", got)
			}
		}
	})
	t.Run("CLN-12 files below the log start go under compact too", func(t *testing.T) {
		t.Parallel()
		s.needProcess(t)
		c, tp := s.dial(t), s.createTopic(t, "cut", 1, "cleanup.policy", "delete", "internal.segment.bytes", "400", "file.delete.delay.ms", "0")
		for i := range 30 {
			mustProduce(c, tp, 0, keyed(fmt.Sprint(i), "value"))
		}
		before := len(s.segments(t, tp, 0))
		deleteRecords(t, c, tp, 0, 20)
		setConfig(t, c, tp, "cleanup.policy", "compact")
		comes(t, "segments below the log start are gone", func() bool {
			names := s.segments(t, tp, 0)
			return len(names) < before && !strings.HasSuffix(names[0], "/00000000000000000000.log")
		})
		want(t, "log start", offsetOf(c, tp, 0, earliest), 20)
		want(t, "records", len(held(t, c, tp)), 10)
	})
	t.Run("CLN-15 records without keys do not stop it", func(t *testing.T) {
		t.Parallel()
		c, tp := s.dial(t), s.createTopic(t, "keyless", 1, compacted("cleanup.policy", "delete")...)
		for range 10 {
			mustProduce(c, tp, 0, one("no key"))
		}
		setConfig(t, c, tp, "cleanup.policy", "compact")
		for round := range 2 {
			for i := range 20 {
				mustProduce(c, tp, 0, keyed("k", fmt.Sprint(20*round+i)))
			}
			comes(t, "few records are left, all with keys", func() bool {
				got := held(t, c, tp)
				return len(got) < 10 && !slices.ContainsFunc(got, func(r string) bool { return strings.Contains(r, "no key") })
			})
		}
	})
}

// TestCompactedTopicEqualsAModel is CLN-07: whatever goes of a compacted topic, its last values stay, in their order and
// as they were written.
func TestCompactedTopicEqualsAModel(t *testing.T) {
	t.Parallel()
	s := newEagerServer(t)
	s.needProcess(t)
	c, tp := s.dial(t), s.createTopic(t, "table", 1, compacted("internal.segment.bytes", "4000")...)
	random := rand.New(rand.NewPCG(7, 7))
	last := map[string]int64{} // offset of the last value of each key
	written := map[int64]rec{} // by offset
	codecs := []kgo.CompressionCodecType{kgo.CodecNone, kgo.CodecGzip, kgo.CodecSnappy, kgo.CodecLz4, kgo.CodecZstd}
	for round := range 3 {
		for range 60 {
			b := batch{Codec: codecs[random.IntN(len(codecs))]}
			for range 1 + random.IntN(8) {
				b.Records = append(b.Records, rec{
					Key: fmt.Appendf(nil, "k%d", random.IntN(100)), Value: fmt.Append(nil, random.Uint64()),
					Time:    time.Now().UnixMilli() - random.Int64N(1000),
					Headers: []kmsg.Header{{Key: "h", Value: fmt.Append(nil, random.Uint32())}},
				})
			}
			base := mustProduce(c, tp, 0, b)
			for i, r := range b.Records {
				written[base+int64(i)], last[string(r.Key)] = r, base+int64(i)
			}
		}
		comes(t, "much is gone", func() bool { return len(held(t, c, tp)) < 220 })
		if round%2 == 0 {
			s.Stop(t)
		} else {
			s.Kill9(t)
		}
		s.Start(t)
		c = s.dial(t)
		found, before := map[string]int64{}, int64(-1)
		for _, b := range all(t, c, tp) {
			for _, r := range b.Records {
				w := written[r.Offset]
				if r.Offset <= before || string(r.Key) != string(w.Key) || string(r.Value) != string(w.Value) || r.Time != w.Time ||
					len(r.Headers) != 1 || string(r.Headers[0].Value) != string(w.Headers[0].Value) {
					t.Fatalf("round %d: after offset %d, %s=%s at %d of time %d with headers %v; written was %+v", round, before, r.Key, r.Value, r.Offset, r.Time, r.Headers, w)
				}
				before, found[string(r.Key)] = r.Offset, r.Offset
			}
		}
		for key, offset := range last {
			want(t, fmt.Sprintf("round %d: offset of the last value of %s", round, key), found[key], offset)
		}
		want(t, "keys", len(found), len(last))
	}
}
