package groups

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kaen-log/gateway/groups/runtime"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// FuzzReplayRecord reads records that anybody may have written to __consumer_offsets,
// and lets the groups that they make load, be listed and be removed.
func FuzzReplayRecord(f *testing.F) {
	o := Offset{Offset: 3, LeaderEpoch: 1, Metadata: "m", CommitMs: 4, ExpireMs: -1}
	f.Add(appendOffsetKey(nil, "g", offsetKey{"t", 1}), appendOffsetValue(nil, &o), classicKey("g"), []byte{0, 3, 0, 0})
	f.Add([]byte{0, 3, 0, 1, 'g'}, []byte{0, 0, 0, 0, 0, 1, 0}, []byte{0, 5, 0, 1, 'g', 0, 1, 'm'}, []byte{0, 0})
	f.Add([]byte{0, 2}, []byte{}, []byte{0, 99}, []byte{1})
	_, c := open(f, vfs.NewMem(vfs.MemOptions{}))
	f.Fuzz(func(t *testing.T, key1, value1, key2, value2 []byte) {
		s := newShard(c.env)
		replay := func(key, value []byte) {
			r := record.Record{Key: key, Value: value}
			b := runtime.NewBatch()
			b.Append(r)
			_ = s.replayRecord(b.Bytes(), r)
		}
		replay(key1, value1)
		replay(key2, value2)
		for id, e := range s.entries {
			if e.id != id || e.known() == nil {
				t.Fatalf("%q: entry %+v, want one that is known by its name", id, e)
			}
			if e.machine != nil {
				e.machine.loaded(start)
				e.machine.next()
			}
			if l, ok := e.listed(); !ok || l.ID != id {
				t.Errorf("%q: listed as %+v, %v", id, l, ok)
			}
		}
		replay(key1, nil)
		replay(key2, nil)

		// The same in a transaction, which ends, leaves nothing pending.
		for _, commit := range []bool{false, true} {
			s := newShard(c.env)
			for _, r := range []record.Record{{Key: key1, Value: value1}, {Key: key2, Value: value2}} {
				b := runtime.NewTransactionalBatch(9, 0)
				b.Append(r)
				_ = s.replayRecord(b.Bytes(), r)
			}
			s.end(9, commit)
			if len(s.transactions) != 0 {
				t.Errorf("transactions: got %v, want none", s.transactions)
			}
			for id, e := range s.entries {
				if len(e.unstable) != 0 || e.known() == nil {
					t.Errorf("%q: entry %+v, want one that is known and stable", id, e)
				}
			}
		}
	})
}

// A partition whose disk does not answer keeps neither the groups of others nor their
// deadlines waiting.
func TestGroupsAreServedWhileAnotherPartitionLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem(vfs.MemOptions{})
		store, c := coordinator(t, mem, Config{})
		var groups [3]string // one in each shard
		for i := 0; groups[0] == "" || groups[1] == "" || groups[2] == ""; i++ {
			g := fmt.Sprint("g", i)
			groups[runtime.PartitionFor(g, 3)] = g
		}
		for _, g := range groups {
			r := &ConsumerHeartbeatRequest{Group: g, MemberID: "m", Topics: []string{"orders"}, Owned: []TopicPartitions{}, RebalanceTimeoutMs: 1000}
			if _, err := c.ConsumerGroupHeartbeat(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}

		gate := make(chan struct{})
		fsys := vfs.Inject(mem, func(op vfs.Op) error {
			if op.Kind == vfs.OpReadAt && strings.Contains(op.Name, OffsetsTopic+"-0/") && strings.HasSuffix(op.Name, ".log") {
				<-gate
			}
			return nil
		})
		store, err := storage.Open("data", storage.Options{FS: fsys, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		c = New(Options{Store: store, Now: time.Now})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		synctest.Wait()
		want := func(members ...int) {
			t.Helper()
			for i, g := range groups {
				d, err := c.ConsumerGroupDescribe(g)
				switch {
				case members[i] < 0 && !errors.Is(err, ErrLoading):
					t.Errorf("shard %d: %+v, %v, want %v", i, d, err, ErrLoading)
				case members[i] >= 0 && (err != nil || len(d.Members) != members[i]):
					t.Errorf("shard %d: %d members, %v, want %d", i, len(d.Members), err, members[i])
				}
			}
		}
		want(-1, 1, 1)
		session := DefaultGroupConfig().ConsumerSessionTimeout
		pass(session)
		want(-1, 0, 0)
		close(gate)
		synctest.Wait()
		want(1, 0, 0)
		pass(session)
		want(0, 0, 0)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
