package compat_test

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kafkaDir writes a data directory as a Kafka broker leaves it after a crash: one
// topic with one partition, made of the given segment files.
func kafkaDir(t testing.TB, tp topic, segments map[int64][]byte) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	partition := filepath.Join(dir, tp.Name+"-0")
	if err := os.MkdirAll(partition, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(dir, "meta.properties"), "#\n#Sun Nov 29 23:04:10 UTC 2026\ncluster.id=Uk5MZVhBQUFBQUFBQUFBQQ\ndirectory.id=xkubfHxnJa6r2wjYbQ8hMg\nnode.id=1\nversion=1\n")
	write(filepath.Join(partition, "partition.metadata"), "version: 0\ntopic_id: "+base64.RawURLEncoding.EncodeToString(tp.ID[:]))
	write(filepath.Join(partition, "leader-epoch-checkpoint"), "0\n1\n0 0\n")
	for base, content := range segments {
		write(filepath.Join(partition, fmt.Sprintf("%020d.log", base)), string(content))
	}
	return dir
}

// marker is a control batch that ends a transaction.
func marker(pid int64, base int64, commit bool) batch {
	key := []byte{0, 0, 0, 0} // version, then 0 abort, 1 commit
	if commit {
		key[3] = 1
	}
	value := binary.BigEndian.AppendUint32([]byte{0, 0}, 0) // version, coordinator epoch
	b := batch{Records: []rec{{Key: key, Value: value}}, Attributes: bitControl | bitTransactional, Base: base}
	return b.idempotent(pid, 0, -1)
}

// step is one thing that happened in a partition.
type step struct {
	tx     string // the transaction's name; "" for a plain write
	do     action
	values []string
	time   int64 // of the records; 0 means now
}

type action int

const (
	write action = iota
	commitTxn
	abortTxn
)

// newServerWithHistory returns a broker with a partition in which the steps
// happened. Ours adopts a log that holds them; an external one is taken through
// them by a transactional client, which then ends open transactions too.
func newServerWithHistory(t testing.TB, name string, steps ...step) (*server, topic) {
	t.Helper()
	if os.Getenv(addrVariable) != "" {
		s := newServer(t)
		tp := s.createTopic(t, name, 1)
		s.replay(t, tp, steps)
		return s, tp
	}
	tp := topic{Name: fresh(name), ID: [16]byte{1, 2, 3, 4, 5, 6, 0x47, 8, 0x89, 10, 11, 12, 13, 14, 15, 16}}
	var log []byte
	pids, sequences := map[string]int64{}, map[string]int32{}
	next := int64(0)
	for _, st := range steps {
		if st.tx != "" && pids[st.tx] == 0 {
			pids[st.tx] = 1000 + int64(len(pids))
		}
		b := one(st.values...)
		for i := range b.Records {
			b.Records[i].Time = st.time
		}
		switch {
		case st.do != write:
			b = marker(pids[st.tx], next, st.do == commitTxn)
		case st.tx != "":
			b = b.idempotent(pids[st.tx], 0, sequences[st.tx])
			b.Attributes |= bitTransactional
			sequences[st.tx] += int32(len(st.values))
		}
		b.Base = next
		next += int64(len(b.Records))
		log = append(log, b.bytes(t)...)
	}
	return newServerIn(t, kafkaDir(t, tp, map[int64][]byte{0: log})), tp
}

// replay takes an external broker through the steps.
func (s *server) replay(t testing.TB, tp topic, steps []step) {
	t.Helper()
	ctx := within(t)
	clients := map[string]*kgo.Client{}
	open := map[string]bool{}
	c := s.dial(t)
	end := int64(0)
	for _, st := range steps {
		cl := clients[st.tx]
		if cl == nil {
			opts := []kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner())}
			if st.tx != "" {
				opts = append(opts, kgo.TransactionalID(fresh(st.tx)))
			}
			cl = s.client(t, opts...)
			clients[st.tx] = cl
		}
		if st.do != write {
			if err := cl.EndTransaction(ctx, kgo.TransactionEndTry(st.do == commitTxn)); err != nil {
				t.Fatalf("end transaction %s: %v", st.tx, err)
			}
			open[st.tx] = false
			end++
			s.await(t, "the marker is there", func() bool { return offsetOf(c, tp, 0, latest) == end })
			continue
		}
		if st.tx != "" && !open[st.tx] {
			if err := cl.BeginTransaction(); err != nil {
				t.Fatalf("begin transaction %s: %v", st.tx, err)
			}
			open[st.tx] = true
		}
		var rs []*kgo.Record
		for _, v := range st.values {
			r := &kgo.Record{Topic: tp.Name, Value: []byte(v)}
			if st.time != 0 {
				r.Timestamp = time.UnixMilli(st.time)
			}
			rs = append(rs, r)
		}
		if err := cl.ProduceSync(ctx, rs...).FirstErr(); err != nil {
			t.Fatalf("produce in transaction %q: %v", st.tx, err)
		}
		end += int64(len(rs))
	}
}

// readAt fetches with an isolation level.
func readAt(c *conn, v int16, tp topic, offset int64, isolation int8) fetched {
	c.t.Helper()
	req := fetchRequest(tp, 0, offset)
	req.IsolationLevel = isolation
	got := fetchOne(c, v, req)
	wantCode(c.t, "fetch", got.ErrorCode, noError)
	return got
}

// offsetsOf is the offsets of all records in fetched bytes.
func offsetsOf(t testing.TB, got fetched) []int64 {
	t.Helper()
	offsets := []int64{}
	for _, b := range batches(t, got.RecordBatches) {
		for _, r := range b.Records {
			offsets = append(offsets, r.Offset)
		}
	}
	return offsets
}

func wantOffsets(t testing.TB, what string, got fetched, want ...int64) {
	t.Helper()
	if o := offsetsOf(t, got); !slices.Equal(o, want) {
		t.Fatalf("%s: got offsets %v, want %v", what, o, want)
	}
}

func TestTransactionalHistory(t *testing.T) {
	t.Parallel()
	t.Run("an open transaction", func(t *testing.T) {
		s, tp := newServerWithHistory(t, "open",
			step{tx: "a", values: []string{"a0", "a1"}}, step{tx: "a", do: commitTxn},
			step{tx: "b", values: []string{"b3"}}, step{values: []string{"plain"}})

		at(t, "FETCH-15 read_committed stops at the last stable offset", versions(4, 12, 18), func(t *testing.T, v int16) {
			c := s.dial(t)
			got := readAt(c, v, tp, 0, 1)
			wantOffsets(t, "from 0", got, 0, 1, 2)
			want(t, "last stable offset", got.LastStableOffset, 3)
			want(t, "high watermark", got.HighWatermark, 5)
			want(t, "aborted transactions", len(got.AbortedTransactions), 0)
			got = readAt(c, v, tp, 3, 1)
			empty(t, got)
			want(t, "last stable offset", got.LastStableOffset, 3)
			got = readAt(c, v, tp, 4, 1)
			empty(t, got)
			got = readAt(c, v, tp, 0, 0)
			wantOffsets(t, "read_uncommitted from 0", got, 0, 1, 2, 3, 4)
			want(t, "last stable offset", got.LastStableOffset, 3)
		})

		at(t, "LOFF-01 latest by isolation", versions(2, 4, 11), func(t *testing.T, v int16) {
			c := s.dial(t)
			want(t, "read_uncommitted", listOffset(c, v, tp, 0, latest, 0).Offset, 5)
			want(t, "read_committed", listOffset(c, v, tp, 0, latest, 1).Offset, 3)
			want(t, "earliest", listOffset(c, v, tp, 0, earliest, 1).Offset, 0)
			want(t, "timestamp", listOffset(c, v, tp, 0, latest, 1).Timestamp, -1)
		})
	})

	at(t, "LOFF-10 read_committed lookup never points past the LSO", versions(2, 4, 11), func(t *testing.T, v int16) {
		s, tp := newServerWithHistory(t, "loff-10",
			step{values: []string{"0", "1", "2"}, time: 50}, step{tx: "b", values: []string{"b3"}, time: 100}, step{values: []string{"plain"}, time: 200})
		c := s.dial(t)
		wantListed(t, v, "read_committed", listOffset(c, v, tp, 0, 100, 1), -1, -1, -1)
		wantListed(t, v, "read_uncommitted", listOffset(c, v, tp, 0, 100, 0), 3, 100, 0)
		wantListed(t, v, "below the LSO", listOffset(c, v, tp, 0, 50, 1), 0, 50, 0)
	})

	t.Run("FETCH-14 read_uncommitted shows aborted and open data", func(t *testing.T) {
		s, tp := newServerWithHistory(t, "aborted", step{tx: "a", values: []string{"a0"}}, step{tx: "a", do: abortTxn})
		for _, v := range versions(4, 12, 18) {
			c := s.dial(t)
			got := readAt(c, v, tp, 0, 0)
			wantOffsets(t, "read_uncommitted", got, 0, 1)
			if got.AbortedTransactions != nil {
				t.Errorf("v%d: aborted transactions are %+v, want null", v, got.AbortedTransactions)
			}
			want(t, "last stable offset", got.LastStableOffset, 2)
			got = readAt(c, v, tp, 0, 1)
			wantOffsets(t, "read_committed sends it too", got, 0, 1)
			pid := batches(t, got.RecordBatches)[0].ProducerID
			if a := got.AbortedTransactions; len(a) != 1 || a[0].FirstOffset != 0 || a[0].ProducerID != pid {
				t.Errorf("v%d: aborted transactions are %+v, want producer %d from 0", v, a, pid)
			}
		}
	})

	t.Run("FETCH-20 two transactions of one producer, commit after abort", func(t *testing.T) {
		s, tp := newServerWithHistory(t, "three",
			step{tx: "p", values: []string{"1a", "1b"}}, step{tx: "p", do: abortTxn},
			step{tx: "p", values: []string{"2a", "2b"}}, step{tx: "p", do: commitTxn},
			step{tx: "p", values: []string{"3a"}}, step{tx: "p", do: abortTxn})
		cl := s.client(t, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{tp.Name: {0: kgo.NewOffset().AtStart()}}))
		ctx := within(t)
		var got []string
		for last := int64(-1); last < 7; { // the abort marker of the third is at 7
			fs := cl.PollFetches(ctx)
			if err := fs.Err(); err != nil {
				t.Fatalf("poll with %q read: %v", got, err)
			}
			fs.EachRecord(func(r *kgo.Record) {
				if last = r.Offset; !r.Attrs.IsControl() {
					got = append(got, string(r.Value))
				}
			})
		}
		if !slices.Equal(got, []string{"2a", "2b"}) {
			t.Errorf("read_committed delivers %q, want 2a and 2b", got)
		}
		wantEnd(s.dial(t), tp, 0, 8)
	})
}

func TestCompactedHistory(t *testing.T) {
	t.Parallel()
	tp := topic{Name: "gaps", ID: [16]byte{7, 7, 7, 7, 7, 7, 0x47, 8, 0x89, 10, 11, 12, 13, 14, 15, 16}}
	at1 := func(base int64, deltas []int32, last int32, values ...string) []byte {
		b := one(values...)
		b.Base, b.Deltas, b.LastDelta = base, deltas, &last
		return b.bytes(t)
	}
	first := slices.Concat(
		at1(0, []int32{0, 2}, 3, "0", "2"), // 1 and 3 are gone from the batch
		// 4 to 6 are gone
		at1(7, []int32{0, 1}, 1, "7", "8"),
		at1(9, nil, 2), // an empty batch that keeps 9 to 11
		// 12 to 19, the end of the segment and the next one, are gone
	)
	second := at1(22, []int32{0}, 0, "22") // 20 and 21 are gone
	dir := kafkaDir(t, tp, map[int64][]byte{0: first, 20: second})
	s := newServerIn(t, dir)

	at(t, "FETCH-04 fetch from an offset removed by compaction", versions(4, 12, 18), func(t *testing.T, v int16) {
		c := s.dial(t)
		for offset, wanted := range map[int64]int64{0: 0, 1: 0, 3: 0, 4: 7, 5: 7, 6: 7, 8: 7, 9: 9, 11: 9, 12: 22, 15: 22, 19: 22, 20: 22, 21: 22, 22: 22} {
			got := fetchOne(c, v, fetchRequest(tp, 0, offset))
			wantCode(t, fmt.Sprint("offset ", offset), got.ErrorCode, noError)
			bs := batches(t, got.RecordBatches)
			if len(bs) == 0 {
				t.Fatalf("offset %d: nothing, want the batch at %d", offset, wanted)
			}
			want(t, fmt.Sprint("batch for offset ", offset), bs[0].FirstOffset, wanted)
		}
		wantCode(t, "offset 24", fetchOne(c, v, fetchRequest(tp, 0, 24)).ErrorCode, offsetOutOfRange)
	})

	t.Run("FETCH-04 a consumer from 0 reaches the end", func(t *testing.T) {
		cl := s.client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{tp.Name: {0: kgo.NewOffset().AtStart()}}))
		ctx := within(t)
		var got []int64
		for len(got) == 0 || got[len(got)-1] != 22 {
			fs := cl.PollFetches(ctx)
			if err := fs.Err(); err != nil {
				t.Fatalf("poll with %v read: %v", got, err)
			}
			fs.EachRecord(func(r *kgo.Record) { got = append(got, r.Offset) })
		}
		if !slices.Equal(got, []int64{0, 2, 7, 8, 22}) {
			t.Errorf("consumed %v", got)
		}
	})

	t.Run("nothing of an adopted partition changes before its first append", func(t *testing.T) {
		read := func(base int64) string {
			b, err := os.ReadFile(filepath.Join(dir, "gaps-0", fmt.Sprintf("%020d.log", base)))
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		if read(0) != string(first) || read(20) != string(second) {
			t.Error("a segment has other bytes")
		}
		c := s.dial(t)
		want(t, "next offset", mustProduce(c, tp, 0, one("23")), 23)
		s.Restart(t, killed)
		if got := values(s.dial(t), tp, 0, 22); !slices.Equal(got, []string{"22", "23"}) {
			t.Errorf("after a restart: %q", got)
		}
	})
}

// ids of topics are what partition.metadata says.
func TestAdoptedTopicKeepsItsID(t *testing.T) {
	t.Parallel()
	s, tp := newServerWithHistory(t, "adopted", step{values: []string{"x"}})
	res := ask[*kmsg.MetadataResponse](s.dial(t), 12, metadataRequest(tp.Name))
	want(t, "topic id", res.Topics[0].TopicID, tp.ID)
}
