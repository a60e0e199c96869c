package wire

import (
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage"
)

// AlterClientQuotas, key 49, versions 0 and 1 (KIP-546).
//
//	v1 flexible
//
// Each entity has one answer, in the order in which the request names them first, in Kafka in no order. One that is at
// fault changes nothing of its own and does not keep the others from it; all that is not at fault is one batch of the
// metadata log. One that is named again is answered with an error, and what was said of it first is done.
//
// Differs from Kafka: an entity of an address is an address, or localhost: no name is looked up. A number that is none
// (NaN) is refused.
//
// Kafka: ControllerApis.handleAlterClientQuotas, ClientQuotaControlManager.alterClientQuotas.

// maxQuotaChanges is how many quotas a request may change. Kafka: QuorumController.MAX_RECORDS_PER_USER_OP.
const maxQuotaChanges = 10_000

// quotaValue is what a quota's value may be.
type quotaValue struct {
	integral bool
	most     float64
}

// quotaKeys are the quotas of users and client ids, ipQuotaKeys those of addresses. Kafka: QuotaConfig.
var (
	quotaKeys = map[string]quotaValue{
		producerByteRate:       {integral: true, most: math.MaxInt64},
		consumerByteRate:       {integral: true, most: math.MaxInt64},
		requestPercentage:      {most: math.Inf(1)},
		controllerMutationRate: {most: math.Inf(1)},
	}
	ipQuotaKeys = map[string]quotaValue{
		connectionCreationRate: {integral: true, most: math.MaxInt32},
	}
)

// quotaAlteration is what the request says of one entity, and the answer.
type quotaAlteration struct {
	names   map[string]*string // by type, as the request has them; the last of a type counts
	changes []storage.QuotaChange
	err     error
}

// alterClientQuotas answers an AlterClientQuotas request.
func (s *Server) alterClientQuotas(r *request, req *kmsg.AlterClientQuotasRequest) (*kmsg.AlterClientQuotasResponse, error) {
	if !s.authorize(r, opAlterConfigs, resourceCluster, clusterResource) {
		return refuseQuotas(req, kerr.ClusterAuthorizationFailed), nil
	}
	current := s.store.ClientQuotas()
	var all []*quotaAlteration
	byEntity := make(map[string]*quotaAlteration)
	changes := 0
	for i := range req.Entries {
		names := quotaNames(&req.Entries[i])
		key := quotaNamesKey(names)
		if a := byEntity[key]; a != nil {
			a.err = detail(kerr.InvalidRequest, "the entity is in the request more than once")
			continue
		}
		a := &quotaAlteration{names: names}
		a.changes, a.err = quotaChanges(names, req.Entries[i].Ops, current)
		byEntity[key] = a
		all = append(all, a)
		changes += len(a.changes)
	}
	if changes > maxQuotaChanges {
		return refuseQuotas(req, detail(kerr.PolicyViolation, fmt.Sprintf("%d quotas in one request, want at most %d", changes, maxQuotaChanges))), nil
	}
	if !req.ValidateOnly && changes > 0 {
		list := make([]storage.QuotaChange, 0, changes)
		for _, a := range all {
			list = append(list, a.changes...)
		}
		if err := s.store.AlterClientQuotas(list); err != nil {
			return refuseQuotas(req, err), nil
		}
		s.quotas.load(s.store)
	}
	resp := req.ResponseKind().(*kmsg.AlterClientQuotasResponse)
	for _, a := range all {
		resp.Entries = append(resp.Entries, quotaAnswer(a.names, a.err))
	}
	return resp, nil
}

// refuseQuotas answers all entries with an error. Kafka: AlterClientQuotasRequest.getErrorResponse.
func refuseQuotas(req *kmsg.AlterClientQuotasRequest, err error) *kmsg.AlterClientQuotasResponse {
	resp := req.ResponseKind().(*kmsg.AlterClientQuotasResponse)
	for i := range req.Entries {
		resp.Entries = append(resp.Entries, quotaAnswer(quotaNames(&req.Entries[i]), err))
	}
	return resp
}

// quotaNames returns the parts of the entity that an entry names.
func quotaNames(e *kmsg.AlterClientQuotasRequestEntry) map[string]*string {
	names := make(map[string]*string, len(e.Entity))
	for i := range e.Entity {
		names[e.Entity[i].Type] = e.Entity[i].Name
	}
	return names
}

// quotaTypes returns the types in an entity, Kafka's in the order of its hash map.
func quotaTypes(names map[string]*string) []string {
	types := make([]string, 0, len(names))
	for _, kind := range []string{quotaClientID, quotaUser, quotaIP} {
		if _, ok := names[kind]; ok {
			types = append(types, kind)
		}
	}
	known := len(types)
	for kind := range names {
		if !slices.Contains(types[:known], kind) {
			types = append(types, kind)
		}
	}
	slices.Sort(types[known:])
	return types
}

// quotaNamesKey returns a text that is the same for the same entity only.
func quotaNamesKey(names map[string]*string) string {
	var key []byte
	for _, kind := range quotaTypes(names) {
		key = appendString(key, kind, true)
		key = appendMessage(key, names[kind])
	}
	return string(key)
}

func quotaAnswer(names map[string]*string, err error) kmsg.AlterClientQuotasResponseEntry {
	out := kmsg.NewAlterClientQuotasResponseEntry()
	out.ErrorCode, out.ErrorMessage = errorCode(err), errorMessage(err)
	for _, kind := range quotaTypes(names) {
		part := kmsg.NewAlterClientQuotasResponseEntryEntity()
		part.Type, part.Name = kind, names[kind]
		out.Entity = append(out.Entity, part)
	}
	return out
}

// quotaChanges checks what the request says of an entity, and returns what that changes.
func quotaChanges(names map[string]*string, ops []kmsg.AlterClientQuotasRequestEntryOp, current storage.ClientQuotas) ([]storage.QuotaChange, error) {
	seen := make(map[string]bool, len(ops))
	for i := range ops {
		if seen[ops[i].Key] {
			return nil, detail(kerr.InvalidRequest, fmt.Sprintf("quota %s is changed more than once", ops[i].Key))
		}
		seen[ops[i].Key] = true
	}
	e, err := quotaEntity(names)
	if err != nil {
		return nil, err
	}
	keys := quotaKeys
	if e.IP.Set {
		keys = ipQuotaKeys
	}
	var changes []storage.QuotaChange
	for i := range ops {
		op := &ops[i]
		old, set := current[e][op.Key]
		if op.Remove {
			if set {
				changes = append(changes, storage.QuotaChange{Entity: e, Key: op.Key, Remove: true})
			}
			continue
		}
		if err := checkQuota(keys, op.Key, op.Value); err != nil {
			return nil, err
		}
		if !set || old != op.Value {
			changes = append(changes, storage.QuotaChange{Entity: e, Key: op.Key, Value: op.Value})
		}
	}
	return changes, nil
}

// quotaEntity checks an entity: its types and names, then whether they go together.
func quotaEntity(names map[string]*string) (e storage.QuotaEntity, err error) {
	if len(names) == 0 {
		return e, detail(kerr.InvalidRequest, "an entity without a type")
	}
	for _, kind := range quotaTypes(names) {
		name := names[kind]
		p := quotaPart(&e, kind)
		switch {
		case p == nil:
			return e, detail(kerr.InvalidRequest, fmt.Sprintf("entity type %q has no quotas", kind))
		case name != nil && *name == "":
			return e, detail(kerr.InvalidRequest, fmt.Sprintf("an empty name of entity type %s", kind))
		}
		*p = storage.QuotaName{Set: true, Name: deref(name)}
	}
	switch {
	case e.IP.Set && (e.User.Set || e.ClientID.Set):
		return e, detail(kerr.InvalidRequest, "ip does not go together with user or client-id")
	case e.IP.Set && e.IP.Name != "":
		if _, ok := quotaAddress(e.IP.Name); !ok {
			return e, detail(kerr.InvalidRequest, fmt.Sprintf("%q is no address", e.IP.Name))
		}
	}
	return e, nil
}

// quotaAddress returns the address that the name of an entity stands for.
func quotaAddress(name string) (netip.Addr, bool) {
	if name == "localhost" {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), true
	}
	a, err := netip.ParseAddr(name)
	return a.Unmap().WithZone(""), err == nil
}

// checkQuota checks a quota's key and value. Kafka: ClientQuotaControlManager.validateQuotaKeyValue.
func checkQuota(keys map[string]quotaValue, key string, value float64) error {
	valid, ok := keys[key]
	switch {
	case !ok:
		return detail(kerr.InvalidRequest, fmt.Sprintf("there is no quota %q of the entity", key))
	case math.IsNaN(value) || value <= 0:
		return detail(kerr.InvalidRequest, fmt.Sprintf("quota %s is %g, want more than 0", key, value))
	case value > valid.most:
		return detail(kerr.InvalidRequest, fmt.Sprintf("quota %s is %g, want at most %g", key, value, valid.most))
	case valid.integral && math.Abs(math.Mod(value, 1)) > 1e-6:
		return detail(kerr.InvalidRequest, fmt.Sprintf("quota %s is %g, want a whole number", key, value))
	}
	return nil
}
