package groups

import (
	"slices"
	"testing"

	"github.com/kaen-log/gateway/groups/assignor"
)

// TestEmbeddedMessagesOfEveryVersion reads what members say, whatever its version; what
// is later than we know is read as the last that we do.
func TestEmbeddedMessagesOfEveryVersion(t *testing.T) {
	w := newGroupWorld()
	w.topic("orders", 4)
	for _, test := range []struct {
		name    string
		message string
		topics  []string
		owned   []int32
		rack    string
		ok      bool
	}{
		{"version 0", "\x00\x00\x00\x00\x00\x01\x00\x06orders\xff\xff\xff\xff", []string{"orders"}, nil, "", true},
		{"version 1", "\x00\x01\x00\x00\x00\x02\x00\x01b\x00\x01a\xff\xff\xff\xff\x00\x00\x00\x01\x00\x06orders\x00\x00\x00\x01\x00\x00\x00\x02", []string{"a", "b"}, []int32{2}, "", true},
		{"version 3", "\x00\x03\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x05\x00\x02r1", nil, nil, "r1", true},
		{"version 9", "\x00\x09\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x05\x00\x02r1more", nil, nil, "r1", true},
		{"an empty rack is none", "\x00\x03\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00", nil, nil, "", true},
		{"version -1", "\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff", nil, nil, "", false},
		{"one byte", "\x00", nil, nil, "", false},
		{"nothing", "", nil, nil, "", false},
		{"more topics than bytes", "\x00\x00\x7f\xff\xff\xff", nil, nil, "", false},
	} {
		s, err := parseSubscription([]byte(test.message), w.env.topics)
		if (err == nil) != test.ok {
			t.Errorf("%s: got error %v, want success %v", test.name, err, test.ok)
			continue
		}
		var owned []int32
		for _, o := range s.owned {
			owned = append(owned, o.Partitions...)
		}
		rack := ""
		if s.rackID != nil {
			rack = *s.rackID
		}
		if !slices.Equal(s.topics, test.topics) || !slices.Equal(owned, test.owned) || rack != test.rack {
			t.Errorf("%s: got topics %v, owned %v, rack %q, want %v, %v, %q", test.name, s.topics, owned, rack, test.topics, test.owned, test.rack)
		}
	}
}

// FuzzEmbeddedProtocol reads what clients put into their calls. An assignment that can
// be read is written and read again the same.
func FuzzEmbeddedProtocol(f *testing.F) {
	w := newGroupWorld()
	w.topic("orders", 4)
	g := newConsumerGroup("g", w.env)
	a, err := g.embeddedAssignment(assignor.Partitions{w.topics["orders"].id: {0, 2}}, subscription("orders"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(a)
	f.Add(subscription("orders+payments"))
	f.Fuzz(func(t *testing.T, message []byte) {
		_, _ = parseSubscription(message, w.env.topics)
		p, _, err := parseAssignment(message, w.env.topics)
		if err != nil {
			return
		}
		again, err := g.embeddedAssignment(p, message)
		if err != nil {
			t.Fatalf("%x was read and cannot be written: %v", message, err)
		}
		if q, userData, err := parseAssignment(again, w.env.topics); err != nil || userData || !q.Equal(p) {
			t.Fatalf("%x: wrote %v, read %v %v %v", message, p, q, userData, err)
		}
	})
}
