package wire

import (
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/txn"
)

// Metadata, key 3, versions 0 to 13.
//
//	1   null topics mean all, empty ones none; controller, rack, internal
//	2   cluster id
//	3   throttle time
//	4   whether to create missing topics
//	5   offline replicas
//	7   leader epoch
//	8   authorized operations
//	9   flexible
//	10  topic ids in the response
//	11  no cluster operations any more
//	12  topic ids in the request
//	13  an error for the whole response
//
// Kafka: KafkaApis.handleTopicMetadataRequest, KRaftMetadataCache, DefaultAutoTopicCreationManager.
func (s *Server) metadata(r *request, req *kmsg.MetadataRequest) (*kmsg.MetadataResponse, error) {
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	if !validMetadata(req) {
		for _, t := range req.Topics {
			topic := kmsg.NewMetadataResponseTopic()
			topic.Topic, topic.TopicID, topic.ErrorCode = kmsg.StringPtr(deref(t.Topic)), t.TopicID, kerr.InvalidRequest.Code
			resp.Topics = append(resp.Topics, topic)
		}
		resp.ErrorCode = kerr.InvalidRequest.Code
		return resp, nil
	}
	broker := kmsg.NewMetadataResponseBroker()
	broker.NodeID, broker.Host, broker.Port, broker.Rack = s.store.NodeID(), r.listener.AdvertisedHost, r.listener.AdvertisedPort, s.rack()
	resp.Brokers = []kmsg.MetadataResponseBroker{broker}
	resp.ClusterID = kmsg.StringPtr(s.store.ClusterID())
	resp.ControllerID = s.store.NodeID()
	resp.AuthorizedOperations = noOperations
	if req.IncludeClusterAuthorizedOperations && 8 <= req.Version && req.Version <= 10 {
		resp.AuthorizedOperations = s.clusterOperations(r)
	}
	m := metadataCall{s: s, r: r, withOperations: req.IncludeTopicAuthorizedOperations && req.Version >= 8}
	var err error
	switch {
	case req.Topics == nil, len(req.Topics) == 0 && req.Version == 0:
		err = m.all()
	case slices.ContainsFunc(req.Topics, func(t kmsg.MetadataRequestTopic) bool { return t.TopicID != [16]byte{} }):
		err = m.byID(req.Topics)
	default:
		err = m.byName(req.Topics, (req.AllowAutoTopicCreation || req.Version < 4) && s.config.Bool("auto.create.topics.enable"))
	}
	if err != nil {
		return nil, err
	}
	resp.Topics = m.topics
	return resp, nil
}

// validMetadata checks that topics are named as the version can: ids in a request came with version 12.
func validMetadata(req *kmsg.MetadataRequest) bool {
	if req.Version >= 12 {
		return true
	}
	for i := range req.Topics {
		if t := &req.Topics[i]; t.Topic == nil || t.TopicID != [16]byte{} {
			return false
		}
	}
	return true
}

// metadataCall collects the topics of one answer.
type metadataCall struct {
	s              *Server
	r              *request
	withOperations bool
	topics         []kmsg.MetadataResponseTopic
}

// all describes every topic that the caller may see.
func (m *metadataCall) all() error {
	topics := m.s.store.Topics()
	m.topics = make([]kmsg.MetadataResponseTopic, 0, len(topics))
	for _, t := range topics {
		if m.s.mayDo(m.r, opDescribe, resourceTopic, t.Name()) {
			if err := m.describe(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// byID describes topics by their ids; topics that are asked for by name besides are passed over.
func (m *metadataCall) byID(wanted []kmsg.MetadataRequestTopic) error {
	seen := map[storage.TopicID]bool{{}: true}
	for i := range wanted {
		id := storage.TopicID(wanted[i].TopicID)
		if seen[id] {
			continue
		}
		seen[id] = true
		t, ok := m.s.store.TopicByID(id)
		switch {
		case !ok:
			m.fail(nil, id, kerr.UnknownTopicID)
		case !m.s.authorize(m.r, opDescribe, resourceTopic, t.Name()):
			m.fail(nil, id, kerr.TopicAuthorizationFailed)
		default:
			if err := m.describe(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// byName describes topics by their names, and makes those that do not exist if create is set. Their answer is
// UNKNOWN_TOPIC_OR_PARTITION all the same, as Kafka's is while it makes them; clients ask again.
//
// Differs from Kafka: a topic without a name is one with an illegal name. Kafka's handler fails over it, and the answer
// names neither brokers nor the other topics.
func (m *metadataCall) byName(wanted []kmsg.MetadataRequestTopic, create bool) error {
	seen := make(map[string]bool, len(wanted))
	var missing []string
	for i := range wanted {
		name := deref(wanted[i].Topic)
		if seen[name] {
			continue
		}
		seen[name] = true
		if !m.s.authorize(m.r, opDescribe, resourceTopic, name) {
			m.fail(&name, storage.TopicID{}, kerr.TopicAuthorizationFailed)
			m.topics[len(m.topics)-1].IsInternal = false // as of any other that is not to be seen
			continue
		}
		if t, ok := m.s.store.Topic(name); ok {
			if err := m.describe(t); err != nil {
				return err
			}
			continue
		}
		missing = append(missing, name)
	}
	var made []string
	for _, name := range missing {
		err := kerr.UnknownTopicOrPartition
		switch {
		case create && !m.s.mayCreate(m.r, name):
			err = kerr.TopicAuthorizationFailed
		case storage.ValidateTopicName(name) != nil:
			err = kerr.InvalidTopicException
		case create:
			made = append(made, name)
		}
		m.fail(&name, storage.TopicID{}, err)
	}
	m.s.autoCreate(m.r, made)
	return nil
}

// fail adds a topic of which there is only an error to tell.
func (m *metadataCall) fail(name *string, id storage.TopicID, err *kerr.Error) {
	t := kmsg.NewMetadataResponseTopic()
	t.ErrorCode, t.Topic, t.TopicID, t.AuthorizedOperations = err.Code, name, id, noOperations
	if name != nil {
		t.IsInternal = storage.IsInternalTopic(*name)
		if m.withOperations && err != kerr.TopicAuthorizationFailed {
			t.AuthorizedOperations = m.s.authorizedOperations(m.r, resourceTopic, *name)
		}
	}
	m.topics = append(m.topics, t)
}

// describe adds a topic with its partitions.
func (m *metadataCall) describe(t *storage.Topic) error {
	s := m.s
	topic := kmsg.NewMetadataResponseTopic()
	name := t.Name()
	topic.Topic, topic.TopicID, topic.IsInternal, topic.AuthorizedOperations = &name, t.ID(), storage.IsInternalTopic(name), noOperations
	if m.withOperations {
		topic.AuthorizedOperations = s.authorizedOperations(m.r, resourceTopic, name)
	}
	n := t.Partitions()
	if err := m.r.answerGrows(32 + len(name) + 34*int(n)); err != nil {
		return err
	}
	topic.Partitions = make([]kmsg.MetadataResponseTopicPartition, n)
	for i := range n {
		p := &topic.Partitions[i]
		p.Default()
		state := s.partitionState(t, i)
		p.Partition, p.ErrorCode, p.Leader, p.LeaderEpoch = i, state.code, state.leader, state.epoch
		p.Replicas, p.ISR, p.OfflineReplicas = s.self, state.isr, state.offline
	}
	m.topics = append(m.topics, topic)
	return nil
}

// partitionState is what Metadata and DescribeTopicPartitions tell of a partition.
type partitionState struct {
	code         int16
	leader       int32
	epoch        int32
	isr, offline []int32 // shared and never written
}

// partitionState returns the state of a partition, without waiting for its recovery. One that is offline has no leader,
// as in Kafka when the only replica's log directory failed.
func (s *Server) partitionState(t *storage.Topic, partition int32) partitionState {
	state := partitionState{leader: s.store.NodeID(), epoch: s.store.LeaderEpoch(), isr: s.self, offline: s.nobody}
	log, ok := t.Partition(partition)
	if !ok {
		return state // deleted this moment
	}
	state.epoch = log.LeaderEpoch()
	if log.Status() == storage.StatusOffline {
		state.code, state.leader, state.offline = kerr.LeaderNotAvailable.Code, -1, s.self
	}
	return state
}

// clusterOperations returns what the caller may do to the cluster, none for one who may not describe it.
func (s *Server) clusterOperations(r *request) int32 {
	if !s.authorizeCluster(r, opDescribe) {
		return 0
	}
	return s.authorizedOperations(r, resourceCluster, clusterResource)
}

// mayCreate reports whether the caller may create a topic of that name.
func (s *Server) mayCreate(r *request, name string) bool {
	return s.mayDo(r, opCreate, resourceCluster, clusterResource) || s.authorize(r, opCreate, resourceTopic, name)
}

// autoCreate makes topics because somebody asked for them, with one commit. Another request may have made some
// meanwhile. More partitions than one CreateTopics may make are not made: Kafka asks its controller with one such
// request. Nor are those made that the caller's quota does not allow; the log tells of them.
func (s *Server) autoCreate(r *request, names []string) {
	if len(names) == 0 {
		return
	}
	quota := s.mutations(r, 0)
	var specs []storage.TopicSpec
	partitions := int64(0)
	for _, name := range names {
		if _, ok := s.store.Topic(name); ok {
			continue
		}
		spec, factor := s.autoCreated(name)
		err := s.checkReplicationFactor(factor)
		if err == nil && !quota.Take(int(spec.Partitions), s.now()) {
			err = kerr.ThrottlingQuotaExceeded
		}
		if err != nil {
			s.logger.Warn("topic was not created", "topic", name, "error", err)
			continue
		}
		specs = append(specs, spec)
		partitions += int64(spec.Partitions)
	}
	if partitions > maxNewPartitions {
		s.logger.Warn("topics were not created", "topics", len(specs), "partitions", partitions, "most", maxNewPartitions)
		return
	}
	_, errs := s.store.CreateTopics(specs)
	for i, err := range errs {
		if err != nil && !errors.Is(err, storage.ErrTopicExists) {
			s.logger.Warn("topic was not created", "topic", specs[i].Name, "error", err)
		}
	}
}

// autoCreated returns what a topic is made with that somebody asked for, and its replication factor.
// Kafka: AutoTopicCreationManager.creatableTopic.
func (s *Server) autoCreated(name string) (spec storage.TopicSpec, factor int16) {
	switch name {
	case groups.OffsetsTopic:
		return s.groups.TopicSpec(), int16(s.config.Int("offsets.topic.replication.factor"))
	case txn.StateTopic:
		return s.txns.TopicSpec(), int16(s.config.Int("transaction.state.log.replication.factor"))
	}
	return storage.TopicSpec{Name: name, Partitions: int32(s.config.Int("num.partitions"))}, int16(s.config.Int("default.replication.factor"))
}

// rack returns broker.rack, nil when it is not set.
func (s *Server) rack() *string {
	if rack := s.config.String("broker.rack"); rack != "" {
		return &rack
	}
	return nil
}

// deref returns the string that p points to, "" for nil.
func deref(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}
