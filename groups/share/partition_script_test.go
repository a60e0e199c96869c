package share

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestPartitionScripts runs the stories in testdata/partition. Their commands are in
// (*partitionScript).run.
func TestPartitionScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/partition", func(t *testing.T, path string) {
		sc := &partitionScript{limits: Limits{MaxLocks: 2000, MaxDeliveries: 5, Lock: 30 * time.Second}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return sc.run(t, d) })
	})
}

// partitionScript is one partition, and the log and the disk as the script has them.
type partitionScript struct {
	limits Limits
	now    time.Duration
	p      *Partition
	log    []Extent  // the batches
	hold   bool      // changes wait for the disk
	held   []*Change // in order
}

// run executes one command:
//
//	new [start=N] [stored=(FIRST-LAST:STATE:DELIVERIES,…)]
//	limits [locks=N] [deliveries=N] [lock=D] [renew=no]
//	log FIRST-LAST…                         the batches of the log
//	fetch MEMBER [max=N] [batch=N] [limited] [upto=N] [aborted=(FIRST-LAST,…)]
//	                                        reads the log where the partition says and acquires
//	ack MEMBER FIRST-LAST=TYPE,…            one type for all, or one for each
//	release MEMBER, log-start N
//	advance D                               time goes by, deadline after deadline
//	hold, durable, fail                     changes wait; the first is stored; it is not
//
// What is written is told, then the runs. Time is told from the start of the script.
func (sc *partitionScript) run(t *testing.T, d *datadriven.TestData) string {
	var out strings.Builder
	switch d.Cmd {
	case "new":
		var start int64
		d.MaybeScanArgs(t, "start", &start)
		var stored []Batch
		for _, text := range values(d, "stored") {
			f := strings.Split(text, ":")
			n, _ := strconv.Atoi(f[2])
			stored = append(stored, Batch{extent(t, d, f[0]), stateOf(f[1]), int16(n)})
		}
		sc.p = NewPartition(start, stored, func() Limits { return sc.limits })
	case "limits":
		d.MaybeScanArgs(t, "locks", &sc.limits.MaxLocks)
		d.MaybeScanArgs(t, "deliveries", &sc.limits.MaxDeliveries)
		if v := values(d, "lock"); v != nil {
			sc.limits.Lock, _ = time.ParseDuration(v[0])
		}
		sc.limits.RenewRefused = values(d, "renew") != nil
		return ""
	case "log":
		sc.log = nil
		for _, a := range d.CmdArgs {
			sc.log = append(sc.log, extent(t, d, a.Key))
		}
		return ""
	case "fetch":
		q := &Acquisition{Member: d.CmdArgs[0].Key, RecordLimit: d.HasArg("limited"), BatchSize: 500, MaxRecords: 500, Offset: sc.p.NextFetch()}
		d.MaybeScanArgs(t, "max", &q.MaxRecords)
		d.MaybeScanArgs(t, "batch", &q.BatchSize)
		upto := int64(1 << 40)
		d.MaybeScanArgs(t, "upto", &upto)
		for _, b := range sc.log {
			if b.Last >= q.Offset && b.First <= upto {
				q.Batches = append(q.Batches, b)
			}
		}
		for _, text := range values(d, "aborted") {
			q.Aborted = append(q.Aborted, extent(t, d, text))
		}
		fmt.Fprintf(&out, "reads at %d:", q.Offset)
		if !sc.p.CanAcquire() {
			out.WriteString(" full\n")
			break
		}
		got := sc.p.Acquire(sc.time(), q)
		for _, r := range got {
			fmt.Fprintf(&out, " %d-%d×%d", r.First, r.Last, r.Deliveries)
		}
		if len(got) == 0 {
			out.WriteString(" nothing")
		}
		out.WriteString("\n")
	case "ack":
		var acks []Ack
		for _, a := range d.CmdArgs[1:] {
			ack := Ack{Extent: extent(t, d, a.Key)}
			for _, v := range a.Vals {
				ack.Types = append(ack.Types, map[string]AckType{"gap": Gap, "accept": Accept, "release": Release, "reject": Reject, "renew": Renew, "odd": 9}[v])
			}
			acks = append(acks, ack)
		}
		c, err := sc.p.Acknowledge(sc.time(), d.CmdArgs[0].Key, acks)
		if err != nil {
			fmt.Fprintf(&out, "%v\n", err)
		}
		sc.write(&out, c)
	case "release":
		sc.write(&out, sc.p.Release(d.CmdArgs[0].Key))
	case "log-start":
		n, _ := strconv.ParseInt(d.CmdArgs[0].Key, 10, 64)
		sc.p.LogStarts(n)
	case "advance":
		by, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		for end := sc.now + by; ; {
			next := sc.p.Next()
			if next.IsZero() || next.Sub(epoch) > end {
				sc.now = end
				break
			}
			sc.now = max(sc.now, next.Sub(epoch))
			fmt.Fprintf(&out, "at %v:\n", sc.now)
			sc.write(&out, sc.p.Tick(sc.time()))
		}
	case "hold":
		sc.hold = true
		return ""
	case "durable", "fail":
		c := sc.held[0]
		sc.held = sc.held[1:]
		sc.p.Finish(c, d.Cmd == "durable")
	default:
		d.Fatalf(t, "command %q, want one of (*partitionScript).run", d.Cmd)
	}
	sc.describe(&out)
	return out.String()
}

var epoch = time.UnixMilli(0)

func (sc *partitionScript) time() time.Time { return epoch.Add(sc.now) }

// write tells a change, and stores it unless it is held.
func (sc *partitionScript) write(out *strings.Builder, c *Change) {
	if c == nil {
		return
	}
	fmt.Fprintf(out, "writes start=%d complete=%d", c.Start, c.Complete)
	for _, b := range c.Batches {
		fmt.Fprintf(out, " %d-%d:%v×%d", b.First, b.Last, b.State, b.Deliveries)
	}
	out.WriteString("\n")
	if sc.hold {
		sc.held = append(sc.held, c)
		return
	}
	sc.p.Finish(c, true)
}

// describe tells what there is.
func (sc *partitionScript) describe(out *strings.Builder) {
	fmt.Fprintf(out, "start=%d end=%d next=%d\n", sc.p.start, sc.p.end, sc.p.NextFetch())
	for _, r := range sc.p.runs {
		fmt.Fprintf(out, "  %d-%d %v×%d", r.First, r.Last, r.state, r.deliveries)
		if r.gap {
			out.WriteString(" unknown")
		}
		if r.state == Acquired {
			fmt.Fprintf(out, " %s until %v", r.owner, r.deadline.Sub(epoch))
		}
		if r.change != nil {
			fmt.Fprintf(out, " becoming %v", r.next)
		}
		out.WriteString("\n")
	}
}

func values(d *datadriven.TestData, key string) []string {
	for _, a := range d.CmdArgs {
		if a.Key == key {
			return a.Vals
		}
	}
	return nil
}

func extent(t *testing.T, d *datadriven.TestData, text string) Extent {
	first, last, ok := strings.Cut(text, "-")
	if !ok {
		last = first
	}
	a, err1 := strconv.ParseInt(first, 10, 64)
	b, err2 := strconv.ParseInt(last, 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		d.Fatalf(t, "%v", err)
	}
	return Extent{a, b}
}

func stateOf(text string) RecordState {
	for _, s := range []RecordState{Available, Acknowledged, Archived} {
		if s.String() == text {
			return s
		}
	}
	return archiving
}
