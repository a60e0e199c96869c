package txn

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/cockroachdb/datadriven"
)

// TestTableOfStatesAndCalls runs testdata/table: each command is a call, and its output what
// becomes of it in every state, for every producer that may make it. The transaction is of
// 5.7, began at 10 ms, and holds orders-0; its client is of the first version. What is done
// at 20 ms is the next transaction.
//
//	init             nobody is expected
//	init-expected    by the producer
//	add, add-v2      orders-1
//	add-again        orders-0
//	verify           orders-0
//	commit, abort, commit-v2, abort-v2
//	time-out         of 60 s, at 61 s
//	expire           an id that was not used for 7 days
func TestTableOfStatesAndCalls(t *testing.T) {
	datadriven.RunTest(t, "testdata/table", func(t *testing.T, d *datadriven.TestData) string {
		var b strings.Builder
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		producers := []Producer{{5, 7}, {5, 6}, {5, 8}, {4, 7}}
		if d.Cmd == "init" || d.Cmd == "time-out" || d.Cmd == "expire" {
			producers = producers[:1]
		}
		for _, p := range producers {
			fmt.Fprintf(w, "\t%s", producerText(p))
		}
		fmt.Fprintln(w)
		for _, row := range tableRows() {
			fmt.Fprint(w, row.name)
			for _, p := range producers {
				fmt.Fprintf(w, "\t%s", row.call(t, d, p))
			}
			fmt.Fprintln(w)
		}
		w.Flush()
		var out strings.Builder
		for line := range strings.Lines(b.String()) {
			out.WriteString(strings.TrimRight(line, " \n") + "\n")
		}
		return out.String()
	})
}

// tableRow is a state in which a call may find an id.
type tableRow struct {
	name string
	e    *entry
}

func tableRows() []tableRow {
	is := func(s state) *transaction {
		t := &transaction{id: "x", Producer: Producer{5, 7}, previousID: 5, nextID: -1, lastEpoch: -1, state: s, timeoutMs: 60000, startMs: 10, updateMs: 15}
		if s == ongoing || s.prepared() {
			t.partitions = []Partition{{"orders", 0}}
		}
		return t
	}
	rows := []tableRow{{"unknown", nil}}
	for _, s := range []state{empty, ongoing, prepareCommit, prepareAbort, completeCommit, completeAbort} {
		e := &entry{t: is(s)}
		if s.prepared() {
			e.end = &ending{}
		}
		rows = append(rows, tableRow{s.String(), e})
	}
	// In these a record is on its way to the disk.
	return append(rows, tableRow{"made", &entry{busy: true}}, tableRow{"Empty, busy", &entry{t: is(empty), busy: true}}, tableRow{"Ongoing, busy", &entry{t: is(ongoing), busy: true}})
}

// call returns what becomes of a call by the producer.
func (r tableRow) call(t *testing.T, d *datadriven.TestData, p Producer) string {
	is, pending := r.e.known(), r.e.pending()
	var next *transaction
	var err error
	switch d.Cmd {
	case "init":
		next, err = initStep("x", 60000, nil)(20, is, pending, 9)
	case "init-expected":
		next, err = initStep("x", 60000, &p)(20, is, pending, 9)
	case "add", "add-v2", "add-again":
		r := AddRequest{TransactionalID: "x", Producer: p, Partitions: []Partition{{"orders", 1}}, V2: d.Cmd == "add-v2"}
		if d.Cmd == "add-again" {
			r.Partitions = []Partition{{"orders", 0}}
		}
		next, err = addStep(r)(20, is, pending, -1)
	case "verify":
		errs, err := is.verify(p, []Partition{{"orders", 0}})
		return kafkaName(errors.Join(append(errs, err)...))
	case "commit", "abort", "commit-v2", "abort-v2":
		verb, v2 := strings.CutSuffix(d.Cmd, "-v2")
		next, err = endStep(EndRequest{TransactionalID: "x", Producer: p, Commit: verb == "commit", V2: v2})(20, is, pending, -1)
	case "time-out":
		if is == nil || pending {
			return "-"
		}
		return fmt.Sprint(is.timedOut(60010), " ", is.timedOut(60011))
	case "expire":
		if is == nil || pending {
			return "-"
		}
		return fmt.Sprint(is.expired(114, 100), " ", is.expired(115, 100))
	default:
		d.Fatalf(t, "unknown command %q", d.Cmd)
	}
	switch {
	case err != nil:
		return kafkaName(err)
	case next == is:
		return "NONE"
	}
	text := fmt.Sprintf("%v %s", next.state, producerText(next.Producer))
	if next.version != 0 {
		text += fmt.Sprint(" v", next.version)
	}
	if next.lastEpoch != -1 {
		text += fmt.Sprint(" last=", next.lastEpoch)
	}
	if next.startMs != -1 {
		text += fmt.Sprint(" began=", next.startMs)
	}
	if len(next.partitions) > 0 {
		text += " " + partitionsText(next.partitions)
	}
	return text
}

// Nobody ends a transaction that its client prepares by itself (KIP-939).
func TestATransactionWithoutATimeoutDoesNotTimeOut(t *testing.T) {
	is := &transaction{state: ongoing, timeoutMs: noTimeout, startMs: 10}
	if is.timedOut(1 << 60) {
		t.Error("timed out")
	}
	if is.expired(1<<60, 1) {
		t.Error("an open transaction expired")
	}
}
