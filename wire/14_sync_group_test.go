package wire

import (
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestSyncGroupNeedsTheProtocolFromVersion5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newGroupServer(t, nil)
		c := s.dial(t)
		for _, test := range []struct {
			version        int16
			kind, protocol *string
			want           int16
		}{
			{5, nil, nil, 23},
			{5, kmsg.StringPtr("consumer"), nil, 23},
			{5, nil, kmsg.StringPtr("range"), 23},
			{5, kmsg.StringPtr("consumer"), kmsg.StringPtr("range"), 25},
			{4, nil, nil, 25},
		} {
			req := kmsg.NewPtrSyncGroupRequest()
			req.Version, req.Group, req.ProtocolType, req.Protocol = test.version, "ghost", test.kind, test.protocol
			if r := c.call(req).(*kmsg.SyncGroupResponse); r.ErrorCode != test.want {
				t.Errorf("version %d, type %q, protocol %q: got %d, want %d", test.version, deref(test.kind), deref(test.protocol), r.ErrorCode, test.want)
			}
		}
	})
}

func TestSyncGroupRefusesOtherProtocols(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newGroupServer(t, map[string]string{"group.initial.rebalance.delay.ms": "0"})
		_, follower := s.pair(t, groupVersions{9, 4, 5, 5, 6})
		for _, test := range []struct {
			kind, protocol string
			generation     int32
			want           int16
		}{{"consumer", "range", 2, 0}, {"connect", "range", 2, 23}, {"consumer", "sticky", 2, 23}, {"connect", "range", 1, 22}} {
			req := follower.syncRequest(nil)
			req.ProtocolType, req.Protocol, req.Generation = &test.kind, &test.protocol, test.generation
			if r := follower.call(req).(*kmsg.SyncGroupResponse); r.ErrorCode != test.want {
				t.Errorf("%+v: got %d", test, r.ErrorCode)
			}
		}
	})
}
