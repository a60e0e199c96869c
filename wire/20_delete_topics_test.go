package wire

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage"
)

// deletion makes a DeleteTopics request by names; ids need version 6.
func deletion(version int16, names []string, ids ...storage.TopicID) *kmsg.DeleteTopicsRequest {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version = version
	if version < 6 {
		req.TopicNames = names
		return req
	}
	for _, name := range names {
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	for _, id := range ids {
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.TopicID = id
		req.Topics = append(req.Topics, t)
	}
	return req
}

func TestDeleteTopics(t *testing.T) {
	for version := int16(1); version <= 6; version++ {
		b := newBroker(t, nil)
		orders := b.topic("orders", 1)
		b.topic("twice", 1)
		got := ask[*kmsg.DeleteTopicsResponse](b, deletion(version, []string{"orders", "ghost", "twice", "twice"})).Topics
		want := []struct {
			name string
			code int16
		}{{"orders", 0}, {"ghost", 3}, {"twice", 42}}
		if len(got) != len(want) {
			t.Fatalf("version %d: %d answers, want %d", version, len(got), len(want))
		}
		for i, w := range want {
			if deref(got[i].Topic) != w.name || got[i].ErrorCode != w.code || version >= 5 && (got[i].ErrorMessage == nil) != (w.code == 0) {
				t.Errorf("version %d: %+v, want %s with code %d", version, got[i], w.name, w.code)
			}
		}
		if version >= 6 && (got[0].TopicID != orders.ID() || got[1].TopicID != [16]byte{}) {
			t.Errorf("version %d: ids %x and %x, want the topic's and none", version, got[0].TopicID, got[1].TopicID)
		}
		if names := b.store.Topics(); len(names) != 1 || names[0].Name() != "twice" {
			t.Errorf("version %d: %d topics are left, want twice", version, len(names))
		}
	}
}

func TestDeleteTopicsByID(t *testing.T) {
	b := newBroker(t, nil)
	orders, users, both := b.topic("orders", 1), b.topic("users", 1), b.topic("both", 1)
	unknown := storage.TopicID{9}
	req := deletion(6, []string{"both"}, orders.ID(), unknown, users.ID(), users.ID(), both.ID(), storage.TopicID{})
	named := kmsg.NewDeleteTopicsRequestTopic()
	named.Topic, named.TopicID = kmsg.StringPtr("orders"), orders.ID()
	req.Topics = append(req.Topics, named)
	got := ask[*kmsg.DeleteTopicsResponse](b, req).Topics
	want := []struct {
		what string
		name *string
		id   storage.TopicID
		code int16
	}{
		{"by its name and by its id, told once", kmsg.StringPtr("both"), both.ID(), 42},
		{"by its id", kmsg.StringPtr("orders"), orders.ID(), 0},
		{"unknown id", nil, unknown, 100},
		{"id twice", nil, users.ID(), 42},
		{"neither name nor id", nil, storage.TopicID{}, 42},
		{"name and id in one", kmsg.StringPtr("orders"), orders.ID(), 42},
	}
	if len(got) != len(want) {
		t.Fatalf("%d answers, want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		if got[i].ErrorCode != w.code || deref(got[i].Topic) != deref(w.name) || (got[i].Topic == nil) != (w.name == nil) || got[i].TopicID != w.id {
			t.Errorf("%s: %+v, want name %q, id %s and code %d", w.what, got[i], deref(w.name), w.id, w.code)
		}
	}
	if n := len(b.store.Topics()); n != 2 {
		t.Errorf("%d topics are left, want users and both", n)
	}
}

func TestDeleteTopicsCanBeDisabled(t *testing.T) {
	b := newBroker(t, map[string]string{"delete.topic.enable": "false"})
	b.topic("orders", 1)
	for version := int16(1); version <= 6; version++ {
		want := int16(73)
		if version < 3 {
			want = 42
		}
		got := ask[*kmsg.DeleteTopicsResponse](b, deletion(version, []string{"orders"})).Topics
		if len(got) != 1 || got[0].ErrorCode != want {
			t.Errorf("version %d: %+v, want code %d", version, got, want)
		}
	}
	if n := len(b.store.Topics()); n != 1 {
		t.Errorf("%d topics, want 1", n)
	}
}

func TestDeletedTopicIsMadeAnew(t *testing.T) { // ADM-16
	b := newBroker(t, nil)
	before := b.create(7, false, newTopic("orders", 1, 1))[0].TopicID
	for range 3 {
		b.mustProduce("orders", 0, b.batch("a", "b"))
	}
	ask[*kmsg.DeleteTopicsResponse](b, deletion(6, []string{"orders"}))
	after := b.create(7, false, newTopic("orders", 1, 1))[0]
	if after.ErrorCode != 0 || after.TopicID == before {
		t.Errorf("made anew: code %d and id %x, want 0 and another than %x", after.ErrorCode, after.TopicID, before)
	}
	if o := b.offsets("orders", 0); o.LogStart != 0 || o.End != 0 {
		t.Errorf("offsets %+v, want an empty log", o)
	}
	if got := b.mustProduce("orders", 0, b.batch("c")); got != 0 {
		t.Errorf("first offset %d, want 0", got)
	}
}
