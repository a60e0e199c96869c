package wire

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestListTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withTransactions(newRunningBroker(t, nil))
		b.topic("orders", 1)
		old := b.txnProducer("old")
		old.add("orders", 0)
		time.Sleep(5 * time.Second)
		young := b.txnProducer("young")
		young.add("orders", 0)
		b.txnProducer("idle")
		long := strings.Repeat("a", 5<<10)
		for _, c := range []struct {
			what     string
			from     int16
			states   []string
			ids      []int64
			duration int64
			pattern  *string
			code     int16
			unknown  []string
			want     []string
		}{
			{what: "all", duration: -1, want: []string{"idle Empty", "old Ongoing", "young Ongoing"}},
			{what: "a state", states: []string{"Empty"}, duration: -1, want: []string{"idle Empty"}},
			{what: "two states", states: []string{"Empty", "Ongoing"}, duration: -1, want: []string{"idle Empty", "old Ongoing", "young Ongoing"}},
			{what: "a state that is none", states: []string{"ongoing", "Gone"}, duration: -1, unknown: []string{"ongoing", "Gone"}},
			{what: "a state and one that is none", states: []string{"Gone", "Ongoing"}, duration: -1, unknown: []string{"Gone"}, want: []string{"old Ongoing", "young Ongoing"}},
			{what: "a hidden state", states: []string{"Dead"}, duration: -1},
			{what: "producers", ids: []int64{old.ID, 77_777}, duration: -1, want: []string{"old Ongoing"}},
			{what: "a producer and a state", states: []string{"Empty"}, ids: []int64{old.ID}, duration: -1},
			{what: "for more than 4 s", from: 1, duration: 4000, states: []string{"Ongoing"}, want: []string{"old Ongoing"}},
			{what: "for more than 5 s", from: 1, duration: 5000, states: []string{"Ongoing"}},
			{what: "for more than 0 s", from: 1, duration: 0, states: []string{"Ongoing"}, want: []string{"old Ongoing"}},
			{what: "for ever", from: 1, duration: 1<<63 - 1},
			{what: "a pattern", from: 2, duration: -1, pattern: new("(?i)O.*|you"), want: []string{"old Ongoing"}},
			{what: "any pattern", from: 2, duration: -1, pattern: new(""), want: []string{"idle Empty", "old Ongoing", "young Ongoing"}},
			{what: "a quoted pattern", from: 2, duration: -1, pattern: new(`\Qold`), want: []string{"old Ongoing"}},
			{what: "no pattern of RE2", from: 2, duration: -1, pattern: new(`(?=a)`), code: 128},
			{what: "not a pattern", from: 2, duration: -1, pattern: new("a)(b"), code: 128},
			{what: "a pattern that is too long", from: 2, duration: -1, pattern: &long, code: 128},
		} {
			for v := c.from; v <= 2; v++ {
				req := kmsg.NewPtrListTransactionsRequest()
				req.Version, req.StateFilters, req.ProducerIDFilters, req.DurationFilterMillis, req.TransactionalIDPattern = v, c.states, c.ids, c.duration, c.pattern
				resp := ask[*kmsg.ListTransactionsResponse](b, req)
				var got []string
				for _, t := range resp.TransactionStates {
					got = append(got, t.TransactionalID+" "+t.TransactionState)
				}
				if resp.ErrorCode != c.code || !slices.Equal(resp.UnknownStateFilters, c.unknown) || !slices.Equal(got, c.want) {
					t.Errorf("v%d, %s: error %d, unknown %q, %q; want %d, %q, %q", v, c.what, resp.ErrorCode, resp.UnknownStateFilters, got, c.code, c.unknown, c.want)
				}
			}
		}
	})
}

func TestListTransactionsHidesOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withTransactions(newRunningBroker(t, withAuthorizer()))
		b.r.principal = "User:low"
		b.txnProducer("mine-1")
		b.txnProducer("theirs")
		b.allow(opDescribe, resourceTransactionalID, "mine-+")
		for v := range int16(3) {
			req := kmsg.NewPtrListTransactionsRequest()
			req.Version = v
			resp := ask[*kmsg.ListTransactionsResponse](b, req)
			if resp.ErrorCode != 0 || len(resp.TransactionStates) != 1 || resp.TransactionStates[0].TransactionalID != "mine-1" {
				t.Errorf("v%d: %+v, want mine-1 alone", v, resp)
			}
		}
	})
}
