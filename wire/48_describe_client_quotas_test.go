package wire

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// describeQuotas sends a DescribeClientQuotas request. A component is TYPE=NAME for an exact match, TYPE=<> for the
// default, TYPE=* for any. The answer is an error code and a line for each entity.
func (b *broker) describeQuotas(version int16, strict bool, components ...string) (int16, []string) {
	b.t.Helper()
	req := kmsg.NewPtrDescribeClientQuotasRequest()
	req.Version, req.Strict = version, strict
	for _, text := range components {
		kind, name, _ := strings.Cut(text, "=")
		c := kmsg.NewDescribeClientQuotasRequestComponent()
		c.EntityType = kind
		switch name {
		case "<>":
			c.MatchType = matchDefault
		case "*":
			c.MatchType = matchAny
		default:
			c.Match = &name
		}
		req.Components = append(req.Components, c)
	}
	return describedQuotas(ask[*kmsg.DescribeClientQuotasResponse](b, req))
}

func describedQuotas(resp *kmsg.DescribeClientQuotasResponse) (int16, []string) {
	var lines []string
	for _, e := range resp.Entries {
		var parts []string
		for _, p := range e.Entity {
			name := "<>"
			if p.Name != nil {
				name = *p.Name
			}
			parts = append(parts, p.Type+"="+name)
		}
		line := strings.Join(parts, ",") + ":"
		for _, v := range e.Values {
			line += fmt.Sprintf(" %s=%g", v.Key, v.Value)
		}
		lines = append(lines, line)
	}
	return resp.ErrorCode, lines
}

// quotas of TestDescribeClientQuotas, as describeQuotas gives them.
const (
	annsLine    = "user=ann: consumer_byte_rate=20 producer_byte_rate=10"
	annsAppLine = "client-id=app,user=ann: request_percentage=12.5"
	usersLine   = "user=<>: producer_byte_rate=30"
	bothLine    = "client-id=<>,user=<>: producer_byte_rate=40"
	appLine     = "client-id=app: producer_byte_rate=50"
	ipLine      = "ip=10.0.0.1: connection_creation_rate=60"
	ipsLine     = "ip=<>: connection_creation_rate=70"
)

func TestDescribeClientQuotas(t *testing.T) {
	b := newBroker(t, nil)
	for _, line := range []string{annsLine, annsAppLine, usersLine, bothLine, appLine, ipLine, ipsLine} {
		entity, values, _ := strings.Cut(line, ": ")
		if code, _ := b.alterQuotas(1, false, entity, strings.Fields(values)...); code != 0 {
			t.Fatalf("%s: code %d", line, code)
		}
	}
	for version := range int16(2) {
		for _, c := range []struct {
			strict bool
			filter string
			want   []string
		}{
			{false, "", []string{bothLine, usersLine, annsAppLine, annsLine, appLine, ipsLine, ipLine}},
			{true, "", nil},
			{false, "user=ann", []string{annsAppLine, annsLine}},
			{true, "user=ann", []string{annsLine}},
			{false, "user=<>", []string{bothLine, usersLine}},
			{true, "user=<>", []string{usersLine}},
			{false, "user=*", []string{bothLine, usersLine, annsAppLine, annsLine}},
			{true, "user=*", []string{usersLine, annsLine}},
			{false, "client-id=app", []string{annsAppLine, appLine}},
			{false, "user=* client-id=*", []string{bothLine, annsAppLine}},
			{true, "user=ann client-id=app", []string{annsAppLine}},
			{true, "user=ann client-id=<>", nil},
			{true, "ip=*", []string{ipsLine, ipLine}},
			{true, "ip=<>", []string{ipsLine}},
			{true, "ip=10.0.0.1", []string{ipLine}},
			{true, "ip=10.0.0.2", nil},
			{true, "user=", nil}, // no entity has an empty name
		} {
			code, got := b.describeQuotas(version, c.strict, strings.Fields(c.filter)...)
			slices.Sort(got)
			slices.Sort(c.want)
			if code != 0 || !slices.Equal(got, c.want) {
				t.Errorf("version %d, strict %v, filter %q: code %d and\n%s\nwant\n%s", version, c.strict, c.filter, code, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		}
	}
}

func TestDescribeClientQuotasRefusesFilters(t *testing.T) {
	b := newBroker(t, nil)
	for version := range int16(2) {
		for filter, want := range map[string]int16{
			"=x":               42,
			"user=a user=b":    42,
			"user=a user=*":    42,
			"group=x":          35,
			"user=a ip=1.1.1.": 42,
			"ip=* client-id=*": 42,
		} {
			if code, _ := b.describeQuotas(version, false, strings.Fields(filter)...); code != want {
				t.Errorf("version %d, filter %q: code %d, want %d", version, filter, code, want)
			}
		}
		for _, c := range []struct {
			kind  kmsg.QuotasMatchType
			match *string
		}{{0, nil}, {1, kmsg.StringPtr("a")}, {2, kmsg.StringPtr("a")}, {3, nil}, {-1, nil}} {
			req := kmsg.NewPtrDescribeClientQuotasRequest()
			req.Version = version
			req.Components = []kmsg.DescribeClientQuotasRequestComponent{{EntityType: "user", MatchType: c.kind, Match: c.match}}
			resp := ask[*kmsg.DescribeClientQuotasResponse](b, req)
			if resp.ErrorCode != 42 || resp.ErrorMessage == nil || resp.Entries != nil {
				t.Errorf("version %d, match type %d: answer %+v, want code 42, a message and null", version, c.kind, resp)
			}
		}
	}
}
