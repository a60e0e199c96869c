package wire

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fillCodes gives each list under v two elements and each error code a number of its own, which it returns.
func fillCodes(v reflect.Value, next *int16) (codes []int16) {
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case f.Kind() == reflect.Int16 && strings.HasSuffix(v.Type().Field(i).Name, "ErrorCode"):
			*next++
			f.SetInt(int64(*next))
			codes = append(codes, *next)
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct:
			f.Set(reflect.MakeSlice(f.Type(), 2, 2))
			for j := range 2 {
				codes = append(codes, fillCodes(f.Index(j), next)...)
			}
		}
	}
	return codes
}

func TestEveryErrorCodeOfAnAnswerIsSeen(t *testing.T) {
	for i := range apis.rows {
		key := apis.rows[i].key
		if key == 1 || key == 78 {
			continue // encoded by hand; see TestErrorsOfFetchesAreCounted
		}
		resp, next := kmsg.ResponseForKey(key), int16(0)
		want := fillCodes(reflect.ValueOf(resp).Elem(), &next)
		var got []int16
		eachError(resp, func(code int16) { got = append(got, code) })
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got the codes %v, want %v", keyName(key), got, want)
		}
	}
}

// of returns the counts of a key.
func (s *server) of(key int16) APIStats {
	all := s.s.APIStats()
	return all[slices.IndexFunc(all, func(a APIStats) bool { return a.Key == key })]
}

func TestRequestsAndAnswersAreCountedByKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		c := s.dial(t)
		for _, req := range []kmsg.Request{metadataOf(4, "nowhere"), metadataOf(12, "nowhere", "nor.here"), versions()} {
			before := s.of(req.Key())
			frame := frameOf(req, 7)
			c.write(frame)
			_, rest := c.frame()
			synctest.Wait()
			after := s.of(req.Key())
			if n := after.Requests - before.Requests; n != 1 {
				t.Errorf("%s: %d requests, want one", after.Name, n)
			}
			if n := after.RequestBytes - before.RequestBytes; n != int64(len(frame)) {
				t.Errorf("%s: %d bytes of requests, want %d", after.Name, n, len(frame))
			}
			if n := after.AnswerBytes - before.AnswerBytes; n != int64(8+len(rest)) {
				t.Errorf("%s: %d bytes of answers, want %d", after.Name, n, 8+len(rest))
			}
		}
		if m := s.of(3); m.RetriableErrors != 3 || m.FinalErrors != 0 {
			t.Errorf("%d and %d errors of Metadata, want the three topics that are not there, after which clients try again", m.RetriableErrors, m.FinalErrors)
		}
	})
}

func TestErrorsOfFetchesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		s.topic("orders", 1)
		c := s.dial(t)
		c.call(parkedFetch("nowhere", time.Second))
		beyond := parkedFetch("orders", time.Second)
		beyond.Topics[0].Partitions[0].FetchOffset = 5
		c.call(beyond)
		c.call(parkedFetch("orders", time.Second))
		synctest.Wait()
		if f := s.of(1); f.Requests != 3 || f.RetriableErrors != 1 || f.FinalErrors != 1 {
			t.Errorf("got %+v, want 3 requests and an error of each class", f)
		}
		want := []ErrorStats{{"OFFSET_OUT_OF_RANGE", 1}, {"UNKNOWN_TOPIC_OR_PARTITION", 1}}
		if got := s.s.ErrorStats(); !slices.Equal(got, want) {
			t.Errorf("errors are %v, want %v", got, want)
		}
	})
}

func TestErrorsThatNobodyKnowsAreCountedTogether(t *testing.T) {
	b := newBroker(t, nil)
	for _, code := range []int16{kerr.UnknownServerError.Code, codesCounted, -7, 254, 0} {
		b.s.byAPI.failed(0, code)
	}
	want := []ErrorStats{{"OTHER", 3}, {"UNKNOWN_SERVER_ERROR", 1}}
	if got := b.s.ErrorStats(); !slices.Equal(got, want) {
		t.Errorf("errors are %v, want %v", got, want)
	}
}
