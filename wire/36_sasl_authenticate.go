package wire

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// SaslAuthenticate, key 36, versions 0 to 2.
//
//	1  how long the session lasts
//	2  flexible
//
// On a listener with SASL it belongs to authentication, in sasl.go. What comes here has no place. Kafka:
// KafkaApis.handleSaslAuthenticateRequest.
const saslAuthenticateKey = 36

func (s *Server) saslAuthenticate(r *request, req *kmsg.SASLAuthenticateRequest) (*kmsg.SASLAuthenticateResponse, error) {
	resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
	resp.ErrorCode, resp.SASLAuthBytes = kerr.IllegalSaslState.Code, []byte{}
	text := "the listener has no SASL, or the client has authenticated already"
	resp.ErrorMessage = &text
	return resp, nil
}
