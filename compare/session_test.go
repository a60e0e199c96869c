package compare

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// recordedEvents are events of every kind, numbered.
func recordedEvents() []*Event {
	return []*Event{
		{Number: 1, Kind: Began, Started: time.UnixMilli(1_700_000_000_123).UTC(), Broker: "far:9092", Product: "other"},
		{Number: 2, Kind: Opened, Connection: 1, Offset: time.Millisecond, Broker: "far:9092"},
		{Number: 3, Kind: RequestSent, Connection: 1, Offset: time.Millisecond, Frame: []byte{0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff}},
		{Number: 4, Kind: AnswerSent, Connection: 1, Offset: 2 * time.Millisecond, Frame: []byte{0, 0, 0, 7, 0, 0, 0, 0, 0, 0}},
		{Number: 5, Kind: RequestSent, Connection: 1, Offset: 3 * time.Millisecond, Flags: Withheld, Frame: []byte{}, Length: 40},
		{Number: 6, Kind: Closed, Connection: 1, Offset: 4 * time.Millisecond, By: ByBroker},
	}
}

func sessionFile(events []*Event) []byte {
	b := sessionHead()
	for _, e := range events {
		b = append(b, e.block()...)
	}
	return b
}

// readEvents reads as many events as there are.
func readEvents(file []byte) (events []*Event, failed error) {
	for e, err := range Session(bytes.NewReader(file)) {
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
	return events, nil
}

func sameEvent(a, b *Event) bool { return a.Number == b.Number && bytes.Equal(a.block(), b.block()) }

func TestSessionReadsWhatWasWritten(t *testing.T) {
	want := recordedEvents()
	got, err := readEvents(sessionFile(want))
	if err != nil || !slices.EqualFunc(got, want, sameEvent) {
		t.Errorf("got %d events, error %v; want the %d that were written", len(got), err, len(want))
	}
}

// TestTornSessionReadsToItsLastWholeEvent cuts a session at every byte, as a killed proxy may.
func TestTornSessionReadsToItsLastWholeEvent(t *testing.T) {
	events := recordedEvents()
	file := sessionFile(events)
	ends := []int{len(sessionHead())}
	for _, e := range events {
		ends = append(ends, ends[len(ends)-1]+len(e.block()))
	}
	for cut := 1; cut < len(file); cut++ {
		whole := max(0, len(ends)-1)
		for whole > 0 && ends[whole] > cut {
			whole--
		}
		atEnd := cut >= ends[1] && slices.Contains(ends, cut)
		got, err := readEvents(file[:cut])
		if len(got) != whole || errors.Is(err, ErrTorn) == atEnd || err != nil && !errors.Is(err, ErrTorn) {
			t.Errorf("cut at %d of %d: got %d events, error %v; want %d, torn %v", cut, len(file), len(got), err, whole, !atEnd)
		}
	}
}

func TestDamagedSessionIsToldFromATornOne(t *testing.T) {
	events := recordedEvents()
	file := sessionFile(events)
	last := len(file) - len(events[5].block())
	for _, c := range []struct {
		name string
		at   int
		want string
	}{
		{"magic", 0, "not a session"},
		{"version", len(sessionMagic) + 1, "format"},
		{"a block in the middle", len(sessionHead()) + 20, "damaged"},
		{"the last block", last + blockHeader, "torn"},
	} {
		b := slices.Clone(file)
		b[c.at] ^= 0x40
		if _, err := readEvents(b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s flipped: got error %v, want %q", c.name, err, c.want)
		}
	}
}

// FuzzSession reads arbitrary bytes as a session: what reads is written again to the same bytes, no length is believed,
// and printing it ends without a panic.
func FuzzSession(f *testing.F) {
	f.Add(sessionFile(recordedEvents()))
	f.Add(sessionFile(recordedEvents())[:60])
	f.Add(append(sessionHead(), 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0))
	f.Fuzz(func(t *testing.T, file []byte) {
		events, err := readEvents(file)
		if err == nil && len(events) == 0 {
			t.Fatalf("%x reads as an empty session", file)
		}
		for _, e := range events {
			one, err := parseEvent(e.block()[blockHeader:], &Event{Number: e.Number - 1})
			if err != nil || !sameEvent(one, e) {
				t.Fatalf("event %d: read again: %v", e.Number, err)
			}
		}
		var out strings.Builder
		_ = PrintFrames(&out, bytes.NewReader(file), FramesOptions{Deep: true})
		_, _ = surveySession(bytes.NewReader(file))
	})
}
