package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// TestScripts runs the stories in testdata/scripts. Their commands are in (*script).run.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			sc := &script{t: t, w: newWorld(t), seen: map[string]int{}}
			defer func() { sc.w.stop() }()
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				sc.out.Reset()
				sc.run(d)
				synctest.Wait()
				sc.answers()
				sc.news()
				return sc.out.String()
			})
		})
	})
}

// script tells what happens to transactions in a world. After each command it says which
// records and markers have become durable:
//
//	-> ID: the record in __transaction_state
//	=> LOG: the marker
type script struct {
	t     *testing.T
	w     *world
	out   strings.Builder
	seen  map[string]int // records that were told of, by topic id and partition
	calls []*scriptCall  // without an answer
	given int            // markers that were told of and went to the group coordinator
}

type scriptCall struct {
	name   string
	answer chan string
	waited bool
}

// run executes one command:
//
//	topic NAME=PARTITIONS…, delete NAME
//	init ID [timeout=D] [expected=P]
//	add ID P [v2] in=(PARTITION,…), verify ID P in=(PARTITION,…)
//	end ID P commit|abort [v2]
//	produce P to=PARTITION
//	describe ID, list [states=(S,…)] [producers=(N,…)] [longer=D] [pattern=RE], available ID
//	advance D                       time goes by, and what is due is done
//	exhaust ID epoch=N              the epoch of an id is N from here on
//	hold LOG, durable LOG           the syncs of a log wait; one is let through
//	fail LOG, free LOG              it fails, and the others need not wait; none need wait
//	refuse, accept                  the group coordinator takes no markers
//	restart, crash                  the broker is stopped, or all that is not durable is lost
//	stop                            the broker stops, and takes calls
//
// A producer P is written ID.EPOCH, a partition TOPIC-N, and so is a LOG. Times are those
// from the start of the script.
func (sc *script) run(d *datadriven.TestData) {
	ctx, w := context.Background(), sc.w
	switch d.Cmd {
	case "topic":
		for _, a := range d.CmdArgs {
			n, _ := strconv.Atoi(a.Vals[0])
			w.topic(a.Key, int32(n))
		}
	case "delete":
		topic, _ := w.store.Topic(word(d, 0))
		sc.call(d, func() string {
			if err := w.store.DeleteTopic(topic.ID()); err != nil {
				return err.Error()
			}
			return "deleted"
		})
	case "init":
		r := InitRequest{TransactionalID: idOf(d), Timeout: duration(sc.t, d, "timeout", time.Minute)}
		if d.HasArg("expected") {
			var text string
			d.ScanArgs(sc.t, "expected", &text)
			p := producerOf(text)
			r.Expected = &p
		}
		sc.call(d, func() string { p, err := w.c.Init(ctx, r); return sc.producer(p, err) })
	case "add":
		r := AddRequest{TransactionalID: idOf(d), Producer: producerOf(word(d, 1)), V2: d.HasArg("v2"), Partitions: partitionsOf(d, "in")}
		sc.call(d, func() string { return kafkaName(w.c.Add(ctx, r)) })
	case "verify":
		r := AddRequest{TransactionalID: idOf(d), Producer: producerOf(word(d, 1)), Partitions: partitionsOf(d, "in")}
		errs, err := w.c.Verify(ctx, r)
		if err != nil {
			sc.say("%s", kafkaName(err))
		}
		for i, err := range errs {
			sc.say("%s-%d: %s", r.Partitions[i].Topic, r.Partitions[i].Partition, kafkaName(err))
		}
	case "end":
		r := EndRequest{TransactionalID: idOf(d), Producer: producerOf(word(d, 1)), Commit: d.HasArg("commit"), V2: d.HasArg("v2")}
		sc.call(d, func() string {
			p, err := w.c.End(ctx, r)
			if err == nil && !r.V2 && p == NoProducer {
				return "NONE"
			}
			return sc.producer(p, err)
		})
	case "produce":
		w.produce(partitionsOf(d, "to")[0], producerOf(word(d, 0)))
	case "describe":
		got, err := w.c.Describe(idOf(d))
		if err != nil {
			sc.say("%s", kafkaName(err))
			break
		}
		began := "-"
		if got.StartMs != -1 {
			began = time.UnixMilli(got.StartMs).Sub(start).String()
		}
		sc.say("%s %s %s timeout=%v began=%s", got.State, producerText(got.Producer), partitionsText(got.Partitions), got.Timeout, began)
	case "list":
		sc.list(d)
	case "available":
		sc.say("%s", kafkaName(w.c.Available(idOf(d))))
	case "advance":
		by, err := time.ParseDuration(word(d, 0))
		if err != nil {
			d.Fatalf(sc.t, "%v", err)
		}
		w.advance(by)
	case "exhaust":
		sc.exhaust(d)
	case "hold":
		w.hold(word(d, 0))
	case "durable":
		w.release(word(d, 0), nil)
	case "fail":
		w.release(word(d, 0), errors.New("disk on fire"))
	case "free":
		w.free(word(d, 0))
	case "refuse", "accept":
		w.mu.Lock()
		w.refuse = nil
		if d.Cmd == "refuse" {
			w.refuse = errors.New("group coordinator is loading")
		}
		w.mu.Unlock()
	case "restart", "crash":
		if d.Cmd == "crash" {
			w.mem = w.mem.CrashClone(1, 0)
			for log := range w.gates {
				w.free(log)
			}
		}
		w.stop()
		synctest.Wait()
		sc.answers()
		if d.Cmd == "crash" {
			sc.w = openWorldAt(sc.t, w.mem, w.now, (*world).endOffsets)
			sc.given = 0
		} else {
			w.start(Config{})
		}
	case "stop":
		w.stop()
	default:
		d.Fatalf(sc.t, "unknown command %q", d.Cmd)
	}
}

// exhaust stores the transaction of an id with another epoch, as if it had ended often.
func (sc *script) exhaust(d *datadriven.TestData) {
	var epoch int
	d.ScanArgs(sc.t, "epoch", &epoch)
	o := sc.w.c.ownerOf(idOf(d))
	o.mu.Lock()
	e := o.entries[idOf(d)]
	next := *e.t
	next.Epoch = int16(epoch)
	o.write(sc.w.now, e, &next, func(error) {})
	o.inFlight.Settle()
	o.mu.Unlock()
}

func (sc *script) say(format string, args ...any) { fmt.Fprintf(&sc.out, format+"\n", args...) }

func (sc *script) producer(p Producer, err error) string {
	if err != nil {
		return kafkaName(err)
	}
	return producerText(p)
}

// call runs f, and tells when it has to wait.
func (sc *script) call(d *datadriven.TestData, f func() string) {
	name := d.Cmd + " " + idOf(d)
	c := &scriptCall{name: name, answer: make(chan string, 1)}
	sc.calls = append(sc.calls, c)
	go func() { c.answer <- f() }()
}

// answers tells of the answers that have come.
func (sc *script) answers() {
	sc.calls = slices.DeleteFunc(sc.calls, func(c *scriptCall) bool {
		select {
		case text := <-c.answer:
			if c.waited {
				text = c.name + ": " + text
			}
			sc.say("%s", text)
			return true
		default:
		}
		if !c.waited {
			c.waited = true
			sc.say("waits")
		}
		return false
	})
}

// news tells which records and markers have become durable since the last time.
func (sc *script) news() {
	w := sc.w
	if w.store == nil {
		return
	}
	for _, topic := range w.store.Topics() {
		for i := range topic.Partitions() {
			log, _ := topic.Partition(i)
			name, key, n := fmt.Sprintf("%s-%d", topic.Name(), i), fmt.Sprint(topic.ID(), i), 0
			if log.Status() == storage.StatusOffline {
				continue
			}
			w.batches(log, func(b record.Batch, r record.Record) {
				if n++; n <= sc.seen[key] {
					return
				}
				switch {
				case topic.Name() == StateTopic:
					sc.say("-> %s", recordText(w.t, r))
				case b.Control():
					m, _, _ := record.ParseEndTxnMarker(r)
					sc.say("=> %s: %s", name, markerText(m.Commit, Producer{b.ProducerID(), b.ProducerEpoch()}))
				}
			})
			sc.seen[key] = n
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.offsets[sc.given:])
	for _, m := range w.offsets[sc.given:] {
		sc.say("=> %s", m)
	}
	sc.given = len(w.offsets)
}

func (sc *script) list(d *datadriven.TestData) {
	r := ListRequest{MinDuration: duration(sc.t, d, "longer", -1)}
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "states":
			r.States = a.Vals
		case "pattern":
			r.Pattern = a.Vals[0]
		case "producers":
			for _, v := range a.Vals {
				n, _ := strconv.ParseInt(v, 10, 64)
				r.ProducerIDs = append(r.ProducerIDs, n)
			}
		}
	}
	got, err := sc.w.c.List(r)
	if err != nil {
		sc.say("%s", kafkaName(err))
	}
	for _, l := range got.Transactions {
		sc.say("%s %s of %d", l.TransactionalID, l.State, l.ProducerID)
	}
	if len(got.UnknownStates) > 0 {
		sc.say("unknown states: %q", got.UnknownStates)
	}
}

// word is the i-th argument that is no name=value, "" when there is none.
func word(d *datadriven.TestData, i int) string {
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

// idOf is the transactional id of a command; "" and long stand for such.
func idOf(d *datadriven.TestData) string {
	switch id := word(d, 0); id {
	case `""`:
		return ""
	case "long":
		return strings.Repeat("x", 1<<15)
	default:
		return id
	}
}

func producerOf(text string) (p Producer) {
	if _, err := fmt.Sscanf(text, "%d.%d", &p.ID, &p.Epoch); err != nil {
		panic(fmt.Sprintf("producer %q: %v", text, err))
	}
	return p
}

func partitionsOf(d *datadriven.TestData, name string) (out []Partition) {
	for _, a := range d.CmdArgs {
		if a.Key != name {
			continue
		}
		for _, v := range a.Vals {
			i := strings.LastIndexByte(v, '-')
			n, err := strconv.Atoi(v[i+1:])
			if err != nil {
				panic(err)
			}
			out = append(out, Partition{v[:i], int32(n)})
		}
	}
	return out
}

func duration(t *testing.T, d *datadriven.TestData, name string, otherwise time.Duration) time.Duration {
	text := otherwise.String()
	d.MaybeScanArgs(t, name, &text)
	v, err := time.ParseDuration(text)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return v
}
