package storage

import (
	"slices"
	"testing"

	"github.com/kaen-log/gateway/auth"
)

func TestDescribeMetadataRecord(t *testing.T) {
	var got []string
	records := append(testMetadataState().records(),
		metadataRecord{key: topicKey(metadataTopicKey, TopicID{1})},
		metadataRecord{key: topicKey(metadataDeletedKey, TopicID{1})},
		configsRecord(resourceKey{16, "m"}, nil),
		configsRecord(resourceKey{brokerResource, "1"}, map[string]string{"listener.name.a.plain.sasl.jaas.config": "hush", "ssl.key.password": "hush", "x": "1"}),
		quotasRecord(QuotaEntity{ClientID: QuotaName{Set: true, Name: "c"}}, nil),
		scramRecord(ScramUser{"ann", auth.ScramSHA256}, nil),
		aclRecord(anACL, false),
		formatRecord(1),
		snapshotRecord(0),
		snapshotRecord(1),
	)
	for _, r := range records {
		s, err := DescribeMetadataRecord(r.key, r.value)
		if err != nil {
			t.Fatalf("record %x=%x: %v", r.key, r.value, err)
		}
		got = append(got, s)
	}
	want := []string{
		"format 2",
		"store: cluster x9kM3vQ7T1uU5oHn0QwZpA, directory AQIDAAAAAAAAAAAAAAAAAA, adopted after a clean stop",
		"leader epoch 7",
		"producer ids below 4000 are given out",
		"topic AQAAAAAAAAAAAAAAAAAAAA orders, 3 partitions, configs none",
		"topic AgAAAAAAAAAAAAAAAAAAAA a.b, 300 partitions, configs cleanup.policy= retention.ms=5, 200 of them adopted, 7 offline: no directory, 150 offline: magic 1",
		"deleted topic AwAAAAAAAAAAAAAAAAAAAA was gone",
		`configs of resource type 4 "": log.retention.ms=9`,
		`configs of resource type 32 "group a": x= y=z`,
		`SCRAM-SHA-512 credential of user "ann", 8192 iterations`,
		`SCRAM-SHA-256 credential of user "bob", 4096 iterations`,
		`ACL: allow User:ann from * operation 3 on resource type 2 literal "orders"`,
		`ACL: deny User:* from 10.0.0.0/8 operation 2 on resource type 3 prefixed "g"`,
		`quotas of user "ann", client id by default: producer_byte_rate=1024 request_percentage=0.5`,
		`quotas of address "10.0.0.1": connection_creation_rate=3`,
		"topic AQAAAAAAAAAAAAAAAAAAAA is deleted",
		"deleted topic AQAAAAAAAAAAAAAAAAAAAA has no directory left",
		`configs of resource type 16 "m": none`,
		`configs of resource type 4 "1": listener.name.a.plain.sasl.jaas.config=[hidden] ssl.key.password=[hidden] x=1`,
		`quotas of client id "c": none`,
		`SCRAM-SHA-256 credential of user "ann" is taken away`,
		`ACL taken away: allow User:ann from * operation 3 on resource type 2 literal "orders"`,
		"format 1",
		"a snapshot begins",
		"the snapshot ends",
	}
	if !slices.Equal(got, want) {
		for i := range max(len(got), len(want)) {
			g, w := "", ""
			if i < len(got) {
				g = got[i]
			}
			if i < len(want) {
				w = want[i]
			}
			if g != w {
				t.Errorf("record %d: got %q, want %q", i, g, w)
			}
		}
	}
	if _, err := DescribeMetadataRecord([]byte{99}, nil); err == nil {
		t.Error("a record of type 99 was described")
	}
}
