package wire

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ApiVersions, key 18, versions 0 to 5.
//
//	1  throttle time
//	3  flexible, but for the response header; the client's software; features
//	4  features whose lowest level is 0
//	5  the cluster and node the client means to reach (KIP-1242)
//
// A version above 5 is answered in version 0. Kafka: KafkaApis.handleApiVersionsRequest, ApiVersionsRequest.
//
// Not advertised, since it is not served: streams.version.
const apiVersionsKey = 18

// feature is a feature that this server has, with the levels it knows; it is finalized at its highest.
type feature struct {
	name     string
	min, max int16
}

// features are those that a client or tool looks at. metadata.version 33 is Kafka 4.4's; a client does not use it, admin
// tools show it.
var features = []feature{
	{"metadata.version", 7, 33},
	{"group.version", 0, 1},       // consumer groups
	{"share.version", 0, 1},       // share groups
	{"transaction.version", 0, 2}, // 1: records with tags; 2: an epoch for each transaction, and no AddPartitionsToTxn (KIP-890)
}

func (s *Server) apiVersions(r *request, req *kmsg.ApiVersionsRequest) (*kmsg.ApiVersionsResponse, error) {
	resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
	if !validAPIVersions(req) {
		resp.ErrorCode = kerr.InvalidRequest.Code
		return resp, nil
	}
	if req.Version >= 3 && r.conn != nil {
		r.conn.softwareName, r.conn.softwareVersion = req.ClientSoftwareName, req.ClientSoftwareVersion
	}
	if req.ClusterID != nil && (*req.ClusterID != s.store.ClusterID() || req.NodeID != s.store.NodeID()) {
		resp.ErrorCode = kerr.RebootstrapRequired.Code
		return resp, nil
	}
	resp.ApiKeys = make([]kmsg.ApiVersionsResponseApiKey, 0, len(s.apis.rows))
	for i := range s.apis.rows {
		resp.ApiKeys = append(resp.ApiKeys, s.apis.rows[i].advertise())
	}
	for _, f := range features {
		// Older clients cannot decode a level of 0. Kafka: KAFKA-17011.
		if req.Version >= 4 || f.min > 0 {
			supported := kmsg.NewApiVersionsResponseSupportedFeature()
			supported.Name, supported.MinVersion, supported.MaxVersion = f.name, f.min, f.max
			resp.SupportedFeatures = append(resp.SupportedFeatures, supported)
		}
		finalized := kmsg.NewApiVersionsResponseFinalizedFeature()
		finalized.Name, finalized.MaxVersionLevel, finalized.MinVersionLevel = f.name, f.max, f.max
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, finalized)
	}
	// Features change with the program only, so that any epoch that is not -1 (unknown) says it all.
	resp.FinalizedFeaturesEpoch = 0
	return resp, nil
}

// advertise returns the row as ApiVersions tells it.
func (a *api) advertise() kmsg.ApiVersionsResponseApiKey {
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MinVersion, k.MaxVersion = a.key, a.advertisedMin, a.max
	return k
}

// unsupportedAPIVersions answers an ApiVersions request of a version we do not know: in version 0, which everyone can
// read, with the versions of this key alone, so that the client can ask again.
func (s *Server) unsupportedAPIVersions() *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = kerr.UnsupportedVersion.Code
	resp.ApiKeys = append(resp.ApiKeys, s.apis.find(apiVersionsKey).advertise())
	return resp
}

// validAPIVersions checks what the client says of itself.
func validAPIVersions(req *kmsg.ApiVersionsRequest) bool {
	if req.Version >= 5 && (req.ClusterID == nil) != (req.NodeID == -1) {
		return false // both or none
	}
	return req.Version < 3 || validSoftware(req.ClientSoftwareName) && validSoftware(req.ClientSoftwareVersion)
}

// validSoftware reports whether s is made of letters, digits, '-' and '.', and begins and ends with a letter or digit.
func validSoftware(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case '0' <= c && c <= '9', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		case c == '-' || c == '.':
			if i == 0 || i == len(s)-1 {
				return false
			}
		default:
			return false
		}
	}
	return s != ""
}
