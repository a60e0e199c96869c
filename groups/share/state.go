package share

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/kaen-log/gateway/groups/runtime"
	"github.com/kaen-log/gateway/storage"
)

// StateTopic is the topic that the state of share partitions is kept in.
const StateTopic = "__share_group_state"

// State is the share partitions of all groups: what is stored of them, and who has
// which records. Its methods may be called from any goroutine.
type State struct {
	o        Options
	alarm    *runtime.Alarm
	prune    *runtime.Period // when the log is looked at for what it may forget
	sessions sessions
	topic    *runtime.Topic[*shard]
}

// New returns a State. It starts nothing: Run does.
func New(o Options) *State {
	if o.Store == nil || o.Now == nil {
		panic("share: Options.Store and Options.Now must be set")
	}
	o.setDefaults()
	st := &State{o: o, alarm: runtime.NewAlarm(), sessions: sessions{room: MaxSessionPartitions}}
	st.prune = st.alarm.Every(o.Config.PruneInterval, o.Now())
	st.topic = runtime.NewTopic(runtime.TopicOptions[*shard]{Store: o.Store, Spec: st.topicSpec(), Owner: st.newShard, Stop: (*shard).stop})
	o.Store.OnTopicDeleted(st.topicDeleted)
	return st
}

// Run ends locks when their time is over and removes what the log need not keep, until
// ctx ends. Then it refuses calls, answers those that wait with ErrNotAvailable, and
// returns when nothing is on its way to the disk.
func (st *State) Run(ctx context.Context) error {
	st.alarm.Run(ctx, st.o.Now, st.Tick)
	st.topic.Stop()
	return nil
}

// EnsureTopic returns __share_group_state, made with Kafka's configs when it does not
// exist.
func (st *State) EnsureTopic() (*storage.Topic, error) { return st.topic.Ensure() }

// topicSpec is Kafka's: the topic is not compacted, because an update says only a part.
// Kafka: ShareCoordinatorService.shareGroupStateTopicConfigs.
func (st *State) topicSpec() storage.TopicSpec {
	return storage.TopicSpec{
		Name:       StateTopic,
		Partitions: st.o.Config.StatePartitions,
		Configs: map[string]string{
			"cleanup.policy":   "delete",
			"compression.type": "producer",
			"retention.ms":     "-1",
			"segment.bytes":    strconv.Itoa(int(st.o.Config.StateSegmentBytes)),
		},
	}
}

// Initialize stores that nothing was delivered of a partition to a group yet; start is
// where it begins, -1 for where the group's reset policy says when somebody fetches.
// What was stored before is forgotten. Errors: ErrNotAvailable.
func (st *State) Initialize(ctx context.Context, k Key, start int64) error {
	if _, err := st.EnsureTopic(); err != nil && !errors.Is(err, storage.ErrTopicExists) {
		return fmt.Errorf("make %s: %w: %v", StateTopic, ErrNotAvailable, err)
	}
	return st.call(ctx, k, func(now time.Time, s *shard, e *entry, reply func(error)) {
		after := initial(e.stored, start, now.UnixMilli())
		e.drop()
		s.snapshot(now, e, after, reply)
	})
}

// SetStart makes delivery begin anew at an offset. It is Initialize of what exists.
func (st *State) SetStart(ctx context.Context, k Key, offset int64) error {
	return st.Initialize(ctx, k, offset)
}

// Delete stores that the group has nothing to do with the partition any more. Errors:
// ErrNotAvailable.
func (st *State) Delete(ctx context.Context, k Key) error {
	if st.shardOf(k) == nil {
		return nil
	}
	return st.call(ctx, k, func(now time.Time, s *shard, e *entry, reply func(error)) {
		if e.drop(); e.stored == nil {
			reply(nil)
			return
		}
		s.append(now, e, logRecord{key: appendKey(nil, typeSnapshot, k)}, nil, reply)
	})
}

// Summary returns the start offset of a share partition, -1 when it is not looked up
// yet, and how many records from there on are dealt with, -1 when nobody knows. ok is
// false when nothing is stored of it, or it cannot be read.
func (st *State) Summary(k Key) (start int64, complete int32, ok bool) {
	s := st.shardOf(k)
	if s == nil || s.lock() != nil {
		return -1, -1, false
	}
	defer s.mu.Unlock()
	if e := s.entries[k]; e != nil && e.durable != nil {
		return e.durable.start, e.durable.complete, true
	}
	return -1, -1, false
}

// Group returns what holds for a group.
func (st *State) Group(id string) GroupConfig { return st.o.Config.Group(id) }

// all returns the shards of the present __share_group_state, none when it does not exist.
func (st *State) all() []*shard { return st.topic.Owners() }

// shardOf returns the shard of a share partition, nil while there is no
// __share_group_state.
func (st *State) shardOf(k Key) *shard {
	all := st.all()
	if len(all) == 0 {
		return nil
	}
	return all[k.partitionOf(int32(len(all)))]
}

// call runs f for a share partition under its shard's lock, and waits for the answer,
// or the end of ctx; what f began goes on then. reply must be called once; it does not
// block.
func (st *State) call(ctx context.Context, k Key, f func(now time.Time, s *shard, e *entry, reply func(error))) error {
	s := st.shardOf(k)
	if s == nil {
		return fmt.Errorf("%s does not exist: %w", StateTopic, ErrNotAvailable)
	}
	if err := s.lock(); err != nil {
		return err
	}
	answer := make(chan error, 1)
	e := s.ensure(k)
	f(st.o.Now(), s, e, func(err error) { answer <- err })
	s.forget(e)
	s.unlock()
	return st.wait(ctx, answer)
}

// wait waits for an answer.
func (st *State) wait(ctx context.Context, answer <-chan error) error {
	select {
	case err := <-answer:
		return err
	default:
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrNotAvailable, ctx.Err())
	case <-st.topic.Life().Done():
		return fmt.Errorf("the server stops: %w", ErrNotAvailable)
	}
}

// topicDeleted forgets what groups had of a topic. Kafka:
// ShareCoordinatorShard.maybeCleanupShareState.
func (st *State) topicDeleted(t *storage.Topic) {
	now := st.o.Now()
	for _, s := range st.all() {
		if s.lock() != nil {
			continue
		}
		for k, e := range s.entries {
			if k.TopicID != t.ID() {
				continue
			}
			if e.drop(); e.stored != nil {
				s.append(now, e, logRecord{key: appendKey(nil, typeSnapshot, k)}, nil, func(error) {})
			}
		}
		s.unlock()
	}
}
