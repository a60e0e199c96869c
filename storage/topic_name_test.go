package storage

import (
	"errors"
	"strings"
	"testing"
)

func TestValidateTopicName(t *testing.T) {
	for _, c := range []struct {
		name string
		ok   bool
	}{
		{"a", true}, {"orders.v1_x-Y9", true}, {"...", true}, {"-", true}, {strings.Repeat("x", 249), true},
		{"", false}, {".", false}, {"..", false}, {strings.Repeat("x", 250), false},
		{"a b", false}, {"a/b", false}, {"ä", false}, {"a\x00", false}, {"a:b", false},
	} {
		err := ValidateTopicName(c.name)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrInvalidTopicName) {
			t.Errorf("name %q: error %v, want ok %v", c.name, err, c.ok)
		}
	}
}

func TestPartitionDirName(t *testing.T) {
	for _, c := range []struct {
		name      string
		topic     string
		partition int32
		ok        bool
	}{
		{"orders-0", "orders", 0, true},
		{"a-b-12", "a-b", 12, true},
		{"--3", "-", 3, true},
		{"x-2147483647", "x", 2147483647, true},
		{"x-2147483648", "", 0, false},
		{"x-01", "", 0, false},
		{"x--1", "x-", 1, true},
		{"x-", "", 0, false},
		{"-1", "", 0, false},
		{"x", "", 0, false},
		{"x-0.6f1ed002ab5595859014ebf0951522d9-delete", "", 0, false},
		{"x-0-future", "", 0, false},
		{"a b-0", "", 0, false},
		{"x-99999999999999999999", "", 0, false},
	} {
		topic, p, ok := parsePartitionDirName(c.name)
		if topic != c.topic || p != c.partition || ok != c.ok {
			t.Errorf("%q: got %q %d %v, want %q %d %v", c.name, topic, p, ok, c.topic, c.partition, c.ok)
		}
		if ok && partitionDirName(topic, p) != c.name {
			t.Errorf("%q does not come back: %q", c.name, partitionDirName(topic, p))
		}
	}
}

func TestRetiredDirNames(t *testing.T) {
	id, err := ParseTopicID("bx7QAqtVlYWQFOvwlRUi2Q")
	if err != nil {
		t.Fatal(err)
	}
	unique := "6f1ed002ab5595859014ebf0951522d9"
	for _, c := range []struct{ dir, want string }{
		{"orders-3", "orders-3." + unique + "-delete"},
		{strings.Repeat("x", 249) + "-12", strings.Repeat("x", 255-43) + "-12." + unique + "-delete"},
	} {
		got := suffixedDirName(c.dir, unique, deleteSuffix)
		if got != c.want || len(got) > maxDirName {
			t.Errorf("%s: got %s, want %s", c.dir, got, c.want)
		}
		if back, ok := parseDeleteDirName(got); !ok || back != id {
			t.Errorf("%s: id %s %v, want %s", got, back, ok, id)
		}
	}
	for _, name := range []string{"a-0.xyz-delete", "a-0-delete", "a-0." + unique + "-stray", "a-0." + unique[1:] + "-delete"} {
		if _, ok := parseDeleteDirName(name); ok {
			t.Errorf("%s was taken for a deleted topic's", name)
		}
	}
}

func TestTopicIDText(t *testing.T) {
	for range 1000 {
		id := TopicID(newUUID())
		s := id.String()
		back, err := ParseTopicID(s)
		if err != nil || back != id || len(s) != 22 || s[0] == '-' {
			t.Fatalf("id %x is %q and comes back as %x, %v", id, s, back, err)
		}
	}
	for _, s := range []string{"", "bx7QAqtVlYWQFOvwlRUi2", "bx7QAqtVlYWQFOvwlRUi2Q=="} {
		if _, err := ParseTopicID(s); err == nil {
			t.Errorf("%q was taken for an id", s)
		}
	}
}

func TestCollidingNames(t *testing.T) {
	c := make(collisions)
	c.add("a.b")
	c.add("plain")
	for name, want := range map[string]bool{"a_b": true, "a.b": true, "ab": false, "plain": false, "a-b": false, "x.y": false} {
		if err := c.check(name); errors.Is(err, ErrTopicCollision) != want || (err != nil) != want {
			t.Errorf("%s beside a.b: error %v, want a collision %v", name, err, want)
		}
	}
	c.remove("a_b") // was never there
	if err := c.check("a_b"); err == nil {
		t.Error("a_b does not collide after another name was removed")
	}
	c.remove("a.b")
	if err := c.check("a_b"); err != nil {
		t.Errorf("a_b after a.b has gone: %v", err)
	}
}
