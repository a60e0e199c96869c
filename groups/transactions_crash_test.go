package groups

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// The model of transactions does one thing after the other at random, and holds what is
// fetched against what Kafka's rules make of it, after a crash at each operation of the
// file system too. Then either what was under way has happened, or it has not.

// offsetsModel is what groups have committed and what transactions would.
type offsetsModel struct {
	log       int // how many records there are
	committed map[pendingOffset]modelOffset
	pending   map[int64]map[pendingOffset]modelOffset
}

type modelOffset struct{ record, offset int }

func (m offsetsModel) clone() offsetsModel {
	m.committed = maps.Clone(m.committed)
	pending := map[int64]map[pendingOffset]modelOffset{}
	for id, p := range m.pending {
		pending[id] = maps.Clone(p)
	}
	m.pending = pending
	return m
}

func (m *offsetsModel) set(k pendingOffset, offset int) {
	m.log++
	m.committed[k] = modelOffset{m.log, offset}
}

func (m *offsetsModel) stage(producerID int64, k pendingOffset, offset int) {
	m.log++
	if m.pending[producerID] == nil {
		m.pending[producerID] = map[pendingOffset]modelOffset{}
	}
	m.pending[producerID][k] = modelOffset{m.log, offset}
}

// end ends a transaction for the groups of one partition.
func (m *offsetsModel) end(producerID int64, commit bool, here func(group string) bool) {
	for k, o := range m.pending[producerID] {
		if !here(k.group) {
			continue
		}
		delete(m.pending[producerID], k)
		if commit && m.committed[k].record < o.record {
			m.committed[k] = o
		}
	}
}

func (m *offsetsModel) remove(matches func(pendingOffset) bool) {
	gone := func(k pendingOffset, _ modelOffset) bool { return matches(k) }
	maps.DeleteFunc(m.committed, gone)
	for _, p := range m.pending {
		maps.DeleteFunc(p, gone)
	}
}

// text is what is to be fetched.
func (m *offsetsModel) text(groups []string) string {
	var out []string
	for _, group := range groups {
		for p := range int32(modelOffsetPartitions) {
			k, offset := pendingOffset{group, offsetKey{"orders", p}}, -1
			if o, ok := m.committed[k]; ok {
				offset = o.offset
			}
			unstable := false
			for _, t := range m.pending {
				_, ok := t[k]
				unstable = unstable || ok
			}
			out = append(out, modelOffsetText(group, p, offset, unstable))
		}
	}
	return strings.Join(out, " ")
}

const modelOffsetPartitions = 2

func modelOffsetText(group string, partition int32, offset int, unstable bool) string {
	text := fmt.Sprintf("%s-%d=%d", group, partition, offset)
	if unstable {
		text += "?"
	}
	return text
}

// fetchedText is what is fetched.
func fetchedText(ctx context.Context, c *Coordinator, groups []string) (string, error) {
	var out []string
	for _, group := range groups {
		r := &FetchRequest{Group: group, MemberEpoch: -1, Stable: true}
		for p := range int32(modelOffsetPartitions) {
			r.Queries = append(r.Queries, OffsetQuery{Topic: "orders", Partition: p})
		}
		got, err := c.FetchOffsets(ctx, r)
		if err != nil {
			return "", err
		}
		for _, f := range got {
			offset := -1
			if f.Found {
				offset = int(f.Offset.Offset)
			}
			out = append(out, modelOffsetText(group, f.Partition, offset, f.Unstable))
		}
	}
	return strings.Join(out, " "), nil
}

// transactionStorm does random things to a coordinator and a model of it.
type transactionStorm struct {
	t      *testing.T
	rand   *rand.Rand
	c      *Coordinator
	orders *storage.Topic
	groups []string
	epochs map[int64]int16 // of the producers
	model  offsetsModel
	before offsetsModel // what was under way began here
	what   string       // is under way
	offset int
}

func (s *transactionStorm) begin(format string, args ...any) {
	s.what = fmt.Sprintf(format, args...)
	s.before = s.model.clone()
}

func (s *transactionStorm) partitionOf(group string) int32 {
	p, err := s.c.PartitionOf(group)
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// step is one random thing; promise is told of what it is to come to before it is begun.
func (s *transactionStorm) step(promise func()) {
	t, ctx := s.t, s.t.Context()
	group := s.groups[s.rand.IntN(len(s.groups))]
	k := pendingOffset{group, offsetKey{"orders", s.rand.Int32N(modelOffsetPartitions)}}
	ids := slices.Sorted(maps.Keys(s.epochs))
	id := ids[s.rand.IntN(len(ids))]
	p := producer{id: id, epoch: s.epochs[id]}
	s.offset++
	var do func() error
	switch n := s.rand.IntN(20); {
	case n < 5:
		s.begin("commit %d for %v", s.offset, k)
		s.model.set(k, s.offset)
		do = func() error {
			errs, err := s.c.CommitOffsets(ctx, &CommitRequest{Group: group, Generation: -1, Retention: -1,
				Commits: []Commit{{Topic: "orders", TopicID: s.orders.ID(), Partition: k.key.partition, Offset: int64(s.offset)}}})
			return errors.Join(append(errs, err)...)
		}
	case n < 12:
		s.begin("commit %d for %v by %d", s.offset, k, id)
		s.model.stage(id, k, s.offset)
		do = func() error { return p.try(ctx, s.c, group, s.orders, k.key.partition, int64(s.offset)) }
	case n < 17:
		commit, v2, partition := s.rand.IntN(3) > 0, s.rand.IntN(2) == 0, s.partitionOf(group)
		if v2 {
			p.epoch++
			s.epochs[id] = p.epoch
		}
		s.begin("end %d in %d, commit %v, v2 %v", id, partition, commit, v2)
		s.model.end(id, commit, func(g string) bool { return s.partitionOf(g) == partition })
		do = func() error {
			return s.c.EndTransaction(ctx, partition, id, p.epoch, record.Marker{Commit: commit}, v2)
		}
	case n < 19:
		s.begin("delete %v", k)
		s.model.remove(func(other pendingOffset) bool { return other == k })
		do = func() error {
			_, err := s.c.DeleteOffsets(ctx, group, []OffsetDelete{{Topic: "orders", Partition: k.key.partition}})
			return err
		}
	default:
		s.begin("delete group %s", group)
		s.model.remove(func(other pendingOffset) bool { return other.group == group })
		do = func() error { return s.c.DeleteGroup(ctx, group) }
	}
	promise()
	err := do()
	switch {
	case errors.Is(err, ErrGroupIDNotFound) && s.model.text(s.groups) == s.before.text(s.groups):
		// There was nothing to delete.
	case err != nil:
		t.Fatalf("%s: %v", s.what, err)
	}
	got, err := fetchedText(ctx, s.c, s.groups)
	if want := s.model.text(s.groups); err != nil || got != want {
		t.Fatalf("%s: got %s, error %v; want %s", s.what, got, err, want)
	}
}

func TestModelOfTransactionsOverCrashes(t *testing.T) {
	seeds := []uint64{*modelSeed}
	if *modelSeed == 0 {
		seeds = []uint64{1, 2, 3, 4, 5, 6, 7, 8}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("repeat with: go test ./groups -run TestModelOfTransactionsOverCrashes -model.seed %d", seed)
				}
			}()
			runTransactionStorm(t, seed)
		})
	}
}

type transactionPromise struct {
	what          string
	before, after offsetsModel
	epochs        map[int64]int16
}

func runTransactionStorm(t *testing.T, seed uint64) {
	crashes, fsys := newCrashes(seed, transactionPromise{})
	writes := vfs.Inject(fsys, func(op vfs.Op) error {
		switch op.Kind {
		case vfs.OpWriteAt, vfs.OpCreate, vfs.OpMkdirAll, vfs.OpRename, vfs.OpRemove, vfs.OpTruncate:
			crashes.take(fmt.Sprint("before ", op.Kind, " of ", op.Name))
		}
		return nil
	})
	store, c := open(t, writes)
	c.o.Verify = (&asker{}).verify
	s := &transactionStorm{
		t: t, rand: rand.New(rand.NewPCG(seed, 5)), c: c, orders: topic(t, store, "orders"),
		groups: sameShard(2), epochs: map[int64]int16{7: 0, 8: 3, 9: 0},
		model: offsetsModel{committed: map[pendingOffset]modelOffset{}, pending: map[int64]map[pendingOffset]modelOffset{}},
	}
	for i := 0; len(s.groups) < 3; i++ { // and one in another shard
		if g := fmt.Sprint("far", i); s.partitionOf(g) != s.partitionOf(s.groups[0]) {
			s.groups = append(s.groups, g)
		}
	}
	crashes.after = nil
	for range 40 {
		s.step(func() {
			crashes.mu.Lock()
			crashes.promised = transactionPromise{s.what, s.before, s.model.clone(), maps.Clone(s.epochs)}
			crashes.mu.Unlock()
		})
		crashes.promise(transactionPromise{"after " + s.what, s.model.clone(), s.model.clone(), maps.Clone(s.epochs)})
	}
	if len(crashes.after) < 200 {
		t.Fatalf("took %d crashes, want more", len(crashes.after))
	}
	for _, after := range crashes.after {
		checkTransactionCrash(t, after, s.groups)
	}
}

// checkTransactionCrash reads what a crash has left, and ends what transactions it finds.
func checkTransactionCrash(t *testing.T, after crash[transactionPromise], groups []string) {
	t.Helper()
	p := after.promised
	store, c := open(t, after.fs)
	got, err := fetchedText(t.Context(), c, groups)
	wants := []offsetsModel{p.before.clone(), p.after.clone()}
	wants = slices.DeleteFunc(wants, func(m offsetsModel) bool { return m.text(groups) != got })
	if err != nil || len(wants) == 0 {
		t.Fatalf("%s, %s: got %s, error %v; want %s or %s", p.what, after.what, got, err, p.before.text(groups), p.after.text(groups))
	}
	partitions := map[int32]bool{}
	for _, g := range groups {
		partition, err := c.PartitionOf(g)
		if err != nil {
			t.Fatal(err)
		}
		partitions[partition] = true
	}
	for _, id := range slices.Sorted(maps.Keys(p.epochs)) {
		for partition := range partitions {
			if err := c.EndTransaction(t.Context(), partition, id, p.epochs[id]+1, record.Marker{Commit: id != 8}, true); err != nil {
				t.Fatalf("%s, %s: end of %d: %v", p.what, after.what, id, err)
			}
		}
		for i := range wants {
			wants[i].end(id, id != 8, func(string) bool { return true })
		}
	}
	got, err = fetchedText(t.Context(), c, groups)
	if err != nil || !slices.ContainsFunc(wants, func(m offsetsModel) bool { return m.text(groups) == got }) {
		t.Fatalf("%s, %s, ended: got %s, error %v; want %s", p.what, after.what, got, err, wants[0].text(groups))
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}
