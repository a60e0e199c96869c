package compat_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

// exactlyOnce is a group that copies a topic, each member in transactions that hold the copies and the offsets of what was
// copied, and a reader of committed records behind it: whatever happens, it sees each record once.
type exactlyOnce struct {
	name string
	opts []kgo.Opt

	s            *server
	source, copy string
	moved        chan<- struct{} // gets a token, when it has room for one, as the end sees new records
	ended        sync.WaitGroup

	mu     sync.Mutex
	seen   map[int]bool   // by number; guarded by mu
	faults []error        // guarded by mu
	met    map[string]int // what ended members' lives, or their transactions; guarded by mu
}

// start runs the members and the reader until ctx ends. Each member is replaced by another after some records.
func (e *exactlyOnce) start(ctx context.Context) {
	group := fresh("exactly-once-" + e.name)
	for slot := range etlMembers {
		e.ended.Go(func() {
			for ctx.Err() == nil {
				e.meet(e.live(ctx, group, fmt.Sprintf("%s-%d", group, slot)))
			}
		})
	}
	e.ended.Go(func() { e.read(ctx) })
}

// live is one member's life. What it dies of does not matter: a transaction that did not commit leaves nothing.
func (e *exactlyOnce) live(ctx context.Context, group, id string) error {
	session, err := kgo.NewGroupTransactSession(append([]kgo.Opt{
		kgo.SeedBrokers(e.s.Addr), kgo.AlwaysRetryEOF(), kgo.TransactionalID(id), kgo.ConsumerGroup(group), kgo.ConsumeTopics(e.source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.HeartbeatInterval(200 * time.Millisecond), kgo.SessionTimeout(10 * time.Second), kgo.RebalanceTimeout(10 * time.Second),
		kgo.MetadataMinAge(100 * time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
	}, e.opts...)...)
	if err != nil {
		return err
	}
	defer session.Close()
	for left := 100 + rand.IntN(400); left > 0; {
		fs := session.PollRecords(ctx, 25)
		if ctx.Err() != nil {
			return nil
		}
		for _, fe := range fs.Errors() {
			e.meet(fe.Err)
		}
		if fs.NumRecords() == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			return err
		}
		fs.EachRecord(func(r *kgo.Record) {
			left--
			session.Produce(ctx, &kgo.Record{Topic: e.copy, Key: r.Key, Value: r.Value}, nil)
		})
		switch committed, err := session.End(ctx, rand.IntN(10) > 0); {
		case err != nil:
			return err
		case !committed:
			e.note("aborted")
		}
	}
	return nil
}

// read sees what is committed of the copy.
func (e *exactlyOnce) read(ctx context.Context) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(e.s.Addr), kgo.AlwaysRetryEOF(), kgo.ConsumeTopics(e.copy), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		e.fail(err)
		return
	}
	defer cl.Close()
	for ctx.Err() == nil {
		fs := cl.PollFetches(ctx)
		e.mu.Lock()
		fs.EachRecord(func(r *kgo.Record) {
			n, err := strconv.Atoi(string(r.Value))
			switch {
			case err != nil:
				e.faults = append(e.faults, fmt.Errorf("%s: %s-%d at offset %d holds %q, want a number", e.name, r.Topic, r.Partition, r.Offset, r.Value))
			case e.seen[n]:
				e.faults = append(e.faults, fmt.Errorf("%s: %s-%d has %d at offset %d once more", e.name, r.Topic, r.Partition, n, r.Offset))
			}
			e.seen[n] = true
		})
		e.mu.Unlock()
		e.tell()
	}
}

// tell has those who wait look again.
func (e *exactlyOnce) tell() {
	select {
	case e.moved <- struct{}{}:
	default:
	}
}

func (e *exactlyOnce) fail(err error) {
	e.mu.Lock()
	e.faults = append(e.faults, err)
	e.mu.Unlock()
	e.tell()
}

func (e *exactlyOnce) meet(err error) {
	if err != nil {
		e.note(err.Error())
	}
}

func (e *exactlyOnce) note(what string) {
	e.mu.Lock()
	e.met[what]++
	e.mu.Unlock()
}

// TestExactlyOnceOverKills runs groups that copy in transactions, of every kind that franz-go has, while the gateway is
// killed and started again.
func TestExactlyOnceOverKills(t *testing.T) {
	t.Parallel()
	s := newServer(t, append([]string{"-c", "group.consumer.session.timeout.ms=3000", "-c", "group.consumer.min.session.timeout.ms=3000"}, quickHeartbeats...)...)
	s.needProcess(t)
	const partitions, perRound = 4, 200
	source := s.createTopic(t, "once-source", partitions)
	moved := make(chan struct{}, 1)
	chains := []*exactlyOnce{
		// Not a cooperative balancer: a member that was expelled meanwhile goes on from its own positions there.
		{name: "transaction version 2", opts: []kgo.Opt{kgo.Balancers(kgo.RoundRobinBalancer())}},
		{name: "transaction version 1", opts: []kgo.Opt{kgo.Balancers(kgo.RangeBalancer()), kgo.MaxVersions(kversion.V3_9_0())}},
		{name: "consumer group", opts: []kgo.Opt{nextProtocol()}},
	}
	ctx, stop := context.WithCancel(context.Background())
	defer func() {
		stop()
		for _, e := range chains {
			e.ended.Wait()
		}
	}()
	for _, e := range chains {
		e.s, e.source, e.copy, e.moved = s, source.Name, s.createTopic(t, "once-copy", partitions).Name, moved
		e.seen, e.met = map[int]bool{}, map[string]int{}
		e.start(ctx)
	}

	// until waits until as many chains as said have seen so many records.
	until := func(limit time.Duration, chainsDone, records int) {
		t.Helper()
		deadline, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		for {
			n, state := 0, map[string]int{}
			for _, e := range chains {
				e.mu.Lock()
				state[e.name] = len(e.seen)
				for _, err := range e.faults {
					t.Error(err)
				}
				e.mu.Unlock()
				if state[e.name] >= records {
					n++
				}
			}
			if t.Failed() {
				t.FailNow()
			}
			if n >= chainsDone {
				return
			}
			select {
			case <-moved:
			case <-deadline.Done():
				for _, e := range chains {
					e.mu.Lock()
					t.Logf("%s met %v", e.name, e.met)
					e.mu.Unlock()
				}
				t.Fatalf("want %d chains at %d records, got %v after %s", chainsDone, records, state, limit)
			}
		}
	}

	producer := s.client(t, append([]kgo.Opt{kgo.DefaultProduceTopic(source.Name)}, impatient...)...)
	sent := 0
	for round := range *rounds {
		for range perRound {
			producer.Produce(ctx, kgo.StringRecord(strconv.Itoa(sent)), nil)
			sent++
		}
		// Most kills come as soon as one chain is on its way: whatever the others are at. Now and then all catch up.
		if round%4 == 3 {
			until(3*waitLimit, len(chains), sent)
		} else {
			until(3*waitLimit, 1, sent-rand.IntN(perRound))
		}
		s.Restart(t, killed)
	}
	if err := producer.Flush(within(t)); err != nil {
		t.Fatalf("flush: %v", err)
	}
	until(4*waitLimit, len(chains), sent)
	for _, e := range chains {
		e.mu.Lock()
		t.Logf("%s: %d records once, met %v", e.name, len(e.seen), maps.Clone(e.met))
		e.mu.Unlock()
	}
}
