package wire

import (
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fill gives every field of a message a random value. Arrays have up to three elements.
func fill(v reflect.Value, rnd *rand.Rand) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() && v.Type().Field(i).Name != "Version" {
				fill(f, rnd)
			}
		}
	case reflect.Pointer:
		if rnd.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), rnd)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), rnd.IntN(4), 3))
		for i := range v.Len() {
			fill(v.Index(i), rnd)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), rnd)
		}
	case reflect.String:
		v.SetString("some text"[:rnd.IntN(10)])
	case reflect.Bool:
		v.SetBool(rnd.IntN(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(rnd.Int64() >> 32)
	case reflect.Uint8:
		v.SetUint(rnd.Uint64() & 0xff)
	}
}

func TestShapesAreThoseOfTheCodec(t *testing.T) {
	for key, sh := range shapes {
		req := kmsg.RequestForKey(key)
		lowest := int16(0)
		if a := apis.find(key); a != nil {
			lowest = a.min
		}
		for version := lowest; version <= req.MaxVersion(); version++ {
			for seed := range uint64(15) {
				req := kmsg.RequestForKey(key)
				fill(reflect.ValueOf(req).Elem(), rand.New(rand.NewPCG(seed, uint64(key))))
				req.SetVersion(version)
				body := req.AppendTo(nil)
				w := shapeWalk{version: version, flexible: req.IsFlexible(), rest: body, elements: maxElements}
				if err := w.fields(sh); err != nil || len(w.rest) != 0 {
					t.Errorf("key %d version %d seed %d: error %v, %d of %d bytes left; body %x", key, version, seed, err, len(w.rest), len(body), body)
				}
				for n := range body {
					if err := checkShape(sh, version, req.IsFlexible(), body[:n]); err == nil {
						t.Errorf("key %d version %d seed %d: %d of %d bytes pass", key, version, seed, n, len(body))
					}
				}
			}
		}
	}
}

func TestEveryLargeFrameHasAShape(t *testing.T) {
	s := newBroker(t, nil).s
	for i := range apis.rows {
		if key := apis.rows[i].key; s.frameLimit(key) > otherFrameLimit && shapes[key] == nil {
			t.Errorf("key %d has a frame limit of %d bytes and no shape", key, s.frameLimit(key))
		}
	}
}

// TestClaimsDoNotAllocate decodes frames that consist of claims: somewhere an array says that it has as many elements as
// there are bytes left, or half or a third as many.
func TestClaimsDoNotAllocate(t *testing.T) {
	b := newBroker(t, nil)
	for i := range apis.rows {
		a := &apis.rows[i]
		for _, version := range []int16{a.min, a.max} {
			flexible := version >= a.flexibleFrom
			head := a.newRequest()
			head.SetVersion(version)
			empty := head.AppendTo(nil)
			rest := make([]byte, 128<<10)
			for cut := range empty {
				n := len(rest) / (1 + cut%3)
				body := append(append(empty[:cut:cut], claim(n, flexible)...), rest...)
				if got := decodeAllocates(b.s, a, version, body); got > maxDecode*int64(len(body)) {
					t.Errorf("key %d version %d: a claim of %d elements at %d of %d bytes makes decoding allocate %d bytes, want at most %d times as many",
						a.key, version, n, cut, len(body), got, maxDecode)
				}
			}
		}
	}
}

// maxDecode is how many times its length a frame may take when it is decoded: about 130 bytes for an element of two.
const maxDecode = 65

func claim(n int, flexible bool) []byte {
	if flexible {
		return binary.AppendUvarint(nil, uint64(n)+1)
	}
	return binary.BigEndian.AppendUint32(nil, uint32(n))
}

func decodeAllocates(s *Server, a *api, version int16, body []byte) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_ = s.decode(&call{api: a, request: request{key: a.key, version: version}}, body)
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

func TestLargeFramesOfEmptyElementsAreRefused(t *testing.T) {
	s := newBroker(t, nil).s
	a := apis.find(produceKey)
	body := []byte{0, 0xff, 0xff, 0, 0, 0, 1} // no transactional id, acks, timeout
	const topics = 2 << 20
	body = append(body, claim(topics, true)...)
	for range topics {
		body = append(body, 1, 1, 0) // no name, no partitions, no tags
	}
	body = append(body, 0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := s.decode(&call{api: a, request: request{key: a.key, version: 9}}, body)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; err == nil || got > 1<<20 {
		t.Errorf("Produce of %d empty topics: error %v and %d bytes allocated, want it refused at once", topics, err, got)
	}
}

func TestElementsAreCounted(t *testing.T) {
	// 100,000 topics of ten empty configs and nothing else, which take little room each.
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Configs = make([]kmsg.CreateTopicsRequestTopicConfig, 10)
	for range 100_000 {
		req.Topics = append(req.Topics, topic)
	}
	body := req.AppendTo(nil)
	if err := checkShape(shapes[19], 7, true, body); err == nil {
		t.Errorf("%d bytes with 1,100,000 elements pass, want at most %d elements", len(body), maxElements)
	}
	req.Topics = req.Topics[:90_000]
	if err := checkShape(shapes[19], 7, true, req.AppendTo(nil)); err != nil {
		t.Errorf("990,000 elements: %v", err)
	}
}

func BenchmarkCheckShape(b *testing.B) {
	req := kmsg.NewPtrProduceRequest()
	req.Version = 9
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = "orders"
	for range 16 {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Records = make([]byte, 1000)
		topic.Partitions = append(topic.Partitions, p)
	}
	req.Topics = append(req.Topics, topic)
	body := req.AppendTo(nil)
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if err := checkShape(shapes[0], 9, true, body); err != nil {
			b.Fatal(err)
		}
	}
}
