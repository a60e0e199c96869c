package wire

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// denialCase is a request that names a topic, or a group, or nothing, and what a caller is told who may do nothing.
type denialCase struct {
	key  int16
	does string // besides the key's name, where a key has several
	// code is that of every place of the answer that has one; 0 when the answer only leaves things out.
	code int16
	// from is the lowest version of the case; byID from which version on the request has the topic's id: then that of a
	// topic which does not exist is told as unknown, as in Kafka, to which ids are no secret.
	from, byID int16
	// request makes the request for a name, which is that of a topic and of a group, and the topic's id.
	request func(b *broker, name string, id [16]byte) kmsg.Request
}

const never = 1000 // no version

// denialCases has at least one case for each key that is served and is not about authentication or versions.
var denialCases = []denialCase{
	{0, "", 29, 3, 13, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrProduceRequest()
		r.Acks, r.TimeoutMillis = -1, 1000
		r.Topics = []kmsg.ProduceRequestTopic{{Topic: name, TopicID: id, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: b.batch("v")}}}}
		return r
	}},
	{1, "", 29, 4, 13, func(b *broker, name string, id [16]byte) kmsg.Request { return fetchAs(-1, name, id) }},
	{1, "as a broker", 29, 4, never, func(b *broker, name string, id [16]byte) kmsg.Request { return fetchAs(7, name, id) }},
	{2, "", 29, 1, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrListOffsetsRequest()
		r.ReplicaID = -1
		r.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: name, Partitions: []kmsg.ListOffsetsRequestTopicPartition{{Timestamp: -1, CurrentLeaderEpoch: -1}}}}
		return r
	}},
	{3, "by name", 29, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := metadataOf(0, name)
		r.AllowAutoTopicCreation, r.IncludeTopicAuthorizedOperations = true, true
		return r
	}},
	{3, "by id", 29, 12, 12, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrMetadataRequest()
		r.Topics = []kmsg.MetadataRequestTopic{{TopicID: id}}
		return r
	}},
	{3, "all", 0, 1, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrMetadataRequest()
		r.Topics = nil
		return r
	}},
	{8, "", 30, 2, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrOffsetCommitRequest()
		r.Group, r.Generation = name, -1
		r.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{}}}}
		return r
	}},
	{9, "", 30, 1, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrOffsetFetchRequest()
		r.Group = name
		r.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0}}}
		r.Groups = []kmsg.OffsetFetchRequestGroup{{Group: name, MemberEpoch: -1, Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0}}}}}
		return r
	}},
	{10, "of a group", 30, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request { return coordinatorOf(coordinatorOfGroup, name) }},
	{10, "of a transaction", 53, 1, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		return coordinatorOf(coordinatorOfTransaction, name)
	}},
	{10, "of a share partition", 31, 6, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		return coordinatorOf(coordinatorOfShare, name)
	}},
	{11, "", 30, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrJoinGroupRequest()
		r.Group, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis, r.ProtocolType = name, 10_000, 10_000, "consumer"
		r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
		return r
	}},
	{12, "", 30, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrHeartbeatRequest()
		r.Group = name
		return r
	}},
	{13, "", 30, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrLeaveGroupRequest()
		r.Group = name
		r.Members = []kmsg.LeaveGroupRequestMember{{MemberID: "m"}}
		return r
	}},
	{14, "", 30, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrSyncGroupRequest()
		r.Group, r.ProtocolType, r.Protocol = name, kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
		return r
	}},
	{15, "", 30, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrDescribeGroupsRequest()
		r.Groups, r.IncludeAuthorizedOperations = []string{name}, true
		return r
	}},
	{16, "", 0, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request { return kmsg.NewPtrListGroupsRequest() }},
	{19, "", 29, 2, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrCreateTopicsRequest()
		r.TimeoutMillis = 1000
		r.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: name, NumPartitions: 1, ReplicationFactor: 1}}
		return r
	}},
	{19, "without time", 29, 2, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrCreateTopicsRequest()
		r.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: name, NumPartitions: 20_000, ReplicationFactor: 1}}
		return r
	}},
	{20, "", 29, 1, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrDeleteTopicsRequest()
		r.TimeoutMillis, r.TopicNames, r.Topics = 1000, []string{name}, []kmsg.DeleteTopicsRequestTopic{{Topic: &name}}
		return r
	}},
	{20, "by id", 29, 6, 6, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrDeleteTopicsRequest()
		r.TimeoutMillis, r.Topics = 1000, []kmsg.DeleteTopicsRequestTopic{{TopicID: id}}
		return r
	}},
	{21, "", 29, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrDeleteRecordsRequest()
		r.TimeoutMillis = 1000
		r.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: name, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{}}}}
		return r
	}},
	{22, "idempotent", 31, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrInitProducerIDRequest()
		r.ProducerID, r.ProducerEpoch = -1, -1
		return r
	}},
	{22, "transactional", 53, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrInitProducerIDRequest()
		r.TransactionalID, r.ProducerID, r.ProducerEpoch = &name, 5, -1 // which would be wrong otherwise
		return r
	}},
	{23, "", 29, 2, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrOffsetForLeaderEpochRequest()
		r.ReplicaID = -1
		r.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: name, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{{CurrentLeaderEpoch: -1}}}}
		return r
	}},
	{24, "as a broker", 31, 4, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrAddPartitionsToTxnRequest()
		r.Transactions = []kmsg.AddPartitionsToTxnRequestTransaction{{TransactionalID: name, Topics: []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: name, Partitions: []int32{0}}}}}
		return r
	}},
	{25, "", 53, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrAddOffsetsToTxnRequest()
		r.TransactionalID, r.Group = name, name
		return r
	}},
	{26, "", 53, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrEndTxnRequest()
		r.TransactionalID = name
		return r
	}},
	{27, "", 31, 1, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrWriteTxnMarkersRequest()
		r.Markers = []kmsg.WriteTxnMarkersRequestMarker{{ProducerID: 1, Topics: []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: name, Partitions: []int32{0, 7}}}}}
		return r
	}},
	{28, "", 53, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrTxnOffsetCommitRequest()
		r.TransactionalID, r.Group, r.Generation = name, name, -1
		r.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: name, TopicID: id, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{}}}}
		return r
	}},
	{29, "", 31, 1, never, func(b *broker, name string, id [16]byte) kmsg.Request { return everyACL() }},
	{30, "", 31, 1, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		return createACLsOf(bindingOf("User:a", opRead, resourceTopic, name), bindingOf("no type", opRead, resourceTopic, name))
	}},
	{31, "", 31, 1, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrDeleteACLsRequest()
		r.Filters = []kmsg.DeleteACLsRequestFilter{{ResourceType: 1, ResourcePatternType: 1, Operation: 1, PermissionType: 1}, {ResourceType: 99, ResourcePatternType: 1, Operation: 1, PermissionType: 1}}
		return r
	}},
	{32, "of a topic", 29, 1, never, func(b *broker, name string, id [16]byte) kmsg.Request { return describeConfigsOf(kindTopic, name) }},
	{32, "of a broker", 31, 1, never, func(b *broker, name string, id [16]byte) kmsg.Request { return describeConfigsOf(kindBroker, "0") }},
	{32, "of client metrics", 31, 1, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		return describeConfigsOf(kindClientMetrics, name)
	}},
	{32, "of a group", 30, 1, never, func(b *broker, name string, id [16]byte) kmsg.Request { return describeConfigsOf(kindGroup, name) }},
	{33, "of a topic", 29, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request { return alterConfigsOf(kindTopic, name) }},
	{33, "of a broker", 31, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request { return alterConfigsOf(kindBroker, "99") }},
	{33, "of a group", 30, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request { return alterConfigsOf(kindGroup, name) }},
	{35, "", 31, 3, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrDescribeLogDirsRequest()
		r.Topics = nil
		return r
	}},
	{35, "without a place for a code", 0, 1, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrDescribeLogDirsRequest()
		r.Version, r.Topics = 2, nil
		return r
	}},
	{37, "", 29, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrCreatePartitionsRequest() // without time, which is told after the denial
		r.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: name, Count: 5}}
		return r
	}},
	{42, "", 30, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrDeleteGroupsRequest()
		r.Groups = []string{name}
		return r
	}},
	{43, "", 31, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrElectLeadersRequest()
		r.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: name, Partitions: []int32{0}}}
		return r
	}},
	{44, "of a topic", 29, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request { return incrementalOf(kindTopic, name) }},
	{44, "of a broker", 31, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request { return incrementalOf(kindBroker, "99") }},
	{44, "of a logger", 31, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request { return incrementalOf(kindBrokerLogger, "0") }},
	{44, "of a group", 30, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request { return incrementalOf(kindGroup, name) }},
	{45, "", 31, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		r.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: name, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{}}}}
		return r
	}},
	{46, "", 31, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		return kmsg.NewPtrListPartitionReassignmentsRequest()
	}},
	{47, "", 30, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrOffsetDeleteRequest()
		r.Group = name
		r.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{}}}}
		return r
	}},
	{48, "", 31, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		return kmsg.NewPtrDescribeClientQuotasRequest()
	}},
	{49, "", 31, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrAlterClientQuotasRequest()
		r.Entries = []kmsg.AlterClientQuotasRequestEntry{{Entity: []kmsg.AlterClientQuotasRequestEntryEntity{{Type: "user", Name: &name}}}}
		return r
	}},
	{50, "", 31, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
		r.Users = []kmsg.DescribeUserSCRAMCredentialsRequestUser{{Name: name}}
		return r
	}},
	{51, "", 31, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
		r.Deletions = []kmsg.AlterUserSCRAMCredentialsRequestDeletion{{Name: name, Mechanism: 1}}
		return r
	}},
	{60, "", 0, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrDescribeClusterRequest()
		r.IncludeClusterAuthorizedOperations = true
		return r
	}},
	{61, "", 29, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrDescribeProducersRequest()
		r.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: name, Partitions: []int32{0, 7}}}
		return r
	}},
	{65, "", 53, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrDescribeTransactionsRequest()
		r.TransactionalIDs = []string{name}
		return r
	}},
	{66, "", 0, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request { return kmsg.NewPtrListTransactionsRequest() }},
	{68, "", 30, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		r.Group, r.SubscribedTopicNames = name, []string{"t"}
		return r
	}},
	{69, "", 30, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrConsumerGroupDescribeRequest()
		r.Groups, r.IncludeAuthorizedOperations = []string{name}, true
		return r
	}},
	{74, "", 31, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request { return kmsg.NewPtrListConfigResourcesRequest() }},
	{75, "", 29, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrDescribeTopicPartitionsRequest()
		r.ResponsePartitionLimit, r.Topics = 10, []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: name}}
		return r
	}},
	{75, "all", 0, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrDescribeTopicPartitionsRequest()
		r.ResponsePartitionLimit = 10
		return r
	}},
	{76, "", 30, 1, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrShareGroupHeartbeatRequest()
		r.GroupID = name // and no member id, which is told after the denial
		return r
	}},
	{77, "", 30, 1, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrShareGroupDescribeRequest()
		r.GroupIDs = []string{name}
		return r
	}},
	{78, "", 30, 1, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrShareFetchRequest()
		r.GroupID = &name
		return r
	}},
	{79, "", 30, 1, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrShareAcknowledgeRequest()
		r.GroupID = &name
		return r
	}},
	{90, "", 30, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrDescribeShareGroupOffsetsRequest()
		r.Groups = []kmsg.DescribeShareGroupOffsetsRequestGroup{{GroupID: name}}
		return r
	}},
	{91, "", 30, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrAlterShareGroupOffsetsRequest()
		r.GroupID = name
		return r
	}},
	{92, "", 30, 0, never, func(b *broker, name string, id [16]byte) kmsg.Request {
		r := kmsg.NewPtrDeleteShareGroupOffsetsRequest()
		r.GroupID = name
		return r
	}},
}

func fetchAs(replica int32, name string, id [16]byte) kmsg.Request {
	r := kmsg.NewPtrFetchRequest()
	r.ReplicaID, r.ReplicaState.ID, r.MaxBytes, r.SessionEpoch = replica, replica, 1<<20, -1
	r.Topics = []kmsg.FetchRequestTopic{{Topic: name, TopicID: id, Partitions: []kmsg.FetchRequestTopicPartition{{PartitionMaxBytes: 1 << 20, CurrentLeaderEpoch: -1}}}}
	return r
}

func coordinatorOf(kind int8, key string) kmsg.Request {
	r := kmsg.NewPtrFindCoordinatorRequest()
	r.CoordinatorType, r.CoordinatorKey, r.CoordinatorKeys = kind, key, []string{key}
	return r
}

func describeConfigsOf(kind int8, name string) kmsg.Request {
	r := kmsg.NewPtrDescribeConfigsRequest()
	r.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceType(kind), ResourceName: name}}
	return r
}

func alterConfigsOf(kind int8, name string) kmsg.Request {
	r := kmsg.NewPtrAlterConfigsRequest()
	r.Resources = []kmsg.AlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceType(kind), ResourceName: name}}
	return r
}

func incrementalOf(kind int8, name string) kmsg.Request {
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceType(kind), ResourceName: name}}
	return r
}
