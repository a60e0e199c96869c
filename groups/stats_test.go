package groups

import (
	"slices"
	"testing"

	"github.com/kaen-log/gateway/storage/vfs"
)

func TestGroupsAreCountedByKindAndState(t *testing.T) {
	s, c := open(t, vfs.NewMem(vfs.MemOptions{}))
	if st := c.Stats(); len(st.Groups) != 0 || st.Unready != 0 {
		t.Errorf("before the first group: got %+v, want nothing", st)
	}
	orders := topic(t, s, "orders")
	for _, group := range []string{"a", "b", "c"} {
		commit(t, c, group, orders, 0, 7)
	}
	if _, err := c.ConsumerGroupHeartbeat(t.Context(), &ConsumerHeartbeatRequest{Group: "d", MemberID: "m", RebalanceTimeoutMs: 1000, Topics: []string{"orders"}, Owned: []TopicPartitions{}}); err != nil {
		t.Fatal(err)
	}
	want := []GroupCount{{KindClassic, "Empty", 3}, {KindConsumer, "Stable", 1}}
	if st := c.Stats(); !slices.Equal(st.Groups, want) || st.Unready != 0 {
		t.Errorf("got %+v, want %v", st, want)
	}

	// A partition that is at work, perhaps with the disk, is not waited for.
	w := c.ownerOf("d")
	w.mu.Lock()
	w.shard.entries = map[string]*entry{}
	st := c.Stats()
	w.mu.Unlock()
	if !slices.Equal(st.Groups, want) {
		t.Errorf("while a partition is at work: got %+v, want what was found before", st)
	}
	if st := c.Stats(); slices.Contains(st.Groups, want[1]) {
		t.Errorf("afterwards: got %+v, want the consumer group gone", st)
	}
}

// A partition that is at work when somebody asks for the first time counts as it did when it was loaded.
func TestGroupsAreCountedWhenTheyAreLoaded(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	s, c := open(t, fsys)
	commit(t, c, "a", topic(t, s, "orders"), 0, 7)
	for _, w := range c.all() {
		w.mu.Lock()
	}
	if st := c.Stats(); len(st.Groups) != 0 || st.Unready != 0 {
		t.Errorf("of new partitions: got %+v, want nothing", st)
	}
	for _, w := range c.all() {
		w.mu.Unlock()
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, c = open(t, fsys)
	w := c.ownerOf("a")
	w.mu.Lock()
	defer w.mu.Unlock()
	if st, want := c.Stats(), []GroupCount{{KindClassic, "Empty", 1}}; !slices.Equal(st.Groups, want) || st.Unready != 0 {
		t.Errorf("of partitions that were loaded: got %+v, want %v", st, want)
	}
}
