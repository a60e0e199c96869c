package wire

import "github.com/twmb/franz-go/pkg/kmsg"

// AlterConfigs, key 33, versions 0 to 2.
//
//	v2 flexible
//
// What the request lists becomes the whole set: a config that is set and not listed is removed. Kafka has kept it for
// old clients since IncrementalAlterConfigs came. Kafka: ControllerApis.handleLegacyAlterConfigs; alter_configs.go.

// alterConfigs answers an AlterConfigs request.
func (s *Server) alterConfigs(r *request, req *kmsg.AlterConfigsRequest) (*kmsg.AlterConfigsResponse, error) {
	all := make([]alteration, len(req.Resources))
	for i := range req.Resources {
		q := &req.Resources[i]
		a := alteration{kind: int8(q.ResourceType), name: q.ResourceName, replace: true, validateOnly: req.ValidateOnly}
		for j := range q.Configs {
			a.changes = append(a.changes, configChange{name: q.Configs[j].Name, op: kmsg.IncrementalAlterConfigOpSet, value: q.Configs[j].Value})
		}
		all[i] = a
	}
	resp := &kmsg.AlterConfigsResponse{Version: req.Version, Resources: make([]kmsg.AlterConfigsResponseResource, len(all))}
	for i, err := range s.alterAll(r, all) {
		out := &resp.Resources[i]
		out.ResourceType, out.ResourceName = req.Resources[i].ResourceType, all[i].name
		out.ErrorCode, out.ErrorMessage = errorCode(err), alterationMessage(err)
	}
	return resp, nil
}
