package wire

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// SaslHandshake, key 17, versions 0 to 1.
//
//	0  tokens follow by themselves, each after its length
//	1  tokens follow in SaslAuthenticate requests
//
// On a listener with SASL it belongs to authentication, in sasl.go. What comes here has no place: the listener has no
// SASL, or the client has authenticated and its session is not to be renewed. Kafka: KafkaApis.handleSaslHandshakeRequest.
const saslHandshakeKey = 17

func (s *Server) saslHandshake(r *request, req *kmsg.SASLHandshakeRequest) (*kmsg.SASLHandshakeResponse, error) {
	resp := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
	resp.ErrorCode = kerr.IllegalSaslState.Code
	return resp, nil
}
