package cleaner

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kaen-log/gateway/auth"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

var metadataSeed = flag.Uint64("metadata.seed", 0, "the one seed that the model test of the metadata log runs, instead of some")

// metadataLog returns the log of a store's own records.
func metadataLog(t testing.TB, s *storage.Store) *storage.Log {
	t.Helper()
	for _, l := range s.Logs() {
		if l.Topic() == "__gateway_metadata" {
			return l
		}
	}
	t.Fatal("the store's own log is not among its logs")
	return nil
}

// lastValues returns what the records of a log add up to: the last value of each key that has one.
func lastValues(t testing.TB, l *storage.Log) map[string]string {
	t.Helper()
	state := map[string]string{}
	records(t, l, 0, func(_ record.Batch, r record.Record) {
		if state[string(r.Key)] = string(r.Value); r.Value == nil {
			delete(state, string(r.Key))
		}
	})
	return state
}

// held is what a store says that it holds.
type held struct {
	topics  map[string]string // by name: id, partitions and configs
	configs map[string]string // by name of the resource
	clients map[string]string // credentials, quotas and ACLs
}

func holds(s *storage.Store) held {
	h := held{map[string]string{}, map[string]string{}, map[string]string{}}
	for _, topic := range s.Topics() {
		h.topics[topic.Name()] = fmt.Sprint(topic.ID(), topic.Partitions(), topic.Overrides())
	}
	for _, name := range s.ResourceNames(resourceKind) {
		h.configs[name] = fmt.Sprint(s.ResourceConfigs(resourceKind, name))
	}
	for user, c := range s.ScramCredentials() {
		h.clients[fmt.Sprint(user)] = fmt.Sprint(c)
	}
	for entity, quotas := range s.ClientQuotas() {
		h.clients[fmt.Sprint(entity)] = fmt.Sprint(quotas)
	}
	for _, b := range s.ACLs().Choose(&auth.Filter{Resource: auth.AnyResource, Pattern: auth.AnyPattern, Operation: auth.AnyOperation, Permission: auth.AnyPermission}) {
		h.clients[fmt.Sprint(b)] = ""
	}
	return h
}

// resourceKind is the kind of the resources that tests keep configs for.
const resourceKind = 32

// missing says how h differs from what is wanted; "" when it does not.
func (h held) missing(want held) string {
	if !maps.Equal(h.topics, want.topics) {
		return "topics: " + difference(h.topics, want.topics)
	}
	if !maps.Equal(h.configs, want.configs) {
		return "configs: " + difference(h.configs, want.configs)
	}
	if !maps.Equal(h.clients, want.clients) {
		return "clients: " + difference(h.clients, want.clients)
	}
	return ""
}

// metadataModel is a store beside what was done to its metadata.
type metadataModel struct {
	t        *testing.T
	rand     *rand.Rand
	fs       *vfs.Mem
	now      time.Time
	store    *storage.Store
	c        *Cleaner
	want     held
	nextID   int64 // of producers: below it all were handed out
	passes   int64
	replaced int
}

// TestMetadataModel makes random changes of topics, configs and what is known of clients, with passes of the cleaner over
// the metadata log, jumps of the clock beyond delete.retention.ms, stops and crashes. A pass changes nothing of what the
// log's records add up to, and every start finds what was done.
func TestMetadataModel(t *testing.T) {
	if *metadataSeed != 0 {
		runMetadataModel(t, *metadataSeed)
		return
	}
	for i := range 6 {
		t.Run(fmt.Sprintf("seed=%d", i+1), func(t *testing.T) { runMetadataModel(t, uint64(i+1)) })
	}
}

func runMetadataModel(t *testing.T, seed uint64) {
	m := &metadataModel{t: t, rand: rand.New(rand.NewPCG(seed, 2)), now: time.UnixMilli(1_700_000_000_000)}
	m.want = held{map[string]string{}, map[string]string{}, map[string]string{}}
	m.fs = vfs.NewMem(vfs.MemOptions{Now: m.clock, Crashable: true})
	defer func() {
		if t.Failed() {
			t.Logf("repeat with: go test ./cleaner -run 'TestMetadataModel$' -metadata.seed %d", seed)
		}
	}()
	m.start()
	for range 400 {
		switch p := m.rand.IntN(100); {
		case p < 25:
			m.create()
		case p < 45:
			m.remove()
		case p < 60:
			m.change()
		case p < 70:
			m.configure()
		case p < 75:
			m.admit()
		case p < 80:
			id, err := m.store.NextProducerID()
			m.fatal(err)
			if id < m.nextID {
				t.Errorf("producer id %d, want at least %d", id, m.nextID)
			}
			m.nextID = id + 1
		case p < 92:
			m.sweep()
		case p < 95:
			m.restart(true)
		case p < 97:
			m.restart(false)
		default:
			m.now = m.now.Add(time.Duration(m.rand.IntN(48)) * time.Hour)
		}
		if t.Failed() {
			return
		}
	}
	m.restart(true)
	m.fatal(m.store.Close())
	if m.passes < 2 || m.replaced < 5 {
		t.Errorf("%d passes that were due, %d segments replaced in others, want 2 and 5 at least", m.passes, m.replaced)
	}
}

func (m *metadataModel) clock() time.Time { return m.now }

func (m *metadataModel) fatal(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// start opens the store, has it forget the deleted topics of which no directory is left, and compares.
func (m *metadataModel) start() {
	m.t.Helper()
	s, err := storage.Open("data", storage.Options{FS: m.fs, Now: m.clock})
	m.fatal(err)
	m.store = s
	done, cancel := context.WithCancel(context.Background())
	cancel()
	m.fatal(s.Run(done))
	m.c = New(Options{Store: s, Now: m.clock, Config: func() Config {
		c := DefaultConfig()
		c.DedupeBytes = 4000
		return c
	}})
	if fault := holds(s).missing(m.want); fault != "" {
		m.t.Fatalf("after a start: %s", fault)
	}
}

// restart stops the store in order, or goes on with what a crash leaves.
func (m *metadataModel) restart(inOrder bool) {
	m.t.Helper()
	crashed := m.fs.CrashClone(m.rand.Uint64(), m.rand.Float64())
	m.passes += m.c.Stats().Passes
	m.fatal(m.store.Close())
	if !inOrder {
		m.fs = crashed
	}
	m.start()
}

// name is that of a topic: they are few, so that those of deleted ones come again.
func (m *metadataModel) name() string { return fmt.Sprintf("topic-%d", m.rand.IntN(30)) }

func (m *metadataModel) create() {
	name := m.name()
	_, exists := m.want.topics[name]
	spec := storage.TopicSpec{Name: name, Partitions: 1 + int32(m.rand.IntN(3))}
	if m.rand.IntN(2) == 0 {
		spec.Configs = map[string]string{"retention.ms": fmt.Sprint(m.rand.IntN(1000))}
	}
	_, err := m.store.CreateTopic(spec)
	if exists != (err != nil) {
		m.t.Errorf("create %s, which exists: %v: %v", name, exists, err)
	}
	m.note(name)
}

// note takes over what the store says of a topic after it was changed.
func (m *metadataModel) note(name string) {
	if v, ok := holds(m.store).topics[name]; ok {
		m.want.topics[name] = v
	} else {
		delete(m.want.topics, name)
	}
}

func (m *metadataModel) remove() {
	name := m.name()
	if topic, ok := m.store.Topic(name); ok {
		m.fatal(m.store.DeleteTopic(topic.ID()))
	}
	m.note(name)
}

// change gives a topic other configs or more partitions.
func (m *metadataModel) change() {
	name := m.name()
	topic, ok := m.store.Topic(name)
	if !ok {
		return
	}
	if m.rand.IntN(3) == 0 {
		m.fatal(m.store.AddPartitions(topic.ID(), topic.Partitions()+1))
	} else {
		m.fatal(m.store.SetTopicConfigs(topic.ID(), map[string]string{"retention.ms": fmt.Sprint(m.rand.IntN(1000))}))
	}
	m.note(name)
}

// configure changes or removes the configs of a resource. Some are large, so that the log has several segments.
func (m *metadataModel) configure() {
	name := fmt.Sprintf("group-%d", m.rand.IntN(12))
	var configs map[string]string
	switch m.rand.IntN(4) {
	case 0:
	case 1:
		configs = map[string]string{"x": fmt.Sprint(m.rand.IntN(1000))}
	default:
		configs = map[string]string{"x": strings.Repeat(string(rune('a'+m.rand.IntN(26))), 1+m.rand.IntN(200_000))}
	}
	m.fatal(m.store.SetResourceConfigs(resourceKind, name, configs))
	delete(m.want.configs, name)
	if configs != nil {
		m.want.configs[name] = fmt.Sprint(configs)
	}
}

// admit changes what is known of clients: a credential, a quota or an ACL comes or goes.
func (m *metadataModel) admit() {
	name, add := fmt.Sprintf("client-%d", m.rand.IntN(8)), m.rand.IntN(2) == 0
	var key, value string
	switch m.rand.IntN(3) {
	case 0:
		user := storage.ScramUser{Name: name, Mechanism: auth.ScramSHA256}
		change := storage.ScramChange{User: user}
		if add {
			change.Credential = &auth.ScramCredential{Salt: []byte("salt"), StoredKey: []byte("stored"), ServerKey: []byte("server"), Iterations: 4096 + m.rand.IntN(100)}
			value = fmt.Sprint(*change.Credential)
		}
		key = fmt.Sprint(user)
		m.fatal(m.store.AlterScramCredentials(func(storage.ScramCredentials) ([]storage.ScramChange, error) {
			return []storage.ScramChange{change}, nil
		}))
	case 1:
		change := storage.QuotaChange{Entity: storage.QuotaEntity{User: storage.QuotaName{Set: true, Name: name}}, Key: "producer_byte_rate", Value: float64(m.rand.IntN(1000)), Remove: !add}
		key, value = fmt.Sprint(change.Entity), fmt.Sprint(map[string]float64{change.Key: change.Value})
		m.fatal(m.store.AlterClientQuotas([]storage.QuotaChange{change}))
	default:
		b := auth.Binding{Resource: auth.Topic, Name: name, Pattern: auth.Literal, Principal: "User:ann", Host: "*", Operation: auth.Read, Permission: auth.Allow}
		key = fmt.Sprint(b)
		if add {
			m.fatal(m.store.CreateACLs([]auth.Binding{b}))
			break
		}
		_, err := m.store.DeleteACLs([]auth.Filter{{Resource: auth.Topic, Name: &name, Pattern: auth.Literal, Operation: auth.AnyOperation, Permission: auth.AnyPermission}})
		m.fatal(err)
	}
	delete(m.want.clients, key)
	if add {
		m.want.clients[key] = value
	}
}

// sweep cleans what is due, or everything.
func (m *metadataModel) sweep() {
	m.t.Helper()
	l := metadataLog(m.t, m.store)
	before := lastValues(m.t, l)
	if m.rand.IntN(2) == 0 {
		m.fatal(l.Roll())
	}
	if m.rand.IntN(3) == 0 {
		st, err := m.c.Force(context.Background(), l)
		m.fatal(err)
		m.replaced += st.Replaced
	} else {
		m.c.Compact(context.Background())
		if s := m.c.Stats(); len(s.SetAside) > 0 {
			m.t.Fatalf("set aside: %+v", s.SetAside)
		}
	}
	if after := lastValues(m.t, l); !maps.Equal(before, after) {
		m.t.Errorf("a pass changed what the records add up to: %s", difference(after, before))
	}
	if fault := holds(m.store).missing(m.want); fault != "" {
		m.t.Errorf("after a pass: %s", fault)
	}
}

// filledMetadata makes a store whose metadata log has several segments with keys that come again, deleted topics and configs
// that were taken away.
func filledMetadata(t *testing.T, fsys vfs.FS, clock func() time.Time) *storage.Store {
	t.Helper()
	s, err := storage.Open("data", storage.Options{FS: fsys, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		name := fmt.Sprintf("t%d", i%5)
		if topic, ok := s.Topic(name); ok && i%2 == 0 {
			err = s.SetTopicConfigs(topic.ID(), map[string]string{"retention.ms": fmt.Sprint(i)})
		} else if ok {
			err = s.DeleteTopic(topic.ID())
		} else {
			_, err = s.CreateTopic(storage.TopicSpec{Name: name, Partitions: 1})
		}
		if err == nil {
			err = s.SetResourceConfigs(resourceKind, fmt.Sprint("kept ", i), map[string]string{"x": strings.Repeat("k", 90_000)})
		}
		if err == nil {
			err = s.SetResourceConfigs(resourceKind, fmt.Sprint("gone ", i%3), map[string]string{"x": strings.Repeat("g", 40_000)})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		if err := s.SetResourceConfigs(resourceKind, fmt.Sprint("gone ", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := metadataLog(t, s).Roll(); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestCrashInAPassOverTheMetadata takes crash clones after every operation of passes over the metadata log, the last of
// which drops tombstones. Each opens, holds what was there, and does so again after a pass of its own.
func TestCrashInAPassOverTheMetadata(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
	type point struct {
		mem   *vfs.Mem
		label string
	}
	var mu sync.Mutex // a committer may be closing files
	var points []point
	armed, seed := false, uint64(0)
	fsys := vfs.After(mem, func(op vfs.Op, err error) {
		mu.Lock()
		defer mu.Unlock()
		if armed && err == nil && op.Kind.Mutates() {
			for _, keep := range []float64{0, 0.6} {
				seed++
				points = append(points, point{mem.CrashClone(seed, keep), fmt.Sprintf("after %v, keeping %.1f, seed %d", op, keep, seed)})
			}
		}
	})
	now := time.UnixMilli(1_700_000_000_000)
	clock := func() time.Time { return now }
	s := filledMetadata(t, fsys, clock)
	l := metadataLog(t, s)
	if segments, err := l.Segments(); err != nil || len(segments) < 3 {
		t.Fatalf("%d segments, %v, want more", len(segments), err)
	}
	before, values := holds(s), lastValues(t, l)
	size := l.Size()
	c := New(Options{Store: s, Now: clock})
	arm := func(on bool) {
		mu.Lock()
		defer mu.Unlock()
		armed = on
	}
	arm(true)
	var dropped int64
	for range 2 {
		st, err := c.Force(context.Background(), l)
		if err != nil {
			t.Fatal(err)
		}
		dropped += st.TombstonesDropped
		now = now.Add(25 * time.Hour)
	}
	arm(false)
	if len(points) < 60 || dropped < 5 || l.Size() > size*4/5 {
		t.Fatalf("%d crashes, %d tombstones dropped, %d bytes of %d are left; want more to happen", len(points), dropped, l.Size(), size)
	}
	points = append(points, point{mem, "after all"})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	delete(values, string([]byte{3})) // the leader epoch, which every start raises
	for _, p := range points {
		s, err := storage.Open("data", storage.Options{FS: p.mem, Now: clock})
		if err != nil {
			t.Errorf("%s: %v", p.label, err)
			continue
		}
		if fault := holds(s).missing(before); fault != "" {
			t.Errorf("%s: %s", p.label, fault)
		}
		l := metadataLog(t, s)
		if err := l.Roll(); err != nil {
			t.Errorf("%s: %v", p.label, err)
		}
		if _, err := New(Options{Store: s, Now: clock}).Force(context.Background(), l); err != nil {
			t.Errorf("%s: %v", p.label, err)
		}
		got := lastValues(t, l)
		delete(got, string([]byte{3}))
		if !maps.Equal(got, values) {
			t.Errorf("%s, and a pass: %s", p.label, difference(got, values))
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		again, err := storage.Open("data", storage.Options{FS: p.mem, Now: clock})
		if err != nil {
			t.Errorf("%s, and a pass: %v", p.label, err)
			continue
		}
		if fault := holds(again).missing(before); fault != "" {
			t.Errorf("%s, and a pass: %s", p.label, fault)
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestMetadataLogStaysSmall makes and deletes 10,000 topics within 25 days. The open segment is most of what there is of
// their records at any time.
func TestMetadataLogStaysSmall(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	clock := func() time.Time { return now }
	fsys := vfs.NewMem(vfs.MemOptions{Now: clock})
	s, err := storage.Open("data", storage.Options{FS: fsys, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateTopic(storage.TopicSpec{Name: "kept", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	before := holds(s)
	l := metadataLog(t, s)
	c := New(Options{Store: s, Now: clock})
	largest, written := int64(0), int64(0)
	for i := range 10_000 {
		size := l.Size()
		topic, err := s.CreateTopic(storage.TopicSpec{
			Name: fmt.Sprintf("%s-%d", strings.Repeat("a-name-", 15), i), Partitions: 1, Configs: map[string]string{
				"retention.ms": "86400000", "segment.bytes": "1048576", "cleanup.policy": "compact,delete", "min.cleanable.dirty.ratio": "0.25",
				"leader.replication.throttled.replicas": strings.Repeat("1:1,", 100) + "1:1",
			},
		})
		if err == nil {
			err = s.DeleteTopic(topic.ID())
		}
		if err != nil {
			t.Fatal(err)
		}
		written += l.Size() - size
		if i%20 == 19 {
			now = now.Add(72 * time.Minute)
			c.Compact(context.Background())
		}
		if i%1000 == 999 { // a start forgets those of which no directory is left
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s, err = storage.Open("data", storage.Options{FS: fsys, Now: clock}); err != nil {
				t.Fatal(err)
			}
			done, cancel := context.WithCancel(context.Background())
			cancel()
			s.Run(done)
			l = metadataLog(t, s)
			c = New(Options{Store: s, Now: clock})
		}
		largest = max(largest, l.Size())
	}
	if fault := holds(s).missing(before); fault != "" {
		t.Error(fault)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if largest > 2<<20 || written < 5<<20 {
		t.Errorf("the metadata log had %d bytes, %d were written; want at most 2 MiB of 5", largest, written)
	}
}

// TestCleanerMeetsDamageInTheMetadataLog has it go offline, as any partition would. What the store knows stays, and no
// change is made.
func TestCleanerMeetsDamageInTheMetadataLog(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	clock := func() time.Time { return now }
	mem := vfs.NewMem(vfs.MemOptions{Now: clock})
	s := filledMetadata(t, mem, clock)
	before := holds(s)
	l := metadataLog(t, s)
	segments, err := l.Segments()
	if err != nil {
		t.Fatal(err)
	}
	f, err := mem.Open(fmt.Sprintf("data/__gateway_metadata-0/%020d.log", segments[1].BaseOffset))
	if err == nil {
		_, err = f.WriteAt([]byte("damage"), record.HeaderSize+10)
	}
	if err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	c := New(Options{Store: s, Now: clock, Logger: slog.New(slog.NewTextHandler(&lines, nil))})
	c.Compact(context.Background())
	if !strings.Contains(lines.String(), "log=__gateway_metadata-0") {
		t.Errorf("the lines do not name the log: %s", lines.String())
	}
	if l.Status() != storage.StatusOffline {
		t.Errorf("the log is %v, want offline", l.Status())
	}
	if slices.Contains(s.Logs(), l) {
		t.Error("the cleaner is shown a log that is offline")
	}
	if _, err := s.CreateTopic(storage.TopicSpec{Name: "new", Partitions: 1}); err == nil {
		t.Error("a topic was created with the metadata log offline")
	}
	if fault := holds(s).missing(before); fault != "" {
		t.Error(fault)
	}
	s.Close()
}
