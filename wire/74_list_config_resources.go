package wire

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListConfigResources, key 74, versions 0 to 1.
//
//	v0 subscriptions to client metrics only
//	v1 every kind, and a choice of kinds
//
// Kafka: KafkaApis.handleListConfigResources; KIP-1142.

// listedKinds are the kinds that version 1 lists, in the order of the answer.
var listedKinds = []int8{kindGroup, kindClientMetrics, kindBrokerLogger, kindBroker, kindTopic}

// listConfigResources answers a ListConfigResources request.
func (s *Server) listConfigResources(r *request, req *kmsg.ListConfigResourcesRequest) (*kmsg.ListConfigResourcesResponse, error) {
	resp := &kmsg.ListConfigResourcesResponse{Version: req.Version, ConfigResources: []kmsg.ListConfigResourcesResponseConfigResource{}}
	if !s.authorizeCluster(r, opDescribeConfigs) {
		resp.ErrorCode = kerr.ClusterAuthorizationFailed.Code
		return resp, nil
	}
	known, wanted := listedKinds, req.ResourceTypes
	if req.Version == 0 {
		known, wanted = []int8{kindClientMetrics}, nil
	}
	if len(wanted) == 0 {
		wanted = known
	}
	for _, kind := range wanted {
		if !slices.Contains(known, kind) {
			resp.ErrorCode = kerr.UnsupportedVersion.Code
			return resp, nil
		}
	}
	for _, kind := range known {
		if !slices.Contains(wanted, kind) {
			continue
		}
		for _, name := range s.configResources(kind) {
			c := kmsg.NewListConfigResourcesResponseConfigResource()
			c.Name, c.Type = name, kind
			resp.ConfigResources = append(resp.ConfigResources, c)
			if err := r.answerGrows(4 + len(name)); err != nil {
				return nil, err
			}
		}
	}
	return resp, nil
}

// configResources returns the names of the resources of a kind: those that exist, or, where anything can be given
// configs, those that have some.
func (s *Server) configResources(kind int8) []string {
	switch kind {
	case kindTopic:
		topics := s.store.Topics()
		names := make([]string, len(topics))
		for i, t := range topics {
			names[i] = t.Name()
		}
		return names
	case kindBroker, kindBrokerLogger:
		return []string{s.brokerName()}
	}
	return s.store.ResourceNames(kind)
}
