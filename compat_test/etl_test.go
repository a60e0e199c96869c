package compat_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// etl is a chain of two groups: the first copies a topic, the second reads the copy.
// A member commits what it has passed on, and no more: whatever happens, each record
// is read at least once at the chain's end.
type etl struct {
	name   string
	static bool
	opts   []kgo.Opt
	// forgives are the refusals that a member of this kind may meet on the way.
	forgives []*kerr.Error

	s            *server
	source, copy string
	moved        chan<- struct{} // gets a token, when it has room for one, as the end sees new records
	ended        sync.WaitGroup

	mu     sync.Mutex
	seen   map[int]int    // by number, how often the end has seen it; guarded by mu
	faults []error        // guarded by mu
	met    map[string]int // what was forgiven, by name; guarded by mu
}

// etlMembers is how many members each group of a chain has.
const etlMembers = 2

// start runs the members of both groups until ctx ends. Each is replaced by another
// after some records, of which it does not commit the last.
func (e *etl) start(ctx context.Context) {
	for stage, from := range []string{e.source, e.copy} {
		group := fresh("etl-" + e.name)
		for slot := range etlMembers {
			e.ended.Go(func() {
				for ctx.Err() == nil {
					opts := append([]kgo.Opt{kgo.ConsumerGroup(group), kgo.ConsumeTopics(from)}, e.opts...)
					if e.static {
						opts = append(opts, kgo.InstanceID(fmt.Sprintf("%s-%d", group, slot)))
					}
					if err := e.live(ctx, stage, opts); err != nil {
						e.fail(fmt.Errorf("%s, stage %d, member %d: %w", e.name, stage, slot, err))
						return
					}
				}
			})
		}
	}
}

// live is one member's life.
func (e *etl) live(ctx context.Context, stage int, opts []kgo.Opt) error {
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(e.s.Addr), kgo.AlwaysRetryEOF(), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(200 * time.Millisecond),
		kgo.SessionTimeout(10 * time.Second), kgo.RebalanceTimeout(10 * time.Second), kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
	}, opts...)...)
	if err != nil {
		return err
	}
	defer cl.CloseAllowingRebalance()
	for left := 100 + rand.IntN(400); ; {
		fs := cl.PollRecords(ctx, 25)
		if ctx.Err() != nil {
			return nil
		}
		for _, fe := range fs.Errors() {
			if err := e.forgive(fe.Err); err != nil {
				return fmt.Errorf("poll of %s-%d: %w", fe.Topic, fe.Partition, err)
			}
		}
		records := fs.Records()
		if err := e.pass(ctx, cl, stage, records); err != nil {
			return err
		}
		if left -= len(records); left <= 0 {
			return nil // the next owner sees these again
		}
		// A commit that does not arrive, or comes too late for a rebalance, only has records seen again.
		_ = cl.CommitRecords(ctx, records...)
		cl.AllowRebalance()
	}
}

// pass does what a stage does with its records, and returns when that is done.
func (e *etl) pass(ctx context.Context, cl *kgo.Client, stage int, records []*kgo.Record) error {
	if len(records) == 0 {
		return nil
	}
	if stage == 0 {
		copies := make([]*kgo.Record, len(records))
		for i, r := range records {
			copies[i] = &kgo.Record{Topic: e.copy, Key: r.Key, Value: r.Value}
		}
		if err := cl.ProduceSync(ctx, copies...).FirstErr(); err != nil && ctx.Err() == nil {
			return fmt.Errorf("copy %d records: %w", len(records), err)
		}
		return nil
	}
	e.mu.Lock()
	for _, r := range records {
		n, err := strconv.Atoi(string(r.Value))
		if err != nil {
			e.faults = append(e.faults, fmt.Errorf("%s: %s-%d at offset %d holds %q, want a number", e.name, r.Topic, r.Partition, r.Offset, r.Value))
			continue
		}
		e.seen[n]++
	}
	e.mu.Unlock()
	e.tell()
	return nil
}

// tell has those who wait look again.
func (e *etl) tell() {
	select {
	case e.moved <- struct{}{}:
	default:
	}
}

func (e *etl) fail(err error) {
	e.mu.Lock()
	e.faults = append(e.faults, err)
	e.mu.Unlock()
	e.tell()
}

// forgive returns err unless members of this kind may meet it. Every kind may find the
// gateway gone, for longer than the client tries again in silence.
func (e *etl) forgive(err error) error {
	met := "no gateway"
	var refused *kerr.Error
	if errors.As(err, &refused) {
		if !slices.Contains(e.forgives, refused) {
			return err
		}
		met = refused.Message
	} else if session := (*kgo.ErrGroupSession)(nil); !errors.As(err, &session) {
		return err
	}
	e.mu.Lock()
	e.met[met]++
	e.mu.Unlock()
	return nil
}

// TestETLOverKills runs chains of groups whose members come and go, of every kind of
// group that franz-go has, while the gateway is killed and started again.
func TestETLOverKills(t *testing.T) {
	t.Parallel()
	// The shortest session: see the static members of the consumer protocol below.
	s := newServer(t, append([]string{"-c", "group.consumer.session.timeout.ms=3000", "-c", "group.consumer.min.session.timeout.ms=3000"}, quickHeartbeats...)...)
	s.needProcess(t)
	const partitions, perRound = 4, 200
	source := s.createTopic(t, "etl-source", partitions)
	moved := make(chan struct{}, 1)
	// A generation and its members are written when the leader has assigned, so a coordinator that went before that knows
	// neither: who syncs is told so, as by Kafka (ClassicGroup, validateSyncGroup), franz-go tells its user and joins again.
	unwritten := []*kerr.Error{kerr.IllegalGeneration, kerr.UnknownMemberID}
	chains := []*etl{
		{name: "eager", opts: []kgo.Opt{kgo.Balancers(kgo.RangeBalancer())}, forgives: unwritten},
		{name: "cooperative", opts: []kgo.Opt{kgo.Balancers(kgo.CooperativeStickyBalancer())}, forgives: unwritten},
		{name: "cooperative-static", static: true, opts: []kgo.Opt{kgo.Balancers(kgo.CooperativeStickyBalancer())}, forgives: unwritten},
		{name: "next", opts: []kgo.Opt{nextProtocol()}},
		// When the answer to a static member's join is lost, Kafka takes the same join again for another's until the
		// session of the first ends (GroupMetadataManager.throwIfInstanceIdIsUnreleased looks at the epoch, not at
		// the member id), and franz-go tells its user.
		{name: "next-static", static: true, opts: []kgo.Opt{nextProtocol()}, forgives: []*kerr.Error{kerr.UnreleasedInstanceID}},
	}
	ctx, stop := context.WithCancel(context.Background())
	defer func() {
		stop()
		for _, e := range chains {
			e.ended.Wait()
		}
	}()
	for _, e := range chains {
		e.s, e.source, e.copy, e.moved = s, source.Name, s.createTopic(t, "etl-copy", partitions).Name, moved
		e.seen, e.met = map[int]int{}, map[string]int{}
		e.start(ctx)
	}

	// until waits until as many chains as said have seen what is wanted of them.
	until := func(what string, limit time.Duration, chainsDone int, done func(e *etl) bool) {
		t.Helper()
		deadline, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		for {
			var n int
			var state []string
			for _, e := range chains {
				e.mu.Lock()
				faults := errors.Join(e.faults...)
				if done(e) {
					n++
				}
				state = append(state, fmt.Sprintf("%s has seen %d, met %v", e.name, len(e.seen), e.met))
				e.mu.Unlock()
				if faults != nil {
					t.Fatal(faults)
				}
			}
			if n >= chainsDone {
				return
			}
			select {
			case <-moved:
			case <-deadline.Done():
				t.Fatalf("%s: not so after %s: %s", what, limit, strings.Join(state, "; "))
			}
		}
	}

	producer := s.client(t, append([]kgo.Opt{kgo.DefaultProduceTopic(source.Name)}, impatient...)...)
	sent := 0
	produce := func() {
		for range perRound {
			producer.Produce(ctx, kgo.StringRecord(strconv.Itoa(sent)), nil)
			sent++
		}
	}
	all := func(e *etl) bool { return len(e.seen) == sent }
	for round := range *rounds {
		before := make(map[*etl]int, len(chains))
		for _, e := range chains {
			e.mu.Lock()
			before[e] = len(e.seen)
			e.mu.Unlock()
		}
		produce()
		// Most kills come as soon as one chain is on its way: whatever the others are at. Now and then all catch up.
		if round%4 == 3 {
			until("all chains have caught up", 3*waitLimit, len(chains), all)
		} else {
			more := 1 + rand.IntN(perRound)
			until("a chain moves on", 3*waitLimit, 1, func(e *etl) bool { return len(e.seen) >= min(before[e]+more, sent) })
		}
		s.Restart(t, killed)
	}
	produce()
	if err := producer.Flush(within(t)); err != nil {
		t.Fatalf("flush: %v", err)
	}
	until("all chains have seen each record", 4*waitLimit, len(chains), all)
	for _, e := range chains {
		e.mu.Lock()
		twice := 0
		for n, times := range e.seen {
			if n < 0 || n >= sent {
				t.Errorf("%s: saw %d, want 0 to %d", e.name, n, sent-1)
			}
			if times > 1 {
				twice++
			}
		}
		t.Logf("%s: %d records, %d of them more than once, met %v", e.name, len(e.seen), twice, e.met)
		e.mu.Unlock()
	}
}
