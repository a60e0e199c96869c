package wire

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage/vfs"
)

func TestRequestsAreAnsweredInOrder(t *testing.T) { // NET-04
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		s.topic("orders", 1)
		c := s.dial(t)
		began := time.Now()
		fetch, meta, offsets, produce := parkedFetch("orders", 2*time.Second), metadataOf(9, "orders"),
			kmsg.NewPtrListOffsetsRequest(), s.produceRequest(9, "orders", produced{0, s.batch("a")})
		offsets.Version = 5
		c.pipeline(fetch, meta, offsets, produce)
		c.receive(fetch, 1)
		if waited := time.Since(began); waited != 2*time.Second {
			t.Errorf("the fetch was answered after %v, want 2s: the produce behind it must not have started", waited)
		}
		c.receive(meta, 2)
		c.receive(offsets, 3)
		c.receive(produce, 4)
	})
}

func TestImpossibleLengthsCloseTheConnection(t *testing.T) { // NET-01, NET-02, NET-03
	frame := func(length uint32, rest ...byte) []byte {
		return append(binary.BigEndian.AppendUint32(nil, length), rest...)
	}
	tests := []struct {
		name string
		sent []byte
	}{
		{"zero", frame(0)},
		{"minus one", frame(0xffffffff)},
		{"three", frame(3)},
		{"the largest", frame(0x7fffffff)},
		{"above socket.request.max.bytes", frame(104857601)},
		{"Metadata above its limit", frame(otherFrameLimit+1, 0, 3)},
		{"CreateTopics above its limit", frame(groupFrameLimit+1, 0, 19)},
		{"unknown key", frame(20, 3, 231)},
		{"HTTP", []byte("GET / HTTP/1.1\r\n\r\n")},
		{"TLS hello", []byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}},
	}
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		other := s.dial(t)
		for _, test := range tests {
			c := s.dial(t)
			go func() { _, _ = c.Write(test.sent) }() // the server may not read all of it
			c.expectClosed(test.name)
			other.call(versions())
		}
		synctest.Wait()
		if got := s.s.Stats(); got.Malformed != int64(len(tests)) || got.RequestBytes != 0 {
			t.Errorf("Stats %+v, want %d malformed and no request bytes held", got, len(tests))
		}
	})
}

func TestUnservableRequestsCloseTheConnection(t *testing.T) { // VER-06
	bad := map[string]func(*kmsg.MetadataRequest) []byte{
		"unknown version":      func(r *kmsg.MetadataRequest) []byte { r.Version = 14; return frameOf(r, 2) },
		"negative version":     func(r *kmsg.MetadataRequest) []byte { r.Version = -1; return frameOf(r, 2) },
		"body cut short":       func(r *kmsg.MetadataRequest) []byte { return shorten(frameOf(r, 2), 3) },
		"client id runs over":  func(r *kmsg.MetadataRequest) []byte { f := frameOf(r, 2); f[12] = 0x7f; return f },
		"header tags run over": func(r *kmsg.MetadataRequest) []byte { f := frameOf(r, 2); f[18] = 0x7f; return f },
	}
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		s.topic("orders", 1)
		for name, make := range bad {
			c := s.dial(t)
			parked := parkedFetch("orders", time.Hour)
			c.send(parked)
			synctest.Wait()
			go func() { _, _ = c.Write(make(metadataOf(9, "orders"))) }()
			c.receive(parked, 1) // what was good is answered first, and the wait is over
			c.expectClosed(name)
		}
	})
}

// shorten cuts n bytes off the end of a frame.
func shorten(frame []byte, n int) []byte {
	frame = frame[:len(frame)-n]
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-lengthSize))
	return frame
}

func TestOldProduceVersionsCloseTheConnection(t *testing.T) { // VER-04
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		for version := range int16(3) {
			c := s.dial(t)
			frame := frameOf(s.produceRequest(version, "orders", produced{0, s.batch("a")}), 1)
			go func() { _, _ = c.Write(frame) }()
			c.expectClosed("Produce")
		}
	})
}

func TestHeadersOfAllKinds(t *testing.T) { // NET-08, NET-09
	head := func(version int16, client []byte, tags ...byte) []byte {
		f := []byte{0, 0, 0, 0, 0, 3}
		f = binary.BigEndian.AppendUint16(f, uint16(version))
		f = binary.BigEndian.AppendUint32(f, 7)
		if client == nil {
			f = append(f, 0xff, 0xff)
		} else {
			f = append(binary.BigEndian.AppendUint16(f, uint16(len(client))), client...)
		}
		return append(f, tags...)
	}
	extra := []byte{1, 0x8f, 0x4e, 2, 0xab, 0xcd} // one tag, 9999, of two bytes
	body := append([]byte{1, 0, 0, 0}, extra...)  // no topics, three booleans, tags
	tests := []struct {
		name    string
		version int16
		frame   []byte
	}{
		{"null client id", 1, append(head(1, nil), 0, 0, 0, 0)},
		{"empty client id", 1, append(head(1, []byte{}), 0, 0, 0, 0)},
		{"client id of 300 bytes", 1, append(head(1, []byte(strings.Repeat("x", 300))), 0, 0, 0, 0)},
		{"unknown tags in header and body", 9, append(head(9, []byte("t"), extra...), append([]byte{1, 0, 0, 0}, extra...)...)},
		{"unknown tags, version 12", 12, append(head(12, nil, extra...), body[:3:3]...)},
	}
	tests[4].frame = append(tests[4].frame, extra...)
	lessThanNull := append(head(1, nil), 0, 0, 0, 0)
	lessThanNull[lengthSize+fixedHeaderSize+1] = 0xfe
	tests = append(tests, tests[0])
	tests[5].name, tests[5].frame = "client id of length -2, which is null too", lessThanNull
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		c := s.dial(t)
		for _, test := range tests {
			binary.BigEndian.PutUint32(test.frame, uint32(len(test.frame)-lengthSize))
			c.write(test.frame)
			resp := c.receive(metadataOf(test.version), 7).(*kmsg.MetadataResponse)
			if len(resp.Brokers) != 1 || len(resp.Topics) != 0 {
				t.Errorf("%s: answer %+v, want one broker and no topic", test.name, resp)
			}
		}
	})
}

func TestApiVersionsTooNewIsAnsweredInVersion0(t *testing.T) { // VER-01
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		for _, version := range []int16{6, 9, 32767, -1} {
			c := s.dial(t)
			f := []byte{0, 0, 0, 0, 0, 18}
			f = binary.BigEndian.AppendUint16(f, uint16(version))
			f = append(f, 0, 0, 0, 5, 0, 1, 'c', 0)
			f = append(f, "any body"...)
			binary.BigEndian.PutUint32(f, uint32(len(f)-lengthSize))
			c.write(f)
			id, body := c.frame()
			want := []byte{0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 5}
			if id != 5 || string(body) != string(want) {
				t.Errorf("version %d: answer %d %x, want 5 %x", version, id, body, want)
			}
			if resp := c.call(versions()).(*kmsg.ApiVersionsResponse); resp.ErrorCode != 0 {
				t.Errorf("version %d: ApiVersions v4 afterwards answers %d, want 0", version, resp.ErrorCode)
			}
		}
	})
}

// heldSync is a file system whose syncs can be made to wait. Opening a store is not held up.
type heldSync struct {
	mu   sync.Mutex
	gate chan struct{} // guarded by mu; nil lets syncs through
}

func (h *heldSync) on(fs vfs.FS) vfs.FS {
	return vfs.Inject(fs, func(op vfs.Op) error {
		if op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, ".log") {
			h.mu.Lock()
			gate := h.gate
			h.mu.Unlock()
			if gate != nil {
				<-gate
			}
		}
		return nil
	})
}

// hold makes syncs wait until the returned function is called.
func (h *heldSync) hold() (release func()) {
	gate := make(chan struct{})
	h.mu.Lock()
	h.gate = gate
	h.mu.Unlock()
	return func() {
		h.mu.Lock()
		h.gate = nil
		h.mu.Unlock()
		close(gate)
	}
}

func TestProduceOverlapsProduceOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var disk heldSync
		s := newServerOn(t, disk.on(vfs.NewMem(vfs.MemOptions{})), nil)
		s.topic("orders", 1)
		s.mustProduce("orders", 0, s.batch("first")) // directories are made
		c := s.dial(t)
		release := disk.hold()
		one := s.produceRequest(9, "orders", produced{0, s.batch("a")})
		two := s.produceRequest(9, "orders", produced{0, s.batch("b")})
		unacked := s.produceRequest(9, "orders", produced{0, s.batch("c")})
		unacked.Acks = 0
		meta, three := metadataOf(9, "made-on-demand"), s.produceRequest(9, "orders", produced{0, s.batch("d")})
		c.pipeline(one, two, unacked, meta, three)
		c.idle("while the disk is held")
		if o := s.offsets("orders", 0); o.End != 4 || o.HighWatermark != 1 {
			t.Errorf("end %d and high watermark %d, want 4 and 1: the produces before Metadata have started, the one behind has not", o.End, o.HighWatermark)
		}
		if _, ok := s.store.Topic("made-on-demand"); ok {
			t.Error("Metadata has started before the produces were answered")
		}
		release()
		for i, req := range []*kmsg.ProduceRequest{one, two} {
			p := c.receive(req, int32(i+1)).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
			if p.ErrorCode != 0 || p.BaseOffset != int64(i+1) {
				t.Errorf("produce %d: code %d and offset %d, want 0 and %d", i, p.ErrorCode, p.BaseOffset, i+1)
			}
		}
		c.receive(meta, 4)
		if p := c.receive(three, 5).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != 4 {
			t.Errorf("last produce: code %d and offset %d, want 0 and 4", p.ErrorCode, p.BaseOffset)
		}
	})
}

func TestPipelineIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var disk heldSync
		s := newServerOn(t, disk.on(vfs.NewMem(vfs.MemOptions{})), nil)
		s.topic("orders", 1)
		s.mustProduce("orders", 0, s.batch("first"))
		c := s.dial(t)
		release := disk.hold()
		req := s.produceRequest(9, "orders", produced{0, s.batch("a")})
		const sent = 3 * pipelineDepth
		c.pipeline(slices.Repeat([]kmsg.Request{req}, sent)...)
		synctest.Wait()
		// One is with the writer and one waits for a place in the queue.
		if o := s.offsets("orders", 0); o.End > pipelineDepth+3 {
			t.Errorf("%d produces have started, want at most %d", o.End-1, pipelineDepth+2)
		}
		release()
		for i := range int32(sent) {
			c.receive(req, i+1)
		}
	})
}

func TestUnacknowledgedProduce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		s.topic("orders", 1)
		c := s.dial(t)
		req := s.produceRequest(9, "orders", produced{0, s.batch("a")})
		req.Acks = 0
		c.send(req)
		c.send(req)
		c.call(versions()) // the only answer
		if o := s.offsets("orders", 0); o.End != 2 {
			t.Errorf("end offset %d, want 2", o.End)
		}
		ghost := s.produceRequest(9, "ghost", produced{0, s.batch("a")})
		ghost.Acks = 0
		c.send(ghost)
		c.expectClosed("acks=0 to a topic that does not exist")
	})
}

func TestThrottledConnectionStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		handlers := *apis
		handlers.byKey = append([]*api(nil), apis.byKey...)
		slow := route(3, 0, 13, func(s *Server, r *request, req *kmsg.MetadataRequest) (*kmsg.MetadataResponse, error) {
			r.throttle = 3 * time.Second
			return s.metadata(r, req)
		})
		slow.flexibleFrom = apis.find(3).flexibleFrom
		handlers.byKey[3] = &slow
		s.s.apis = &handlers
		c := s.dial(t)
		began := time.Now()
		c.call(metadataOf(9))
		if d := time.Since(began); d != 0 {
			t.Errorf("the throttled request was answered after %v, want at once", d)
		}
		c.call(versions())
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("the request after it was answered after %v, want 3s", d)
		}
	})
}

func TestClientsAreKnownByNameAndSoftware(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		var seen request
		handlers := *apis
		handlers.byKey = append([]*api(nil), apis.byKey...)
		spy := route(3, 0, 13, func(s *Server, r *request, req *kmsg.MetadataRequest) (*kmsg.MetadataResponse, error) {
			seen = *r
			return s.metadata(r, req)
		})
		spy.flexibleFrom = apis.find(3).flexibleFrom
		handlers.byKey[3] = &spy
		s.s.apis = &handlers
		c := s.dial(t)
		c.call(versions())
		c.call(metadataOf(9))
		if seen.clientID != "test" || seen.clientIDNull || seen.softwareName != "test" || seen.softwareVersion != "1.0" ||
			seen.principal != anonymous || seen.listener.Name != "PLAINTEXT" || seen.key != 3 || seen.version != 9 || seen.correlationID != 2 {
			t.Errorf("the handler saw %+v", seen)
		}
	})
}
