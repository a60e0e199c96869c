package groups

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kaen-log/gateway/groups/assignor"
	"github.com/kaen-log/gateway/storage"
)

// groupWorld is one group of any kind with topics, a clock, a log and a disk.
type groupWorld struct {
	config  Config
	group   GroupConfig
	env     *env
	topics  map[string]topicInfo
	version uint64
	made    byte // topics
	now     time.Time
	shard   *shard

	log    []logRecord // what is durable
	held   bool        // the next step waits for the disk
	flight *step       // on its way to the disk
	queue  []func() step
	stored func(r logRecord, err error) // is told of every record that was written, or refused
}

func newGroupWorld() *groupWorld {
	w := &groupWorld{
		group: DefaultGroupConfig(), topics: map[string]topicInfo{}, now: scriptStart,
		stored: func(logRecord, error) {},
	}
	w.config.setDefaults()
	w.config.Group = func(string) GroupConfig { return w.group }
	ids := 0
	id := func() string { ids++; return fmt.Sprintf("id%d", ids) }
	w.env = &env{config: &w.config, newID: id, newUUID: id, topics: topicView{
		version: func() uint64 { return w.version },
		byName:  func(name string) (topicInfo, bool) { t, ok := w.topics[name]; return t, ok },
		byID: func(id storage.TopicID) (topicInfo, bool) {
			for _, t := range w.topics {
				if t.id == id {
					return t, true
				}
			}
			return topicInfo{}, false
		},
		names: func() []string { return slices.Sorted(maps.Keys(w.topics)) },
	}}
	w.shard = newShard(w.env)
	return w
}

// topic makes a topic, or gives it more partitions; none deletes it.
func (w *groupWorld) topic(name string, partitions int32) {
	w.version++
	t, ok := w.topics[name]
	if !ok {
		w.made++
		t = topicInfo{name: name, id: storage.TopicID{15: w.made}}
	}
	if t.partitions = partitions; partitions == 0 {
		delete(w.topics, name)
		return
	}
	w.topics[name] = t
}

func (w *groupWorld) entry() *entry { return w.shard.entries[scriptGroup] }

// call runs f, now or when the group is not busy any more.
func (w *groupWorld) call(f func() step) (waits bool) {
	if w.flight != nil {
		w.queue = append(w.queue, f)
		return true
	}
	w.carry(f())
	return false
}

// carry does what the owner does with a step.
func (w *groupWorld) carry(st step) {
	for {
		switch {
		case len(st.records) > 0:
			w.flight = &st
			if !w.held {
				w.settle(nil)
			}
			w.held = false
			return
		case st.then != nil:
			st = st.then(w.now, nil)
		default:
			return
		}
	}
}

// settle ends the flight, and lets the calls run that waited for it.
func (w *groupWorld) settle(err error) {
	st := w.flight
	w.flight = nil
	for _, r := range st.records {
		if err == nil {
			w.log = append(w.log, r)
			w.shard.ensure(scriptGroup)
		}
		w.stored(r, err)
	}
	w.carry(st.finish(w.now, err))
	for len(w.queue) > 0 && w.flight == nil {
		next := w.queue[0]
		w.queue = w.queue[1:]
		w.carry(next())
	}
}

// advance lets time go by until a deadline, or until the given time, and says whether
// there was one.
func (w *groupWorld) advance(until time.Time) bool {
	var next time.Time
	if e := w.entry(); e != nil && e.machine != nil && w.flight == nil {
		next = e.machine.next()
	}
	if next.IsZero() || next.After(until) {
		w.now = until
		return false
	}
	w.now = next
	w.carry(w.entry().machine.tick(w.now))
	return true
}

// replayed is what the log says.
func (w *groupWorld) replayed(t *testing.T) *shard {
	t.Helper()
	s := newShard(w.env)
	for _, r := range w.log {
		var err error
		switch kind := int16(r.key[1]); {
		case kind == typeGroupMetadata:
			err = s.replayClassic(r.key, r.value)
		case kind >= typeShareMember && kind <= typeShareStates:
			err = s.replayShare(r.key, r.value)
		default:
			err = s.replayConsumer(r.key, r.value)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// crash leaves only what is durable, and reads it.
func (w *groupWorld) crash(t *testing.T) {
	t.Helper()
	w.shard, w.flight, w.queue, w.held = w.replayed(t), nil, nil, false
	if e := w.entry(); e != nil && e.machine != nil {
		w.carry(e.machine.loaded(w.now))
	}
}

// checkConsumer holds a consumer group against what must always be so, and against its log.
func (w *groupWorld) checkConsumer(t *testing.T) {
	t.Helper()
	g := w.entry().consumer()
	if g == nil {
		return
	}
	owner := map[string]string{}
	for id, m := range g.members {
		if id != m.id {
			t.Errorf("member %s stands under the id %s", m.id, id)
		}
		if m.instanceID != nil && g.static[*m.instanceID] != id {
			t.Errorf("instance %s is that of %q, want %s", *m.instanceID, g.static[*m.instanceID], id)
		}
		if m.epoch > g.targetEpoch {
			t.Errorf("member %s is at epoch %d, beyond the target's %d", id, m.epoch, g.targetEpoch)
		}
		for _, p := range []partitionEpochs{m.assigned, m.revoking} {
			for topic, epochs := range p {
				for partition := range epochs {
					name := fmt.Sprintf("%v-%d", topic, partition)
					if other, taken := owner[name]; taken {
						t.Errorf("partition %s has two owners, %s and %s", name, other, id)
					}
					owner[name] = id
					if g.owners[topic][partition] != id {
						t.Errorf("partition %s is owned by %q, want %s", name, g.owners[topic][partition], id)
					}
				}
			}
		}
	}
	if g.targetEpoch > g.epoch {
		t.Errorf("target of epoch %d, beyond the group's %d", g.targetEpoch, g.epoch)
	}
	if w.flight != nil {
		return
	}
	read := w.replayed(t).entries[scriptGroup].consumer()
	if read == nil {
		t.Fatalf("the log has no consumer group, want one of epoch %d", g.epoch)
	}
	if got, want := durableText(read), durableText(g); got != want {
		t.Errorf("the log says\n%s\nwant\n%s", got, want)
	}
}

// durableText is what a restart must not forget of a group.
func durableText(g *consumerGroup) string {
	var b strings.Builder
	fmt.Fprintf(&b, "epoch %d hash %x target %d at %d\n", g.epoch, g.metadataHash, g.targetEpoch, g.targetMs)
	for _, id := range g.memberIDs() {
		m := g.members[id]
		said := m.memberMetadata.append(nil)
		state := m.currentAssignment.append(nil)
		fmt.Fprintf(&b, "%s %x %x target %v\n", id, said, state, formatPartitions(g, g.target[id]))
	}
	for _, regex := range slices.Sorted(maps.Keys(g.regexes)) {
		fmt.Fprintf(&b, "%s %+v\n", regex, *g.regexes[regex])
	}
	fmt.Fprintf(&b, "targets %d static %v regexes %v\n", len(g.target), g.static, g.regexMembers)
	return b.String()
}

// formatPartitions writes partitions with the names of their topics, as orders:0,1.
func formatPartitions(g *consumerGroup, p assignor.Partitions) string {
	var out []string
	for _, topic := range p.Topics() {
		name := topic.String()
		if t, ok := g.env.topics.byID(topic); ok {
			name = t.name
		}
		out = append(out, name+":"+strings.Trim(strings.ReplaceAll(fmt.Sprint(p[topic]), " ", ","), "[]"))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// TestDurableTextKnowsEveryField makes sure that durableText misses no field that counts.
func TestDurableTextKnowsEveryField(t *testing.T) {
	known := []string{
		"modernGroup", "id", "env", "newMember", "become", "epoch", "metadataHash", "members", "targetEpoch", "targetMs", "target", "regexes", "oldTopics",
		"regexMembers", "static", "owners", "deadlines", "hashedAt", "resolvedAt",
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[consumerGroup]()) {
		if name := field.Name; !slices.Contains(known, name) {
			t.Errorf("field %s of consumerGroup: say in durableText whether a restart may forget it", name)
		}
	}
}
