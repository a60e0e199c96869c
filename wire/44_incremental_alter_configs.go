package wire

import "github.com/twmb/franz-go/pkg/kmsg"

// IncrementalAlterConfigs, key 44, versions 0 to 1.
//
//	v1 flexible
//
// Kafka: KafkaApis.handleIncrementalAlterConfigsRequest, ControllerApis.handleIncrementalAlterConfigs; alter_configs.go.

// incrementalAlterConfigs answers an IncrementalAlterConfigs request.
func (s *Server) incrementalAlterConfigs(r *request, req *kmsg.IncrementalAlterConfigsRequest) (*kmsg.IncrementalAlterConfigsResponse, error) {
	all := make([]alteration, len(req.Resources))
	for i := range req.Resources {
		q := &req.Resources[i]
		a := alteration{kind: int8(q.ResourceType), name: q.ResourceName, validateOnly: req.ValidateOnly}
		for j := range q.Configs {
			a.changes = append(a.changes, configChange{name: q.Configs[j].Name, op: q.Configs[j].Op, value: q.Configs[j].Value})
		}
		all[i] = a
	}
	resp := &kmsg.IncrementalAlterConfigsResponse{Version: req.Version, Resources: make([]kmsg.IncrementalAlterConfigsResponseResource, len(all))}
	for i, err := range s.alterAll(r, all) {
		out := &resp.Resources[i]
		out.ResourceType, out.ResourceName = req.Resources[i].ResourceType, all[i].name
		out.ErrorCode, out.ErrorMessage = errorCode(err), alterationMessage(err)
	}
	return resp, nil
}
