package wire

import (
	"fmt"
	"strings"
)

// kafkaKey is a key that a broker of Apache Kafka 4.4 serves to clients, with the versions it serves.
type kafkaKey struct {
	key      int16
	name     string
	min, max int16
}

// kafkaKeys are all of them; what only controllers and brokers send to each other is not among them. Kafka:
// clients/src/main/resources/common/message.
var kafkaKeys = []kafkaKey{
	{0, "Produce", 3, 13},
	{1, "Fetch", 4, 18},
	{2, "ListOffsets", 1, 11},
	{3, "Metadata", 0, 13},
	{8, "OffsetCommit", 2, 10},
	{9, "OffsetFetch", 1, 10},
	{10, "FindCoordinator", 0, 6},
	{11, "JoinGroup", 0, 9},
	{12, "Heartbeat", 0, 4},
	{13, "LeaveGroup", 0, 5},
	{14, "SyncGroup", 0, 5},
	{15, "DescribeGroups", 0, 6},
	{16, "ListGroups", 0, 5},
	{17, "SaslHandshake", 0, 1},
	{18, "ApiVersions", 0, 5},
	{19, "CreateTopics", 2, 7},
	{20, "DeleteTopics", 1, 6},
	{21, "DeleteRecords", 0, 2},
	{22, "InitProducerId", 0, 5},
	{23, "OffsetForLeaderEpoch", 2, 4},
	{24, "AddPartitionsToTxn", 0, 5},
	{25, "AddOffsetsToTxn", 0, 4},
	{26, "EndTxn", 0, 5},
	{27, "WriteTxnMarkers", 1, 2},
	{28, "TxnOffsetCommit", 0, 6},
	{29, "DescribeAcls", 1, 3},
	{30, "CreateAcls", 1, 3},
	{31, "DeleteAcls", 1, 3},
	{32, "DescribeConfigs", 1, 4},
	{33, "AlterConfigs", 0, 2},
	{34, "AlterReplicaLogDirs", 1, 2},
	{35, "DescribeLogDirs", 1, 5},
	{36, "SaslAuthenticate", 0, 2},
	{37, "CreatePartitions", 0, 3},
	{38, "CreateDelegationToken", 1, 3},
	{39, "RenewDelegationToken", 1, 2},
	{40, "ExpireDelegationToken", 1, 2},
	{41, "DescribeDelegationToken", 1, 3},
	{42, "DeleteGroups", 0, 3},
	{43, "ElectLeaders", 0, 2},
	{44, "IncrementalAlterConfigs", 0, 1},
	{45, "AlterPartitionReassignments", 0, 1},
	{46, "ListPartitionReassignments", 0, 0},
	{47, "OffsetDelete", 0, 0},
	{48, "DescribeClientQuotas", 0, 1},
	{49, "AlterClientQuotas", 0, 1},
	{50, "DescribeUserScramCredentials", 0, 0},
	{51, "AlterUserScramCredentials", 0, 0},
	{55, "DescribeQuorum", 0, 2},
	{57, "UpdateFeatures", 0, 2},
	{60, "DescribeCluster", 0, 2},
	{61, "DescribeProducers", 0, 0},
	{64, "UnregisterBroker", 0, 0},
	{65, "DescribeTransactions", 0, 0},
	{66, "ListTransactions", 0, 2},
	{68, "ConsumerGroupHeartbeat", 0, 1},
	{69, "ConsumerGroupDescribe", 0, 1},
	{71, "GetTelemetrySubscriptions", 0, 0},
	{72, "PushTelemetry", 0, 0},
	{74, "ListConfigResources", 0, 1},
	{75, "DescribeTopicPartitions", 0, 0},
	{76, "ShareGroupHeartbeat", 1, 1},
	{77, "ShareGroupDescribe", 1, 1},
	{78, "ShareFetch", 1, 2},
	{79, "ShareAcknowledge", 1, 2},
	{80, "AddRaftVoter", 0, 1},
	{81, "RemoveRaftVoter", 0, 0},
	{83, "InitializeShareGroupState", 0, 0},
	{84, "ReadShareGroupState", 0, 0},
	{85, "WriteShareGroupState", 0, 1},
	{86, "DeleteShareGroupState", 0, 0},
	{87, "ReadShareGroupStateSummary", 0, 1},
	{88, "StreamsGroupHeartbeat", 0, 1},
	{89, "StreamsGroupDescribe", 0, 1},
	{90, "DescribeShareGroupOffsets", 0, 1},
	{91, "AlterShareGroupOffsets", 0, 0},
	{92, "DeleteShareGroupOffsets", 0, 0},
	{93, "StreamsGroupTopologyDescriptionUpdate", 0, 0},
	{94, "UnregisterController", 0, 0},
}

// difference is something about a served key that a client of Kafka might expect and does not get.
type difference struct {
	key  int16
	what string // what is asked
	gets string // what is answered
}

// differences lists them by key. What the answer is when it is an error is always one of Kafka's.
var differences = []difference{
	{0, "a request of version 0 to 2", "the connection is closed, as by Kafka; ApiVersions names version 0 all the same, since librdkafka needs to see it"},
	{3, "a topic with neither name nor id, from version 12 on", "INVALID_TOPIC_EXCEPTION for it; Kafka answers UNKNOWN_SERVER_ERROR and names no broker"},
	{9, "all offsets of a group, more than once in a request", "they are answered once"},
	{9, "an offset with metadata, as often as 4 MiB have room for it", "INVALID_REQUEST from then on"},
	{10, "the coordinator of a share group's partition", "INVALID_REQUEST"},
	{10, "the coordinator of a group or a transactional id when `__consumer_offsets` or `__transaction_state` does not exist yet", "it is made before the answer; Kafka answers COORDINATOR_NOT_AVAILABLE once"},
	{15, "a group, as often as 4 MiB have room for it", "INVALID_REQUEST from then on; so do the other three requests that describe groups"},
	{17, "GSSAPI, OAUTHBEARER", "UNSUPPORTED_SASL_MECHANISM, also where they are enabled: they are not served yet"},
	{18, "the feature `streams.version`", "not named: what it stands for is not served"},
	{19, "a replication factor above 1", "INVALID_REPLICATION_FACTOR, as from a single Kafka broker; with `gateway.replication.factor=clamp` one replica"},
	{19, "two names in one request that differ in dots and underlines only", "INVALID_TOPIC_EXCEPTION for the second; Kafka makes both"},
	{22, "the last epoch that a producer id has, from a producer that resumes with the one before", "it is given out again; Kafka answers UNKNOWN_SERVER_ERROR"},
	{24, "a request of brokers (version 4 and 5) without transactions", "an answer without any; Kafka does not answer"},
	{25, "a group when `__consumer_offsets` does not exist yet", "it is made"},
	{26, "a transaction of which WriteTxnMarkers ended a part, in a later epoch", "it ends; Kafka answers CONCURRENT_TRANSACTIONS for its transactional id until the coordinator starts anew"},
	{27, "a marker that names a partition twice, or, beside others, none that there is", "an answer; Kafka does not answer"},
	{27, "a marker without a producer id or an epoch", "UNKNOWN_SERVER_ERROR for its partitions; Kafka answers so for the whole request"},
	{30, "an ACL of any resource, pattern, operation or permission", "INVALID_REQUEST for it alone; Kafka's handler fails over it, and every ACL of the request gets UNKNOWN_SERVER_ERROR"},
	{32, "a broker's loggers", "one, `root`, which is the whole log"},
	{33, "a resource that is named twice", "INVALID_REQUEST; Kafka does not answer"},
	{36, "a user of SCRAM who does not exist", "a challenge, and SASL_AUTHENTICATION_FAILED at the next token, as for a wrong password; Kafka says so at once"},
	{36, "another request between handshake and token", "ILLEGAL_SASL_STATE, as from Kafka, without the keys of a FindCoordinator; from 4 KiB on the connection is closed"},
	{36, "a delegation token", "SASL_AUTHENTICATION_FAILED: there are none"},
	{44, "an operation that is not known, for a topic", "INVALID_REQUEST; Kafka answers UNKNOWN_SERVER_ERROR"},
	{44, "other `listeners`, or `metric.reporters`, of a running broker", "INVALID_REQUEST"},
	{44, "`log.cleaner.min.compaction.lag.ms` above `log.cleaner.max.compaction.lag.ms`, for all topics", "INVALID_REQUEST; Kafka takes it and then creates no topic any more"},
	{49, "an address that is the name of a host", "INVALID_REQUEST, but for `localhost`; Kafka looks it up"},
	{49, "a value that is no number (NaN)", "INVALID_REQUEST; Kafka takes it"},
	{60, "controllers", "MISMATCHED_ENDPOINT_TYPE, as from a Kafka broker"},
	{61, "the producers of a partition, as often as 4 MiB have room for them", "INVALID_REQUEST from then on"},
	{65, "a transactional id, as often as 4 MiB have room for it", "INVALID_REQUEST from then on"},
	{68, "a first member of the consumer protocol in a classic group that has no generation yet", "the group becomes a consumer group; Kafka answers UNKNOWN_SERVER_ERROR"},
	{69, "groups that the caller may not see, among others", "they come in the order of the request; in Kafka they come first"},
	{78, "more than 1,048,576 partitions, in all share sessions", "SHARE_SESSION_LIMIT_REACHED"},
	{78, "with an authorizer, a topic id that does not exist", "UNKNOWN_TOPIC_ID for it; Kafka's handler fails over it, and the whole request gets UNKNOWN_SERVER_ERROR"},
	{91, "a topic that the client may not read", "TOPIC_AUTHORIZATION_FAILED without the topic's id, which Kafka tells, and so that the topic exists"},
}

// compatibilityPage returns docs/compatibility.md; matrix is its section on what was compared.
func compatibilityPage(matrix string) string {
	var b strings.Builder
	b.WriteString("# Compatibility\n\n")
	b.WriteString("This page is made from the program's own table of what it serves (`go test ./wire -run Compatibility -rewrite`).\n")
	b.WriteString("Versions are those of Apache Kafka 4.4. A client learns the same table by an ApiVersions request. A key or\n")
	b.WriteString("version that is not served closes the connection, as Kafka does. [clients.md](clients.md) is what the clients of\n")
	b.WriteString("others could do.\n\n")
	b.WriteString("## Served\n\n| key | API | versions |\n| ---: | --- | --- |\n")
	for _, k := range kafkaKeys {
		if a := apis.find(k.key); a != nil {
			fmt.Fprintf(&b, "| %d | %s | %s |\n", k.key, k.name, versionRange(a.min, a.max))
		}
	}
	b.WriteString("\n" + matrix)
	b.WriteString("\n## Differences\n\n| API | asked for | answer |\n| --- | --- | --- |\n")
	for _, d := range differences {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", keyName(d.key), d.what, d.gets)
	}
	b.WriteString("\n[limits.md](limits.md) has the limits that Kafka does not have, that of each key's frames among them.\n")
	b.WriteString("\n## Not served\n\nNot advertised either, so that clients do not send them.\n\n")
	b.WriteString("| key | API | Kafka's versions |\n| ---: | --- | --- |\n")
	for _, k := range kafkaKeys {
		if apis.find(k.key) == nil {
			fmt.Fprintf(&b, "| %d | %s | %s |\n", k.key, k.name, versionRange(k.min, k.max))
		}
	}
	return b.String()
}

func versionRange(first, last int16) string {
	if first == last {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d-%d", first, last)
}

// keyName returns Kafka's name of a key.
func keyName(key int16) string {
	for _, k := range kafkaKeys {
		if k.key == key {
			return k.name
		}
	}
	return fmt.Sprintf("key %d", key)
}
