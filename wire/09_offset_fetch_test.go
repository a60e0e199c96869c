package wire

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups"
	"github.com/kaen-log/gateway/storage/record"
)

// fetchOffsets asks for offsets of a group, at any version: partitions by topic, nil for all. It returns the group's
// error and a line for each partition.
func (b *broker) fetchOffsets(version int16, group string, wanted map[string][]int32) (code int16, lines []string) {
	b.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = version, group
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	for name, partitions := range wanted {
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic, t.Partitions = name, partitions
		if known, ok := b.store.Topic(name); ok {
			t.TopicID = known.ID()
		} else {
			t.TopicID = [16]byte{1}
		}
		g.Topics = append(g.Topics, t)
		req.Topics = append(req.Topics, kmsg.OffsetFetchRequestTopic{Topic: name, Partitions: partitions})
	}
	req.Groups = append(req.Groups, g)
	resp := ask[*kmsg.OffsetFetchResponse](b, req)
	add := func(topic string, partition int32, offset int64, epoch int32, metadata *string, code int16) {
		lines = append(lines, fmt.Sprintf("%s-%d: %d epoch %d %q error %d", topic, partition, offset, epoch, deref(metadata), code))
	}
	if version < 8 {
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				add(t.Topic, p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode)
			}
		}
		return resp.ErrorCode, lines
	}
	if len(resp.Groups) != 1 || resp.Groups[0].Group != group {
		b.t.Fatalf("version %d answers %+v, want the group", version, resp.Groups)
	}
	for _, t := range resp.Groups[0].Topics {
		name := t.Topic
		if version >= 10 {
			name = fmt.Sprintf("%x", t.TopicID[:1])
			if known, ok := b.store.TopicByID(t.TopicID); ok {
				name = known.Name()
			}
		}
		for _, p := range t.Partitions {
			add(name, p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode)
		}
	}
	return resp.Groups[0].ErrorCode, lines
}

func TestOffsetFetchAnswersWhatIsCommitted(t *testing.T) {
	for _, v := range []int16{1, 2, 4, 5, 7, 8, 9, 10} {
		t.Run(fmt.Sprintf("v%d", v), func(t *testing.T) {
			b := withGroups(newBroker(t, nil))
			b.topic("orders", 2)
			check := func(what, group string, wanted map[string][]int32, want ...string) {
				t.Helper()
				if code, got := b.fetchOffsets(v, group, wanted); code != 0 || fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%s: got error %d, %q; want 0, %q", what, code, got, want)
				}
			}
			none := map[string][]int32{"orders": {1, 0}}
			check("nothing committed by anybody", "g", none, `orders-1: -1 epoch -1 "" error 0`, `orders-0: -1 epoch -1 "" error 0`)
			b.commitCode(b.commitRequest(8, "orders", 0))
			epoch := 3
			if v < 5 {
				epoch = -1
			}
			seven := fmt.Sprintf(`orders-0: 7 epoch %d "text" error 0`, epoch)
			check("in the order asked", "g", none, `orders-1: -1 epoch -1 "" error 0`, seven)
			check("another group", "h", map[string][]int32{"orders": {0}}, `orders-0: -1 epoch -1 "" error 0`)
			if v >= 2 {
				check("all", "g", nil, seven)
				check("all of another group", "h", nil)
			}
			ghost := `ghost-0: -1 epoch -1 "" error 0`
			if v >= 10 {
				ghost = `01-0: -1 epoch -1 "" error 100`
			}
			check("a topic that is not there", "g", map[string][]int32{"ghost": {0}}, ghost)
		})
	}
}

func TestOffsetFetchForgetsATopicThatWasMadeAnew(t *testing.T) {
	for _, v := range []int16{1, 8, 10} {
		b := withGroups(newBroker(t, nil))
		old := b.topic("orders", 1)
		b.commitCode(b.commitRequest(8, "orders", 0))
		if err := b.store.DeleteTopic(old.ID()); err != nil {
			t.Fatal(err)
		}
		b.topic("orders", 1)
		_, got := b.fetchOffsets(v, "g", map[string][]int32{"orders": {0}})
		if want := `orders-0: -1 epoch -1 "" error 0`; len(got) != 1 || got[0] != want {
			t.Errorf("version %d: got %q, want %q", v, got, want)
		}
	}
}

func TestOffsetFetchAnswersAllOfAGroupOnce(t *testing.T) {
	atVersions(t, "", 9, 8, func(t *testing.T, v int16) {
		b := withGroups(newBroker(t, nil))
		b.topic("orders", 1)
		b.commitCode(b.commitRequest(8, "orders", 0))
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Version = v
		for _, name := range []string{"g", "h", "g", "h", "g"} {
			g := kmsg.NewOffsetFetchRequestGroup()
			g.Group = name
			req.Groups = append(req.Groups, g)
		}
		resp := ask[*kmsg.OffsetFetchResponse](b, req)
		if len(resp.Groups) != 2 || resp.Groups[0].Group != "g" || len(resp.Groups[0].Topics) != 1 || resp.Groups[1].Group != "h" || len(resp.Groups[1].Topics) != 0 {
			t.Errorf("got %+v, want g with its offset and h with none, each once", resp.Groups)
		}
	})
}

// What a transaction would change is not stable until it has ended, and is then what the transaction left.
func TestOffsetFetchOfStableOffsets(t *testing.T) {
	for _, ended := range []string{"", "committed", "aborted"} {
		for _, v := range []int16{7, 8, 9, 10} {
			t.Run(fmt.Sprintf("OFFS-13 %s v%d", ended, v), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := withGroups(newBroker(t, map[string]string{"offsets.topic.num.partitions": "1"}))
					b.s.groups = groups.New(groups.Options{Store: b.store, Now: b.time, OffsetsPartitions: 1})
					b.topic("orders", 2)
					b.commitCode(b.commitRequest(8, "orders", 0))
					pending := kmsg.OffsetCommitKey{Version: 1, Group: "g", Topic: "orders"}
					value := kmsg.NewOffsetCommitValue()
					value.Version, value.Offset = 3, 9
					batch := record.NewBuilder(record.BuilderOptions{HasProducer: true, ProducerID: 5, Transactional: true})
					batch.Append(record.Record{Timestamp: b.nowMs(), Key: pending.AppendTo(nil), Value: value.AppendTo(nil)})
					b.appendAs(groups.OffsetsTopic, 0, batch.Bytes())
					if ended != "" {
						b.endTxn(groups.OffsetsTopic, 5, ended == "committed")
					}
					b.s.groups = groups.New(groups.Options{Store: b.store, Now: b.time})
					ctx, stop := context.WithCancel(t.Context())
					done := make(chan error)
					go func() { done <- b.s.groups.Run(ctx) }()
					synctest.Wait()
					stable, plain := int64(-1), int64(7)
					code := int16(88)
					if ended != "" {
						stable, code = 7, 0
					}
					if ended == "committed" {
						stable, plain = 9, 9
					}
					for _, c := range []struct {
						requireStable bool
						offset        int64
						code          int16
					}{{true, stable, code}, {false, plain, 0}} {
						for _, all := range []bool{false, true} {
							if p := b.fetchOrders(v, c.requireStable, all); p.Offset != c.offset || p.ErrorCode != c.code {
								t.Errorf("stable %v, all %v: got %d and code %d, want %d and %d", c.requireStable, all, p.Offset, p.ErrorCode, c.offset, c.code)
							}
						}
					}
					stop()
					<-done
				})
			})
		}
	}
}

// fetchOrders asks for orders-0 of the group g, or for all, which is the same.
func (b *broker) fetchOrders(version int16, requireStable, all bool) kmsg.OffsetFetchResponseGroupTopicPartition {
	b.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group, req.RequireStable = version, "g", requireStable
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = "g"
	if !all {
		orders, _ := b.store.Topic("orders")
		req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "orders", Partitions: []int32{0}}}
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "orders", TopicID: orders.ID(), Partitions: []int32{0}}}
	}
	req.Groups = []kmsg.OffsetFetchRequestGroup{g}
	resp := ask[*kmsg.OffsetFetchResponse](b, req)
	if version < 8 {
		p := resp.Topics[0].Partitions[0]
		return kmsg.OffsetFetchResponseGroupTopicPartition{Offset: p.Offset, ErrorCode: p.ErrorCode}
	}
	return resp.Groups[0].Topics[0].Partitions[0]
}
