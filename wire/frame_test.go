package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestUvarint(t *testing.T) {
	for _, want := range []uint32{0, 1, 127, 128, 300, 1 << 21, 1<<28 - 1, 1 << 28, math.MaxUint32} {
		b := append(binary.AppendUvarint(nil, uint64(want)), 0xee)
		got, rest, ok := cutUvarint(b)
		if !ok || got != want || len(rest) != 1 {
			t.Errorf("%x: got %d, rest %x, ok %v, want %d", b, got, rest, ok, want)
		}
	}
	for _, b := range [][]byte{nil, {0x80}, {0x80, 0x80, 0x80, 0x80}, {0xff, 0xff, 0xff, 0xff, 0x10}, {0x80, 0x80, 0x80, 0x80, 0x80, 1}} {
		if got, _, ok := cutUvarint(b); ok {
			t.Errorf("%x: got %d, want it refused", b, got)
		}
	}
}

func TestHeaderOfEveryKey(t *testing.T) {
	for i := range apis.rows {
		a := &apis.rows[i]
		for version := a.min; version <= a.max; version++ {
			req := a.newRequest()
			req.SetVersion(version)
			frame := frameOf(req, 77)[lengthSize:]
			h, body, err := parseHeader(frame, apis.flexible)
			if err != nil || h.key != a.key || h.version != version || h.correlationID != 77 || string(h.clientID) != "test" {
				t.Errorf("key %d version %d: header %+v, error %v", a.key, version, h, err)
			}
			if want := req.AppendTo(nil); !bytes.Equal(body, want) {
				t.Errorf("key %d version %d: body %x, want %x", a.key, version, body, want)
			}
		}
	}
}

// FuzzHeader checks that a header that parses is one that encodes to the same bytes, but for tags, and that no length in
// it reaches beyond the frame.
func FuzzHeader(f *testing.F) {
	for _, version := range []int16{1, 9} {
		f.Add(frameOf(metadataOf(version, "orders"), 7)[lengthSize:])
	}
	f.Add([]byte{0, 3, 0, 9, 0, 0, 0, 7, 0xff, 0xff, 1, 0x8f, 0x4e, 2, 0xab, 0xcd, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, frame []byte) {
		h, body, err := parseHeader(frame, apis.flexible)
		if err != nil {
			return
		}
		again := binary.BigEndian.AppendUint16(nil, uint16(h.key))
		again = binary.BigEndian.AppendUint16(again, uint16(h.version))
		again = binary.BigEndian.AppendUint32(again, uint32(h.correlationID))
		if client := frame[fixedHeaderSize:smallestFrame]; h.clientID == nil && client[0] >= 0x80 {
			again = append(again, client...) // null is any negative length
		} else {
			again = append(binary.BigEndian.AppendUint16(again, uint16(len(h.clientID))), h.clientID...)
		}
		if !bytes.HasPrefix(frame, again) || !bytes.HasSuffix(frame, body) {
			t.Errorf("frame %x: header %x and body %x", frame, again, body)
		}
		if tags := len(frame) - len(again) - len(body); tags != 0 && !apis.flexible(h.key, h.version) {
			t.Errorf("frame %x: %d bytes of tags in a version without", frame, tags)
		}
	})
}

func TestShortRequestIsCalledSo(t *testing.T) {
	s := newBroker(t, nil).s
	frame := newBuffer(64)
	frame.B = append(frame.B, 0, 0, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0xff) // Produce that ends in its acks
	_, err := s.newCall(frame, "")
	if want := "api key 0 version 9: body of 2 bytes ends too early"; err == nil || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
}

// FuzzRequest runs whatever decodes through its handler, over a store in memory and with a caller that has left, so that
// nothing waits. Each answer must be one that the codec reads.
func FuzzRequest(f *testing.F) {
	b := newFuzzBroker(f)
	for i := range apis.rows {
		a := &apis.rows[i]
		for version := a.min; version <= a.max; version++ {
			for _, req := range fuzzSeeds(b, a, version) {
				f.Add(frameOf(req, 1)[lengthSize:])
			}
		}
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		frame := newBuffer(len(bytes))
		frame.B = append(frame.B, bytes...)
		defer frame.release()
		c, err := b.s.newCall(frame, "")
		if err != nil || makesTooMuch(c.message) {
			return
		}
		c.ctx, c.listener, c.principal, c.remote = b.r.ctx, b.r.listener, anonymous, pipeAddr{}
		if c.api.start != nil {
			if err := b.s.start(c); err != nil {
				return
			}
		}
		resp, err := b.s.answer(t.Context(), c)
		if err != nil || resp == nil {
			return
		}
		body := resp.AppendTo(nil)
		if e, ok := resp.(*encoded); ok {
			e.release()
		}
		version := c.version
		if c.message == nil {
			version = 0
		}
		req := c.api.newRequest()
		req.SetVersion(version)
		out := req.ResponseKind()
		out.SetVersion(version)
		if err := out.ReadFrom(body); err != nil {
			t.Errorf("key %d version %d: the answer %x does not decode: %v", c.key, version, body, err)
		}
		if used := b.s.answers.used(); used != 0 {
			t.Errorf("key %d version %d: %d bytes of answers are still charged", c.key, version, used)
		}
	})
}

// makesTooMuch keeps the fuzzer from filling its memory.
func makesTooMuch(req kmsg.Request) bool {
	switch req := req.(type) {
	case *kmsg.CreateTopicsRequest:
		req.ValidateOnly = true
	case *kmsg.CreatePartitionsRequest:
		req.ValidateOnly = true
	case *kmsg.DeleteTopicsRequest:
		return true
	}
	return false
}

// newFuzzBroker starts a broker with a topic of one batch.
func newFuzzBroker(f *testing.F) *broker {
	b := withGroups(newBroker(f, map[string]string{"auto.create.topics.enable": "false"}))
	b.topic("orders", 2)
	b.mustProduce("orders", 0, b.batch("a", "b"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	b.r.ctx = ctx
	return b
}

// fuzzSeeds returns requests to begin with.
func fuzzSeeds(s *broker, a *api, version int16) []kmsg.Request {
	empty := a.newRequest()
	empty.SetVersion(version)
	seeds := []kmsg.Request{empty}
	switch a.key {
	case 0:
		seeds = append(seeds, s.produceRequest(version, "orders", produced{1, s.batch("x")}))
	case 1:
		req := parkedFetch("orders", 0)
		req.Version = version
		topic, _ := s.store.Topic("orders")
		req.Topics[0].TopicID = topic.ID()
		seeds = append(seeds, req)
	case 3:
		seeds = append(seeds, metadataOf(version, "orders", "none"))
	}
	return seeds
}
