package groups

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

const scriptGroup = "kitchen"

var scriptStart = time.UnixMilli(1_700_000_000_000)

// script tells what happens to a group of any kind in a world.
type script struct {
	t    *testing.T
	w    *groupWorld
	out  strings.Builder
	last string // what was last said of the group
	// state is what is said of the group, and whether a step of it is in flight.
	state func() string
}

func newScript() script { return script{w: newGroupWorld(), last: "no group"} }

// walk runs the stories in a folder, each by the commands that begin makes.
func walk(t *testing.T, folder string, begin func(t *testing.T) (sc *script, run func(d *datadriven.TestData))) {
	datadriven.Walk(t, folder, func(t *testing.T, path string) {
		sc, run := begin(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			sc.t = t
			sc.out.Reset()
			run(d)
			sc.sayState()
			return sc.out.String()
		})
	})
}

// runWorld executes a command that scripts of every kind know:
//
//	topic NAME=PARTITIONS…                  made, or given partitions; 0 deletes it
//	advance D                               time goes by, deadline after deadline
//	hold, durable, fail                     the next step waits for the disk, which takes or refuses it
//	crash                                   only what is durable is left, and is read again
//	simple                                  the group commits an offset, without members
//
// Time is told from the start of the script.
func (sc *script) runWorld(d *datadriven.TestData) {
	w := sc.w
	switch d.Cmd {
	case "topic":
		for _, a := range d.CmdArgs {
			n, err := strconv.Atoi(a.Vals[0])
			if err != nil {
				d.Fatalf(sc.t, "%v", err)
			}
			w.topic(a.Key, int32(n))
		}
	case "advance":
		by, err := time.ParseDuration(arg(d, 0))
		if err != nil {
			d.Fatalf(sc.t, "%v", err)
		}
		for until := w.now.Add(by); w.advance(until); {
			sc.say("t=%v", w.now.Sub(scriptStart))
			sc.sayState()
		}
	case "hold":
		w.held = true
	case "durable", "fail":
		if w.flight == nil {
			d.Fatalf(sc.t, "nothing is in flight")
		}
		var err error
		if d.Cmd == "fail" {
			err = fmt.Errorf("disk: %w", ErrNotCoordinator)
		}
		w.settle(err)
	case "crash":
		w.crash(sc.t)
	case "simple":
		w.shard.apply(change{group: scriptGroup, key: offsetKey{"orders", 0}, offset: &Offset{ExpireMs: -1}})
	default:
		d.Fatalf(sc.t, "unknown command %q", d.Cmd)
	}
}

func (sc *script) say(format string, args ...any) {
	fmt.Fprintf(&sc.out, format+"\n", args...)
}

// call runs f, and tells when it has to wait.
func (sc *script) call(f func() step) {
	if sc.w.call(f) {
		sc.say("waits")
	}
}

// sayState tells of the group when something of it has changed.
func (sc *script) sayState() {
	if text := sc.state(); text != sc.last {
		sc.last = text
		sc.say("-> %s", text)
	}
}

// sayExpiry tells when an offset of a topic expires that was committed at a time.
func (sc *script) sayExpiry(d *datadriven.TestData) {
	at, ok := sc.w.entry().machine.expires(arg(d, 0), scriptStart.Add(durationArg(sc.t, d, "commit", 0)).UnixMilli(), time.Hour)
	if ok {
		sc.say("at t=%v", at.Sub(scriptStart))
	} else {
		sc.say("never")
	}
}

// arg is the i-th word after the command that is no name=value, "" when there is none.
func arg(d *datadriven.TestData, i int) string {
	for _, a := range d.CmdArgs {
		if len(a.Vals) > 0 {
			continue
		}
		if i == 0 {
			return a.Key
		}
		i--
	}
	return ""
}

func list(d *datadriven.TestData, name, otherwise string) []string {
	for _, a := range d.CmdArgs {
		if a.Key == name {
			return a.Vals
		}
	}
	if otherwise == "" {
		return nil
	}
	return []string{otherwise}
}

func number(t *testing.T, d *datadriven.TestData, name string, otherwise int) int {
	d.MaybeScanArgs(t, name, &otherwise)
	return otherwise
}

// optionalArg is nil when a script does not name it.
func optionalArg(t *testing.T, d *datadriven.TestData, name string) *string {
	var s string
	if !d.MaybeScanArgs(t, name, &s) {
		return nil
	}
	switch s {
	case `""`:
		s = ""
	case "blank":
		s = " \t"
	}
	return &s
}

func durationArg(t *testing.T, d *datadriven.TestData, name string, otherwise time.Duration) time.Duration {
	text := otherwise.String()
	d.MaybeScanArgs(t, name, &text)
	v, err := time.ParseDuration(text)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return v
}
