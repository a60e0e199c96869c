package wire

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage"
)

// sessionScript runs the scripts in testdata/fetch_session against the session cache. Commands:
//
//	cache slots=N [room=N]    an empty cache
//	set P hw=N start=N bytes=N error=N    what reads of partition P find from now on
//	fetch id=N epoch=N [by-topic]         a whole fetch; lines name partitions, "forget P" drops one
//	begin NAME id=N epoch=N [by-topic]    the first half of one
//	finish NAME                           the second half
//	advance DURATION
//	show
type sessionScript struct {
	now    time.Time
	cache  *fetchSessions
	lastID int32
	found  map[string]foundPartition
	begun  map[string]begunFetch
}

type foundPartition struct {
	hw, start int64
	bytes     int
	code      int16
}

type begunFetch struct {
	x    fetchContext
	read []fetchPartition
}

func TestFetchSessionScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/fetch_session", func(t *testing.T, path string) {
		s := &sessionScript{now: time.UnixMilli(0)}
		s.reset(2)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return s.run(t, d) })
	})
}

func (s *sessionScript) reset(slots int) {
	s.cache = newFetchSessions(slots)
	s.lastID = 0
	s.cache.randomID = func() int32 { s.lastID++; return s.lastID }
	s.found, s.begun = map[string]foundPartition{}, map[string]begunFetch{}
}

func (s *sessionScript) run(t *testing.T, d *datadriven.TestData) string {
	var out strings.Builder
	switch d.Cmd {
	case "cache":
		var slots int
		d.ScanArgs(t, "slots", &slots)
		s.reset(slots)
		d.MaybeScanArgs(t, "room", &s.cache.room)
	case "set":
		p := s.found[d.CmdArgs[0].Key]
		d.MaybeScanArgs(t, "hw", &p.hw)
		d.MaybeScanArgs(t, "start", &p.start)
		d.MaybeScanArgs(t, "bytes", &p.bytes)
		var code int
		d.MaybeScanArgs(t, "error", &code)
		p.code = int16(code)
		s.found[d.CmdArgs[0].Key] = p
	case "advance":
		by, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		s.now = s.now.Add(by)
	case "fetch":
		s.begin(t, d, "", &out)
		s.finish("", &out)
	case "begin":
		s.begin(t, d, d.CmdArgs[0].Key, &out)
	case "finish":
		s.finish(d.CmdArgs[0].Key, &out)
	case "show":
		s.show(&out)
	default:
		d.Fatalf(t, "unknown command %q", d.Cmd)
	}
	return out.String()
}

func (s *sessionScript) begin(t *testing.T, d *datadriven.TestData, name string, out *strings.Builder) {
	var id, epoch int32
	d.ScanArgs(t, "id", &id)
	d.ScanArgs(t, "epoch", &epoch)
	byTopic := d.HasArg("by-topic")
	var asked []fetchPartition
	var forget []fetchKey
	for line := range strings.Lines(d.Input) {
		f := strings.Fields(line)
		if f[0] == "forget" {
			forget = append(forget, scriptKey(f[1], byTopic))
			continue
		}
		p := fetchPartition{key: scriptKey(f[0], byTopic)}
		for _, a := range f[1:] {
			n, err := strconv.ParseInt(strings.TrimPrefix(a, "offset="), 10, 64)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			p.want.offset = n
		}
		asked = append(asked, p)
	}
	x, read := s.cache.begin(s.now, id, epoch, byTopic, asked, forget)
	for i := range read {
		p := &read[i]
		found := s.found[scriptName(p.key)]
		p.code, p.divergingEpoch = found.code, -1
		if found.code != 0 {
			p.highWatermark, p.logStart = -1, -1
			continue
		}
		p.highWatermark, p.logStart, p.records = found.hw, found.start, make([]byte, found.bytes)
	}
	s.begun[name] = begunFetch{x: x, read: read}
	if len(read) > 0 {
		out.WriteString("reads")
		for i := range read {
			fmt.Fprintf(out, " %s@%d", scriptName(read[i].key), read[i].want.offset)
		}
		out.WriteString("\n")
	}
}

func (s *sessionScript) finish(name string, out *strings.Builder) {
	b := s.begun[name]
	delete(s.begun, name)
	id, code := s.cache.finish(s.now, b.x, b.read)
	if code != 0 {
		fmt.Fprintf(out, "session %d error %d\n", id, code)
		return
	}
	fmt.Fprintf(out, "session %d\n", id)
	for i := range b.read {
		p := &b.read[i]
		if p.omit {
			continue
		}
		fmt.Fprintf(out, "  %s hw=%d start=%d bytes=%d", scriptName(p.key), p.highWatermark, p.logStart, len(p.records))
		if p.code != 0 {
			fmt.Fprintf(out, " error=%d", p.code)
		}
		out.WriteString("\n")
	}
}

// show lists the sessions, longest unused first.
func (s *sessionScript) show(out *strings.Builder) {
	for x := s.cache.oldest; x != nil; x = x.newer {
		fmt.Fprintf(out, "session %d epoch=%d created=%v used=%v", x.id, x.epoch,
			x.created.Sub(time.UnixMilli(0)), x.lastUsed.Sub(time.UnixMilli(0)))
		for p := x.first; p != nil; p = p.after {
			fmt.Fprintf(out, " %s@%d", scriptName(p.key), p.want.offset)
		}
		out.WriteString("\n")
	}
	fmt.Fprintf(out, "%d sessions, %d partitions, %d evictions\n", len(s.cache.byID), s.cache.partitions, s.cache.evictions)
}

// scriptKey is the key of "topic-partition"; by topic, the first byte of the id is the name's.
func scriptKey(name string, byTopic bool) fetchKey {
	i := strings.LastIndexByte(name, '-')
	n, _ := strconv.Atoi(name[i+1:])
	if byTopic {
		return fetchKey{id: storage.TopicID{name[0]}, partition: int32(n)}
	}
	return fetchKey{topic: name[:i], partition: int32(n)}
}

func scriptName(k fetchKey) string {
	topic := k.topic
	if topic == "" {
		topic = string(k.id[:1])
	}
	return fmt.Sprintf("%s-%d", topic, k.partition)
}

func TestFetchEpochSkipsSpecialValues(t *testing.T) {
	for _, c := range []struct{ epoch, want int32 }{{0, 1}, {1, 2}, {1<<31 - 2, 1<<31 - 1}, {1<<31 - 1, 1}} {
		if got := nextFetchEpoch(c.epoch); got != c.want {
			t.Errorf("epoch after %d: got %d, want %d", c.epoch, got, c.want)
		}
	}
}

// A session of ids remembers the name of a topic, so that it can tell a deleted topic, and one made again, from an id that
// was never known.
func TestFetchSessionTellsOfADeletedTopic(t *testing.T) {
	b := newBroker(t, nil)
	b.topic("t", 1)
	b.topic("u", 1)
	req := b.fetchRequest(13, asked{"t", 0, 0}, asked{"u", 0, 0})
	req.SessionEpoch = 0
	id, epoch := ask[*kmsg.FetchResponse](b, req).SessionID, int32(0)
	next := func(waitMs int32) int16 {
		epoch++
		req := b.fetchRequest(13)
		req.SessionID, req.SessionEpoch, req.MaxWaitMillis = id, epoch, waitMs
		return b.fetchOne(req).ErrorCode
	}
	old, _ := b.store.Topic("t")
	if err := b.store.DeleteTopic(old.ID()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if code := next(0); code != 3 {
			t.Errorf("deleted: got error %d, want 3", code)
		}
	}
	b.topic("t", 1)
	if code := next(3_600_000); code != 103 {
		t.Errorf("made again: got error %d, want 103", code)
	}
	if code := b.fetchOne(&kmsg.FetchRequest{Version: 13, SessionEpoch: -1, Topics: req.Topics[:1]}).ErrorCode; code != 100 {
		t.Errorf("without the session: got error %d, want 100", code)
	}
}
