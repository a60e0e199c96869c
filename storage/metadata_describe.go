package storage

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// DescribeMetadataRecord says in one line what a record of the metadata log means; value nil takes the key away. The
// error is that of a record which this version cannot read.
func DescribeMetadataRecord(key, value []byte) (string, error) {
	st := newMetadataState()
	if err := st.apply(key, value); err != nil {
		return "", err
	}
	switch key[0] {
	case metadataFormatKey:
		return fmt.Sprintf("format %d", st.format), nil
	case metadataStoreKey:
		from := [...]string{"", ", adopted after a kill", ", adopted after a clean stop"}[st.adoption]
		return fmt.Sprintf("store: cluster %s, directory %s%s", st.clusterID, TopicID(st.directoryID), from), nil
	case metadataEpochKey:
		return fmt.Sprintf("leader epoch %d", st.epoch), nil
	case metadataProducerIDsKey:
		return fmt.Sprintf("producer ids below %d are given out", st.producerIDs), nil
	case metadataTopicKey:
		id := TopicID(key[1:])
		t, ok := st.topics[id]
		if !ok {
			return fmt.Sprintf("topic %s is deleted", id), nil
		}
		return describeTopic(t), nil
	case metadataDeletedKey:
		id := TopicID(key[1:])
		name, ok := st.deleted[id]
		if !ok {
			return fmt.Sprintf("deleted topic %s has no directory left", id), nil
		}
		return fmt.Sprintf("deleted topic %s was %s", id, name), nil
	case metadataConfigsKey:
		k := resourceKey{kind: int8(key[1]), name: string(key[2:])}
		return fmt.Sprintf("configs of resource type %d %q: %s", k.kind, k.name, describeConfigs(st.configs[k])), nil
	case metadataSnapshotKey:
		if value[1] == 0 {
			return "a snapshot begins", nil
		}
		return "the snapshot ends", nil
	case metadataScramKey:
		return describeScram(key[1:], st), nil
	case metadataACLKey:
		return describeACL(key[1:], value != nil), nil
	case metadataQuotasKey:
		return describeQuotas(key[1:], st), nil
	}
	panic("storage: metadata record " + hex.EncodeToString(key) + " is known and not described")
}

func describeTopic(t *topicMeta) string {
	var b strings.Builder
	fmt.Fprintf(&b, "topic %s %s, %d partitions, configs %s", t.id, t.name, t.partitions, describeConfigs(t.configs))
	if t.adopted > 0 {
		fmt.Fprintf(&b, ", %d of them adopted", t.adopted)
	}
	indexes := make([]int32, 0, len(t.unserved))
	for i := range t.unserved {
		indexes = append(indexes, i)
	}
	slices.Sort(indexes)
	for _, i := range indexes {
		fmt.Fprintf(&b, ", %d offline: %s", i, t.unserved[i])
	}
	return b.String()
}

func describeConfigs(configs map[string]string) string {
	if len(configs) == 0 {
		return "none"
	}
	parts := make([]string, 0, len(configs))
	for _, name := range sortedKeys(configs) {
		value := configs[name]
		if secretConfig(name) {
			value = "[hidden]"
		}
		parts = append(parts, name+"="+value)
	}
	return strings.Join(parts, " ")
}

// secretConfig reports whether a config's value is a secret, by its name: the configs of brokers that Kafka has as
// passwords are not known here, nor are those of plug-ins.
func secretConfig(name string) bool {
	for _, part := range []string{"password", "passphrase", "secret", "jaas.config", "keystore.key"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
