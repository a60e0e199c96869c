package compare_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kaen-log/gateway/compare"
)

// lateBroker stands before a gateway. The first request that asks for a topic in passing it keeps back: it calls asked,
// hangs up, and passes the request on only before the first CreateTopics that comes, as a broker does that makes such
// topics when it finds the time.
type lateBroker struct {
	gateway string
	asked   func()
	mu      sync.Mutex
	kept    []byte // with its length; nil before it came, and when it is passed on
	done    bool
}

const (
	metadataKey     = 3
	createTopicsKey = 19
	deleteTopicsKey = 20
	deleteGroupsKey = 42
)

func (b *lateBroker) serve(t *testing.T) (addr string) {
	t.Helper()
	return standBefore(t, b.gateway, func(key uint16, frame []byte) bool {
		if b.keeps(key, frame) {
			return false
		}
		if key == createTopicsKey {
			b.passOn(t)
		}
		return true
	})
}

// standBefore passes on what clients and a broker say. look is given each request first, and hangs up when it is false.
func standBefore(t *testing.T, broker string, look func(key uint16, frame []byte) bool) (addr string) {
	t.Helper()
	return compare.Accept(t, func(client net.Conn) {
		upstream, err := net.Dial("tcp", broker)
		if err != nil {
			t.Error(err)
			return
		}
		var back sync.WaitGroup
		back.Go(func() {
			_, _ = io.Copy(client, upstream)
			_ = client.Close()
		})
		defer back.Wait()
		defer upstream.Close()
		for {
			frame, err := frameWithLength(client)
			if err != nil || !look(binary.BigEndian.Uint16(frame[4:]), frame) {
				return
			}
			if _, err := upstream.Write(frame); err != nil {
				return
			}
		}
	})
}

func (b *lateBroker) keeps(key uint16, frame []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done || key != metadataKey || !strings.Contains(string(frame), "-late") {
		return false
	}
	b.kept, b.done = frame, true
	b.asked()
	return true
}

// passOn gives the gateway what was kept back, and waits until it has answered.
func (b *lateBroker) passOn(t *testing.T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kept == nil {
		return
	}
	c, err := net.Dial("tcp", b.gateway)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	if _, err = c.Write(b.kept); err == nil {
		_, err = frameWithLength(c)
	}
	if err != nil {
		t.Error(err)
	}
	b.kept = nil
}

func frameWithLength(r io.Reader) ([]byte, error) {
	frame := make([]byte, 4)
	if _, err := io.ReadFull(r, frame); err != nil {
		return nil, err
	}
	frame = append(frame, make([]byte, binary.BigEndian.Uint32(frame))...)
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}

// TestInterruptedRunWaitsForTopicsUnderWay is interrupted when a broker has been asked for a topic that it makes later.
func TestInterruptedRunWaitsForTopicsUnderWay(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a := newGateway(t)
	late := &lateBroker{gateway: a, asked: cancel}
	s, err := compare.ParseScenario("late", []byte(`
why: a topic that is asked for in passing
tags: [test]
steps:
- {api: Metadata, version: "12", send: {allowAutoTopicCreation: true, topics: [{name: "${prefix}late"}]}}
`))
	if err != nil {
		t.Fatal(err)
	}
	_, err = compare.Run(ctx, []*compare.Scenario{s}, compare.Options{A: late.serve(t), B: newGateway(t), Versions: "max", Seed: 9})
	if err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("got error %v, want interrupted", err)
	}
	late.passOn(t)
	if left, err := compare.TopicsWithPrefix(t.Context(), a, "gwcmp-"); err != nil || len(left) != 0 {
		t.Errorf("got topics %v, error %v; want none left", left, err)
	}
}

// TestGroupsGoBeforeTheirTopics wants it so for Kafka, where a share group cannot be deleted for a while after a topic of it.
func TestGroupsGoBeforeTheirTopics(t *testing.T) {
	var mu sync.Mutex
	var deleted []uint16
	a := standBefore(t, newGateway(t), func(key uint16, _ []byte) bool {
		if key == deleteTopicsKey || key == deleteGroupsKey {
			mu.Lock()
			defer mu.Unlock()
			deleted = append(deleted, key)
		}
		return true
	})
	all := slices.DeleteFunc(scenarios(t), func(s *compare.Scenario) bool { return s.Name != "share-fetch" })
	if _, err := compare.Run(t.Context(), all, compare.Options{A: a, B: newGateway(t), Versions: "max", Seed: 11}); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []uint16{deleteGroupsKey, deleteTopicsKey}; !slices.Equal(deleted, want) {
		t.Errorf("got deletions by keys %v, want %v", deleted, want)
	}
}
