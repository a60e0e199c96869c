package groups

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups/runtime"
)

// supports says whether a member with these protocols may join: in an empty group
// any that has some, else those of the group's type with one protocol that every
// member supports. Kafka: ClassicGroup.supportsProtocols.
func (g *classicGroup) supports(groupType string, protocols []Protocol) bool {
	if g.current == classicEmpty {
		return groupType != "" && len(protocols) > 0
	}
	return groupType == g.groupType && groupType != "" && slices.ContainsFunc(protocols, func(p Protocol) bool {
		return g.supported[p.Name] == len(g.members)
	})
}

// selectProtocol picks the protocol that most members prefer of those that all
// support; "" when there is none. Kafka: ClassicGroup.selectProtocol.
func (g *classicGroup) selectProtocol() string {
	votes := map[string]int{}
	for _, m := range g.members {
		for _, p := range m.protocols {
			if g.supported[p.Name] == len(g.members) {
				votes[p.Name]++
				break
			}
		}
	}
	names := make([]string, 0, len(votes))
	for name := range votes {
		names = append(names, name)
	}
	// Of those with the most votes, the one that Java's HashMap lists first.
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(votes[b], votes[a]), cmp.Compare(hashMapBucket(a), hashMapBucket(b)), cmp.Compare(a, b))
	})
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// hashMapBucket is where a Java HashMap of up to twelve keys puts s.
func hashMapBucket(s string) uint32 {
	h := uint32(runtime.JavaHash(s))
	return (h ^ h>>16) & 15
}

// namedOnce leaves out protocols whose name was there before. Differs from Kafka: there
// a protocol that a member names twice counts as if two members had it, so that the
// group may find none that all support.
func namedOnce(protocols []Protocol) []Protocol {
	seen := make(map[string]bool, len(protocols))
	return slices.DeleteFunc(protocols, func(p Protocol) bool {
		twice := seen[p.Name]
		seen[p.Name] = true
		return twice
	})
}

// subscriptions reads what the members consume out of what they say for the chosen
// protocol; nil when that is not known, as in a group that is not of consumers. Of
// the metadata only the part that all versions have is read. Kafka:
// ClassicGroup.computeSubscribedTopics.
func (g *classicGroup) subscriptions() map[string]bool {
	if g.groupType != consumerProtocolType {
		return nil
	}
	topics := map[string]bool{}
	if len(g.members) == 0 {
		return topics
	}
	if g.protocol == "" {
		return nil
	}
	for _, m := range g.members {
		names, ok := subscribedTopics(metadataFor(m.protocols, g.protocol))
		if !ok {
			return nil
		}
		for _, name := range names {
			topics[name] = true
		}
	}
	return topics
}

// subscribedTopics reads the topics of a consumer's subscription of any version.
func subscribedTopics(metadata []byte) ([]string, bool) {
	if len(metadata) < 2 || int8(metadata[0]) < 0 {
		return nil, false
	}
	// As version 0, which is how every version begins.
	first := append([]byte{0, 0}, metadata[2:]...)
	var m kmsg.ConsumerMemberMetadata
	if err := m.ReadFrom(first); err != nil {
		return nil, false
	}
	return m.Topics, true
}
