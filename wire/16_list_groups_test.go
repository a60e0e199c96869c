package wire

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups"
)

// listed asks for groups and returns a line for each.
func (b *broker) listed(version int16, states, types []string) []string {
	b.t.Helper()
	req := kmsg.NewPtrListGroupsRequest()
	req.Version, req.StatesFilter, req.TypesFilter = version, states, types
	return listLines(b.t, ask[*kmsg.ListGroupsResponse](b, req))
}

func listLines(t testing.TB, resp *kmsg.ListGroupsResponse) (lines []string) {
	t.Helper()
	if resp.ErrorCode != 0 {
		t.Fatalf("version %d: code %d, want 0", resp.Version, resp.ErrorCode)
	}
	for _, g := range resp.Groups {
		lines = append(lines, fmt.Sprintf("%s %q %s %s", g.Group, g.ProtocolType, g.GroupState, g.GroupType))
	}
	return lines
}

func TestListGroupsOfSimpleConsumers(t *testing.T) {
	for v := range int16(6) {
		b := withGroups(newBroker(t, nil))
		if got := b.listed(v, nil, nil); len(got) != 0 {
			t.Errorf("version %d without groups: got %q, want none", v, got)
		}
		b.topic("orders", 1)
		for _, g := range []string{"kitchen", "courier"} {
			req := b.commitRequest(8, "orders", 0)
			req.Group = g
			b.commitCode(req)
		}
		rest := []string{"  ", "  ", "  ", "  ", " Empty ", " Empty classic"}[v]
		want := []string{`courier ""` + rest, `kitchen ""` + rest}
		if got := b.listed(v, nil, nil); !slices.Equal(got, want) {
			t.Errorf("OFFS-04 version %d: got %q, want %q", v, got, want)
		}
	}
}

func TestListGroupsFilters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newGroupServer(t, map[string]string{"group.initial.rebalance.delay.ms": "0"})
		s.topic("orders", 1)
		s.pair(t, groupVersions{9, 4, 5, 5, 6})
		s.commitCode(s.commitRequest(8, "orders", 0))
		c := s.dial(t)
		for _, x := range []struct {
			version       int16
			states, types []string
			want          []string
		}{
			{version: 3, want: []string{`g ""  `, `kitchen "consumer"  `}},
			{version: 4, want: []string{`g "" Empty `, `kitchen "consumer" Stable `}},
			{version: 4, states: []string{"Empty"}, want: []string{`g "" Empty `}},
			{version: 4, states: []string{" stable"}, want: []string{`kitchen "consumer" Stable `}},
			{version: 4, states: []string{"Bogus"}},
			{version: 4, states: []string{"Bogus", "EMPTY"}, want: []string{`g "" Empty `}},
			{version: 5, types: []string{"classic"}, want: []string{`g "" Empty classic`, `kitchen "consumer" Stable classic`}},
			{version: 5, types: []string{"Classic"}, states: []string{"stable"}, want: []string{`kitchen "consumer" Stable classic`}},
			{version: 5, types: []string{"consumer", "share"}},
			{version: 5, types: []string{"bogus"}},
		} {
			req := kmsg.NewPtrListGroupsRequest()
			req.Version, req.StatesFilter, req.TypesFilter = x.version, x.states, x.types
			if got := listLines(t, c.call(req).(*kmsg.ListGroupsResponse)); !slices.Equal(got, x.want) {
				t.Errorf("GRP-14 v%d %q %q: got %q, want %q", x.version, x.states, x.types, got, x.want)
			}
		}
	})
}

func TestListGroupsWhileGroupsAreRead(t *testing.T) {
	b := withGroups(newBroker(t, nil))
	b.topic("orders", 1)
	b.commitCode(b.commitRequest(8, "orders", 0))
	b.s.groups = groups.New(groups.Options{Store: b.store, Now: b.time}) // which has read nothing
	req := kmsg.NewPtrListGroupsRequest()
	req.Version = 5
	if resp := ask[*kmsg.ListGroupsResponse](b, req); resp.ErrorCode != 14 || len(resp.Groups) != 0 {
		t.Errorf("got %+v, want 14 and no groups", resp)
	}
}
