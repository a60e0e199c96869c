package groups

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kaen-log/gateway/groups/runtime"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// benchFS runs a benchmark in memory and on the disk of the temporary directory.
func benchFS(b *testing.B, f func(b *testing.B, s *storage.Store, c *Coordinator)) {
	for _, place := range []string{"mem", "disk"} {
		b.Run("fs="+place, func(b *testing.B) {
			fsys, dir := vfs.FS(vfs.NewMem(vfs.MemOptions{})), "data"
			if place == "disk" {
				fsys, dir = vfs.OS(), b.TempDir()
			}
			s, err := storage.Open(dir, storage.Options{FS: fsys, Now: time.Now})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			f(b, s, New(Options{Store: s, Now: time.Now}))
		})
	}
}

// BenchmarkCommit measures commits of one offset each, by as many consumers at a time
// as are named, each of a group of its own or all of one group.
func BenchmarkCommit(b *testing.B) {
	for _, groups := range []string{"own", "one"} {
		for _, consumers := range []int{1, 100} {
			b.Run(fmt.Sprintf("group=%s/consumers=%d", groups, consumers), func(b *testing.B) {
				benchFS(b, func(b *testing.B, s *storage.Store, c *Coordinator) {
					orders, err := s.CreateTopic(storage.TopicSpec{Name: "orders", Partitions: 1000})
					if err != nil {
						b.Fatal(err)
					}
					var n atomic.Int32
					one := func(ctx context.Context, p int32) {
						group := "g"
						if groups == "own" {
							group = fmt.Sprint("g", p)
						}
						_, err := c.CommitOffsets(ctx, &CommitRequest{Group: group, Generation: -1, Retention: -1,
							Commits: []Commit{{Topic: "orders", TopicID: orders.ID(), Partition: p, Offset: 1}}})
						if err != nil {
							b.Error(err)
						}
					}
					for p := range int32(consumers) {
						one(b.Context(), p) // makes the partitions
					}
					b.ReportAllocs()
					b.SetParallelism(max(1, consumers/goruntime.GOMAXPROCS(0)))
					b.ResetTimer()
					b.RunParallel(func(pb *testing.PB) {
						p := n.Add(1) - 1
						for pb.Next() {
							one(b.Context(), p)
						}
					})
					b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
				})
			})
		}
	}
}

func BenchmarkFetchOffsets(b *testing.B) {
	s, c := open(b, vfs.NewMem(vfs.MemOptions{}))
	orders, err := s.CreateTopic(storage.TopicSpec{Name: "orders", Partitions: 100})
	if err != nil {
		b.Fatal(err)
	}
	r := &FetchRequest{Group: "g", MemberEpoch: -1}
	commits := &CommitRequest{Group: "g", Generation: -1, Retention: -1}
	for p := range int32(100) {
		commits.Commits = append(commits.Commits, Commit{Topic: "orders", TopicID: orders.ID(), Partition: p, Offset: 7})
		r.Queries = append(r.Queries, OffsetQuery{Topic: "orders", TopicID: orders.ID(), Partition: p})
	}
	if _, err := c.CommitOffsets(b.Context(), commits); err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprintf("partitions=%d", n), func(b *testing.B) {
			r := *r
			r.Queries = r.Queries[:n]
			b.ReportAllocs()
			for b.Loop() {
				if got, err := c.FetchOffsets(b.Context(), &r); err != nil || !got[0].Found {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "fetches/s")
		})
	}
}

// BenchmarkLoad reads a partition of __consumer_offsets that holds a million commits,
// of 1000 groups to 100 partitions each, ten times over.
func BenchmarkLoad(b *testing.B) {
	const commits, perBatch = 1_000_000, 100
	_, c := open(b, vfs.NewMem(vfs.MemOptions{}))
	t, err := c.EnsureTopic()
	if err != nil {
		b.Fatal(err)
	}
	log, _ := t.Partition(0)
	var last storage.Appended
	id := storage.TopicID{7}
	for i := 0; i < commits; i += perBatch {
		batch := runtime.NewBatch()
		group := fmt.Sprint("group-", i/perBatch%1000)
		for p := range int32(perBatch) {
			batch.Append(record.Record{Timestamp: start.UnixMilli(), Key: appendOffsetKey(nil, group, offsetKey{"orders", p}),
				Value: appendOffsetValue(nil, &Offset{Offset: int64(i), LeaderEpoch: 1, CommitMs: start.UnixMilli(), ExpireMs: -1, TopicID: id})})
		}
		if last, err = log.Append(batch.Bytes(), storage.AppendOptions{Origin: storage.OriginCoordinator}); err != nil {
			b.Fatal(err)
		}
	}
	if err := log.WaitDurable(b.Context(), last); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	before := inUse()
	var sh *shard
	for b.Loop() {
		sh = newShard(c.env)
		if err := sh.replay(log, func(o int64, err error) { b.Fatal(o, err) }); err != nil {
			b.Fatal(err)
		}
	}
	if len(sh.entries) != 1000 {
		b.Fatalf("%d groups, want 1000", len(sh.entries))
	}
	b.ReportMetric(commits*float64(b.N)/b.Elapsed().Seconds(), "commits/s")
	b.ReportMetric(float64(inUse()-before)/100_000, "B/offset")
	goruntime.KeepAlive(sh)
}

// BenchmarkIdleGroups measures the memory of groups with one member and one offset.
func BenchmarkIdleGroups(b *testing.B) {
	const n = 10_000
	for b.Loop() {
		s, err := storage.Open(b.TempDir(), storage.Options{FS: vfs.OS(), Now: time.Now, Durability: storage.Async})
		if err != nil {
			b.Fatal(err)
		}
		c := New(Options{Store: s, Now: time.Now})
		before := inUse()
		orders := topic(b, s, "orders")
		for i := range n {
			g := fmt.Sprint("group-", i)
			joined, err := c.JoinGroup(b.Context(), &JoinRequest{Group: g, ClientID: "consumer", ClientHost: "/127.0.0.1",
				SessionTimeout: 10 * time.Second, RebalanceTimeout: time.Minute, ProtocolType: "consumer",
				Protocols: []Protocol{{Name: "range", Metadata: make([]byte, 40)}}})
			if err != nil {
				b.Fatal(err)
			}
			_, err = c.SyncGroup(b.Context(), &SyncRequest{Group: g, Generation: joined.Generation, MemberID: joined.MemberID,
				Assignments: []Assignment{{MemberID: joined.MemberID, Bytes: make([]byte, 40)}}})
			if err != nil {
				b.Fatal(err)
			}
			commits := []Commit{{Topic: "orders", TopicID: orders.ID(), Offset: 7}}
			if _, err := c.CommitOffsets(b.Context(), &CommitRequest{Group: g, MemberID: joined.MemberID, Generation: joined.Generation, Retention: -1, Commits: commits}); err != nil {
				b.Fatal(err)
			}
		}
		log := int64(0)
		for _, w := range c.all() {
			o, _ := w.log.Offsets()
			log += o.HighWatermark
		}
		b.ReportMetric(float64(inUse()-before)/n, "B/group")
		b.ReportMetric(float64(log)/n, "records/group")
		goruntime.KeepAlive(c)
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// inUse is the memory in use.
func inUse() int64 {
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkStable measures the time until classic groups of ten members, who all come
// at once, have their assignment: the leader's sync of ten members is answered. Members
// ask every 5 ms whether there is a rebalance.
func BenchmarkStable(b *testing.B) {
	for _, groups := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			benchFS(b, func(b *testing.B, s *storage.Store, c *Coordinator) {
				ctx, stop := context.WithCancel(b.Context())
				done := make(chan error, 1)
				go func() { done <- c.Run(ctx) }()
				if _, err := c.EnsureTopic(); err != nil {
					b.Fatal(err)
				}
				for p := range c.all() { // makes the directories
					if _, err := raise(ctx, c, fmt.Sprint("warm-", p)); err != nil {
						b.Fatal(err)
					}
				}
				round := 0
				for b.Loop() {
					round++
					var wg sync.WaitGroup
					for g := range groups {
						group, stable := fmt.Sprintf("g%d-%d", round, g), make(chan struct{})
						for range 10 {
							wg.Go(func() { untilStable(b, ctx, c, group, stable) })
						}
					}
					wg.Wait()
				}
				b.ReportMetric(b.Elapsed().Seconds()*1000/float64(b.N), "ms/stable")
				stop()
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

// untilStable is a member that takes part until stable is closed, which the leader
// does.
func untilStable(b *testing.B, ctx context.Context, c *Coordinator, group string, stable chan struct{}) {
	id := ""
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		joined, err := c.JoinGroup(ctx, &JoinRequest{Group: group, MemberID: id, ClientID: "c", ClientHost: "/127.0.0.1", SessionTimeout: 10 * time.Second,
			RebalanceTimeout: time.Minute, ProtocolType: "consumer", Protocols: []Protocol{{Name: "range", Metadata: make([]byte, 20)}}})
		if err != nil {
			b.Error(err)
			return
		}
		id = joined.MemberID
		r := &SyncRequest{Group: group, Generation: joined.Generation, MemberID: id}
		for _, m := range joined.Members {
			r.Assignments = append(r.Assignments, Assignment{MemberID: m.MemberID, Bytes: make([]byte, 60)})
		}
		_, err = c.SyncGroup(ctx, r)
		if err == nil && len(joined.Members) == 10 {
			close(stable)
			return
		}
		for err == nil {
			select {
			case <-stable:
				return
			case <-tick.C:
				err = c.Heartbeat(ctx, &HeartbeatRequest{Group: group, Generation: joined.Generation, MemberID: id})
			}
		}
		if !errors.Is(err, ErrRebalanceInProgress) {
			b.Error(err)
			return
		}
	}
}
