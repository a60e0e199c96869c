package wire

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func electLeadersRequest(version int16, kind int8, topics ...kmsg.ElectLeadersRequestTopic) *kmsg.ElectLeadersRequest {
	req := kmsg.NewPtrElectLeadersRequest()
	req.Version, req.ElectionType, req.Topics = version, kind, topics
	return req
}

// elect returns the code of the answer and its rows, each a codeRow. A topic without rows is one by its name alone.
func (b *broker) elect(req *kmsg.ElectLeadersRequest) (int16, []string) {
	b.t.Helper()
	resp := ask[*kmsg.ElectLeadersResponse](b, req)
	var rows []string
	for _, topic := range resp.Topics {
		if len(topic.Partitions) == 0 {
			rows = append(rows, topic.Topic)
		}
		for _, p := range topic.Partitions {
			rows = append(rows, codeRow(topic.Topic, p.Partition, p.ErrorCode, p.ErrorMessage))
		}
	}
	return resp.ErrorCode, rows
}

// codeRow is topic-partition code, with a dot behind a code without words.
func codeRow(topic string, partition int32, code int16, words *string) string {
	row := fmt.Sprintf("%s-%d %d", topic, partition, code)
	if words == nil {
		row += "."
	}
	return row
}

func TestElectLeaders(t *testing.T) {
	b := newBroker(t, nil)
	b.topic("u", 1)
	b.topic("t", 2)
	some := []kmsg.ElectLeadersRequestTopic{
		{Topic: "t", Partitions: []int32{1, 0, 2, -1, 1}}, {Topic: "ghost", Partitions: []int32{0}},
		{Topic: "u"}, {Topic: "t", Partitions: []int32{0}},
	}
	answers := []string{"t-1 84", "t-0 84", "t-2 3", "t--1 3", "t-1 84", "ghost-0 3", "u", "t-0 84"}
	all := func(code string) (rows []string) {
		for _, row := range []string{"t-1", "t-0", "t-2", "t--1", "t-1", "ghost-0", "u", "t-0"} {
			if row != "u" {
				row += " " + code
			}
			rows = append(rows, row)
		}
		return rows
	}
	none := []kmsg.ElectLeadersRequestTopic{}
	for version := range int16(3) {
		for _, c := range []struct {
			what      string
			from      int16
			kind      int8
			timeoutMs int32
			topics    []kmsg.ElectLeadersRequestTopic
			code      int16
			rows      []string
		}{
			{"ADM-19 a partition", 0, 0, 100, []kmsg.ElectLeadersRequestTopic{{Topic: "t", Partitions: []int32{0}}}, 0, []string{"t-0 84"}},
			{"ADM-19 all partitions", 0, 0, 100, nil, 0, []string{"t", "u"}},
			{"some", 0, 0, 100, some, 0, answers},
			{"none", 0, 0, 100, none, 0, nil},
			{"unclean", 1, 1, 100, some, 0, answers},
			{"unclean, all", 1, 1, 100, nil, 0, []string{"t", "u"}},
			{"an unknown kind", 1, 2, 100, some, 42, all("42")},
			{"an unknown kind, all", 1, -1, 100, nil, 42, nil},
			{"an unknown kind, none", 1, 2, 100, none, 0, nil},
			{"no time", 0, 0, 0, some, 7, all("7.")},
			{"no time, all", 0, 0, -1, nil, 7, nil},
			{"no time, none", 0, 0, 0, none, 0, nil},
			{"no time and an unknown kind", 1, 2, 0, some, 7, all("7.")},
		} {
			if version < c.from {
				continue
			}
			t.Run(fmt.Sprintf("%s/v%d", c.what, version), func(t *testing.T) {
				req := electLeadersRequest(version, c.kind, c.topics...)
				req.TimeoutMillis = c.timeoutMs
				code, rows := b.elect(req)
				want := c.code
				if version == 0 {
					want = 0 // there is no room for it
				}
				if code != want || !slices.Equal(rows, c.rows) {
					t.Errorf("got code %d, %q; want %d, %q", code, rows, want, c.rows)
				}
			})
		}
	}
}

// TestElectLeadersOfOfflinePartition asks for leaders of a partition that has none and cannot get one.
func TestElectLeadersOfOfflinePartition(t *testing.T) {
	b := newBroker(t, nil)
	b.topic("t", 2)
	b.topic("u", 1)
	for i := range 3 {
		b.mustProduce("t", 0, b.batch(fmt.Sprint(i)))
	}
	b.damage("t-0")
	if p := b.fetchOne(b.fetchRequest(6, asked{"t", 0, 0})); p.ErrorCode != 56 {
		t.Fatalf("fetch: got error %d, want 56", p.ErrorCode)
	}
	for kind, want := range map[int8]string{0: "80", 1: "83"} {
		code, rows := b.elect(electLeadersRequest(2, kind, kmsg.ElectLeadersRequestTopic{Topic: "t", Partitions: []int32{0, 1}}))
		if rowsWant := []string{"t-0 " + want, "t-1 84"}; code != 0 || !slices.Equal(rows, rowsWant) {
			t.Errorf("kind %d: got code %d, %q; want 0, %q", kind, code, rows, rowsWant)
		}
		code, rows = b.elect(electLeadersRequest(2, kind))
		if rowsWant := []string{"t-0 " + want, "u"}; code != 0 || !slices.Equal(rows, rowsWant) {
			t.Errorf("kind %d, all: got code %d, %q; want 0, %q", kind, code, rows, rowsWant)
		}
	}
}
