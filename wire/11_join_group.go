package wire

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/auth"
	"github.com/kaen-log/gateway/groups"
)

// JoinGroup, key 11, versions 0 to 9.
//
//	1  rebalance timeout; before, it is the session timeout
//	2  throttle time
//	4  a member joins again with the id that it is given (KIP-394)
//	5  instance id (KIP-345)
//	6  flexible
//	7  protocol type, and a protocol that may be null
//	8  reason
//	9  skip assignment (KIP-814)
//
// The request is parked until the rebalance is over, and its frame given back before. The reason is not kept.
//
// Kafka: KafkaApis.handleJoinGroupRequest, GroupCoordinatorService.joinGroup.
func (s *Server) joinGroup(r *request, req *kmsg.JoinGroupRequest) (*kmsg.JoinGroupResponse, error) {
	resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
	if !s.authorize(r, opRead, resourceGroup, req.Group) {
		resp.ErrorCode = kerr.GroupAuthorizationFailed.Code
		return resp, nil
	}
	join := joinRequest(r, req)
	r.frameDone()
	ctx, cancel := parked(r)
	defer cancel()
	reply, err := s.groups.JoinGroup(ctx, join)
	resp.MemberID = reply.MemberID
	if err != nil {
		resp.ErrorCode = errorCode(err)
		return resp, nil
	}
	resp.Generation, resp.LeaderID, resp.SkipAssignment = reply.Generation, reply.Leader, reply.SkipAssignment
	resp.ProtocolType, resp.Protocol = nullable(reply.ProtocolType), nullable(reply.Protocol)
	resp.Members = make([]kmsg.JoinGroupResponseMember, len(reply.Members))
	for i, m := range reply.Members {
		resp.Members[i] = kmsg.JoinGroupResponseMember{MemberID: m.MemberID, InstanceID: m.InstanceID, ProtocolMetadata: m.Metadata}
		if err := r.answerGrows(16 + len(m.MemberID) + len(deref(m.InstanceID)) + len(m.Metadata)); err != nil {
			return nil, err
		}
	}
	return resp, nil
}

// joinRequest is what the groups are told. It shares no bytes with the frame.
func joinRequest(r *request, req *kmsg.JoinGroupRequest) *groups.JoinRequest {
	join := &groups.JoinRequest{
		Group: req.Group, MemberID: req.MemberID, InstanceID: req.InstanceID, ClientID: r.clientID, ClientHost: clientHost(r.remote),
		SessionTimeout:   time.Duration(req.SessionTimeoutMillis) * time.Millisecond,
		RebalanceTimeout: time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond,
		ProtocolType:     req.ProtocolType,
		Protocols:        make([]groups.Protocol, len(req.Protocols)),
		NeedsMemberID:    r.version >= 4,
		SkipsAssignment:  r.version >= 9,
	}
	if r.version < 1 {
		join.RebalanceTimeout = join.SessionTimeout
	}
	for i, p := range req.Protocols {
		join.Protocols[i] = groups.Protocol{Name: p.Name, Metadata: bytes.Clone(p.Metadata)}
	}
	return join
}

// parked returns a context for a call that may wait for other members. It ends when the peer leaves, and when others
// wait for memory that the connection holds: that is of a request behind this one, which Kafka's clients never send.
// Then the call is answered as one whose coordinator is not available, and the member goes on when it asks again.
func parked(r *request) (context.Context, func()) {
	ctx, cancel := context.WithCancel(r.ctx)
	var wg sync.WaitGroup
	wg.Go(func() { // ends with ctx
		select {
		case <-r.hurry:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel()
		wg.Wait()
	}
}

// nullable is s, or null for "".
func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// clientHost is a peer's address as Kafka tells of it: a slash, and the address as Java writes it, without a port.
// Kafka: InetAddress.toString.
func clientHost(remote net.Addr) string {
	if remote == nil {
		return "/"
	}
	peer, err := netip.ParseAddrPort(remote.String())
	if err != nil {
		return "/" + remote.String()
	}
	return "/" + auth.HostText(peer.Addr().Unmap())
}
