package wire

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage"
)

// DescribeClientQuotas, key 48, versions 0 and 1 (KIP-546).
//
//	v1 flexible
//
// A filter names types of entities: of an exact name, of the default, or of any, the default included. An entity matches
// when it has all of them, and when the filter is strict, no other. Entities come sorted, in Kafka in no order.
//
// Kafka: KafkaApis.handleDescribeClientQuotasRequest, ClientQuotasImage.describe.

// Types of entities that have quotas. Kafka: ClientQuotaEntity.
const (
	quotaUser     = "user"
	quotaClientID = "client-id"
	quotaIP       = "ip"
)

// How a filter matches. Kafka: DescribeClientQuotasRequest.
const (
	matchExact   kmsg.QuotasMatchType = 0
	matchDefault kmsg.QuotasMatchType = 1
	matchAny     kmsg.QuotasMatchType = 2
)

// quotaFilter is what the filter asks of one part of an entity.
type quotaFilter struct {
	kind     string
	any      bool
	name     string // "" for the default, unless any
	nameless bool   // an exact name that no entity can have: the empty one
}

// describeClientQuotas answers a DescribeClientQuotas request.
func (s *Server) describeClientQuotas(r *request, req *kmsg.DescribeClientQuotasRequest) (*kmsg.DescribeClientQuotasResponse, error) {
	resp := req.ResponseKind().(*kmsg.DescribeClientQuotasResponse)
	if !s.authorize(r, opDescribeConfigs, resourceCluster, clusterResource) {
		resp.ErrorCode = kerr.ClusterAuthorizationFailed.Code
		return resp, nil
	}
	filters, err := quotaFilters(req.Components)
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = errorCode(err), errorMessage(err)
		return resp, nil
	}
	resp.Entries, resp.ErrorMessage = []kmsg.DescribeClientQuotasResponseEntry{}, new(string)
	if len(filters) == 0 && req.Strict {
		return resp, nil
	}
	all := s.store.ClientQuotas()
	for _, e := range slices.SortedFunc(maps.Keys(all), storage.QuotaEntity.Compare) {
		if matchesQuota(e, filters, req.Strict) {
			resp.Entries = append(resp.Entries, describedQuota(e, all[e]))
			if err := r.answerGrows(64 + len(e.User.Name) + len(e.ClientID.Name) + len(e.IP.Name) + 32*len(all[e])); err != nil {
				return nil, err
			}
		}
	}
	return resp, nil
}

// quotaFilters checks the components of a filter, one after the other, and then whether they go together.
func quotaFilters(components []kmsg.DescribeClientQuotasRequestComponent) ([]quotaFilter, error) {
	filters := make([]quotaFilter, 0, min(len(components), 3))
	for i := range components {
		c := &components[i]
		switch {
		case c.EntityType == "":
			return nil, detail(kerr.InvalidRequest, "a component without an entity type")
		case slices.ContainsFunc(filters, func(f quotaFilter) bool { return f.kind == c.EntityType }):
			return nil, detail(kerr.InvalidRequest, fmt.Sprintf("entity type %s is in the filter more than once", c.EntityType))
		case !slices.Contains([]string{quotaUser, quotaClientID, quotaIP}, c.EntityType):
			return nil, detail(kerr.UnsupportedVersion, fmt.Sprintf("entity type %q has no quotas", c.EntityType))
		}
		f := quotaFilter{kind: c.EntityType, any: c.MatchType == matchAny}
		switch {
		case c.MatchType < matchExact || c.MatchType > matchAny:
			return nil, detail(kerr.InvalidRequest, fmt.Sprintf("match type %d, want 0 to 2", c.MatchType))
		case c.MatchType == matchExact && c.Match == nil:
			return nil, detail(kerr.InvalidRequest, "an exact match without a name")
		case c.MatchType != matchExact && c.Match != nil:
			return nil, detail(kerr.InvalidRequest, "a name for a match that is not exact")
		case c.MatchType == matchExact:
			f.name, f.nameless = *c.Match, *c.Match == ""
		}
		filters = append(filters, f)
	}
	if len(filters) > 1 && slices.ContainsFunc(filters, func(f quotaFilter) bool { return f.kind == quotaIP }) {
		return nil, detail(kerr.InvalidRequest, "ip does not go together with user or client-id")
	}
	return filters, nil
}

// matchesQuota reports whether an entity is what the filters ask for.
func matchesQuota(e storage.QuotaEntity, filters []quotaFilter, strict bool) bool {
	for _, f := range filters {
		p := quotaPart(&e, f.kind)
		if !p.Set || f.nameless || !f.any && p.Name != f.name {
			return false
		}
	}
	parts := 0
	for _, kind := range []string{quotaUser, quotaClientID, quotaIP} {
		if quotaPart(&e, kind).Set {
			parts++
		}
	}
	return !strict || parts == len(filters)
}

// quotaPart returns the part of an entity that is of a type; nil when there is no such type.
func quotaPart(e *storage.QuotaEntity, kind string) *storage.QuotaName {
	switch kind {
	case quotaUser:
		return &e.User
	case quotaClientID:
		return &e.ClientID
	case quotaIP:
		return &e.IP
	}
	return nil
}

func describedQuota(e storage.QuotaEntity, quotas map[string]float64) kmsg.DescribeClientQuotasResponseEntry {
	out := kmsg.NewDescribeClientQuotasResponseEntry()
	for _, kind := range []string{quotaClientID, quotaUser, quotaIP} { // Kafka's order: that of a hash map
		if p := quotaPart(&e, kind); p.Set {
			part := kmsg.NewDescribeClientQuotasResponseEntryEntity()
			part.Type = kind
			if p.Name != "" {
				part.Name = &p.Name
			}
			out.Entity = append(out.Entity, part)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(quotas)) {
		value := kmsg.NewDescribeClientQuotasResponseEntryValue()
		value.Key, value.Value = key, quotas[key]
		out.Values = append(out.Values, value)
	}
	return out
}
