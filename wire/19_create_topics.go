package wire

import (
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage"
)

// CreateTopics, key 19, versions 2 to 7.
//
//	4  counts of -1 for the broker's defaults
//	5  flexible; what was made, with all its configs
//	6  THROTTLING_QUOTA_EXCEEDED
//	7  topic ids
//
// A topic can be used when the answer is sent. Kafka: ControllerApis.createTopics, ReplicationControlManager.createTopics.
func (s *Server) createTopics(r *request, req *kmsg.CreateTopicsRequest) (*kmsg.CreateTopicsResponse, error) {
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	allowed, last := s.splitCreations(r, req)
	if len(allowed) > 0 && timedOut(req.TimeoutMillis) {
		for i := range req.Topics {
			t := failedTopic(req.Topics[i].Topic, kerr.RequestTimedOut)
			t.ErrorMessage = nil
			resp.Topics = append(resp.Topics, t)
		}
		return resp, nil
	}
	if err := s.checkTotalPartitions(allowed); err != nil {
		for i := range req.Topics {
			resp.Topics = append(resp.Topics, failedTopic(req.Topics[i].Topic, err))
		}
		return resp, nil
	}
	var specs []storage.TopicSpec
	var places []int // of specs, in resp.Topics
	quota := s.mutations(r, 6)
	for _, t := range allowed {
		spec, err := s.topicSpec(t)
		if err == nil && !quota.Take(int(spec.Partitions), s.now()) {
			err = kerr.ThrottlingQuotaExceeded
		}
		if err != nil {
			resp.Topics = append(resp.Topics, failedTopic(t.Topic, err))
			continue
		}
		specs, places = append(specs, spec), append(places, len(resp.Topics))
		resp.Topics = append(resp.Topics, s.createdTopic(r, spec))
	}
	if !req.ValidateOnly {
		topics, errs := s.store.CreateTopics(specs)
		for i, err := range errs {
			t := &resp.Topics[places[i]]
			if err != nil {
				*t = failedTopic(specs[i].Name, err)
				continue
			}
			t.TopicID = topics[i].ID()
		}
	}
	resp.Topics = append(resp.Topics, last...)
	resp.ThrottleMillis = r.throttleBy(quota.Throttle(s.now()))
	return resp, nil
}

// splitCreations returns the topics that the caller may make, and the answers for the others: what is in the request more
// than once, and what it may not. Kafka: ControllerApis.createTopics.
func (s *Server) splitCreations(r *request, req *kmsg.CreateTopicsRequest) (allowed []*kmsg.CreateTopicsRequestTopic, refused []kmsg.CreateTopicsResponseTopic) {
	uses := make(map[string]int, len(req.Topics))
	for i := range req.Topics {
		uses[req.Topics[i].Topic]++
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		var err error
		switch n := uses[t.Topic]; {
		case n > 1:
			uses[t.Topic] = 0
			err = detail(kerr.InvalidRequest, "the topic is in the request more than once")
		case n == 0:
			continue // told already
		case t.Topic == "__cluster_metadata":
			err = detail(kerr.InvalidRequest, "the topic is Kafka's own and cannot be created")
		case !s.mayCreate(r, t.Topic):
			err = detail(kerr.TopicAuthorizationFailed, "not allowed to create the topic")
		}
		if err != nil {
			refused = append(refused, failedTopic(t.Topic, err))
		} else {
			allowed = append(allowed, t)
		}
	}
	return allowed, refused
}

// timedOut reports whether a request to change topics left no time for it: every topic that it names is answered with
// REQUEST_TIMED_OUT, in words none, and nothing is done. Kafka's controller drops such a request from its queue
// (QuorumController.ControllerWriteEvent, KafkaEventQueue); any time above that is enough here.
func timedOut(timeoutMs int32) bool { return timeoutMs <= 0 }

// maxNewPartitions is how many partitions one request may make. Kafka: ReplicationControlManager.MAX_PARTITIONS_PER_BATCH.
const maxNewPartitions = 10_000

// checkTotalPartitions reports a request that makes too many partitions, whatever else is wrong with it.
func (s *Server) checkTotalPartitions(topics []*kmsg.CreateTopicsRequestTopic) error {
	total := int64(0)
	for _, t := range topics {
		switch {
		case len(t.ReplicaAssignment) > 0:
			total += int64(len(t.ReplicaAssignment))
		case t.NumPartitions == -1:
			total += s.config.Int("num.partitions")
		case t.NumPartitions > 0:
			total += int64(t.NumPartitions)
		}
	}
	if total > maxNewPartitions {
		return detail(kerr.PolicyViolation, fmt.Sprintf("%d partitions in one request, want at most %d", total, maxNewPartitions))
	}
	return nil
}

// topicSpec checks one topic, in Kafka's order: name, existence, collision, configs, then counts and assignments.
func (s *Server) topicSpec(t *kmsg.CreateTopicsRequestTopic) (storage.TopicSpec, error) {
	spec := storage.TopicSpec{Name: t.Topic, Partitions: 1}
	if err := s.store.CheckTopic(spec); err != nil {
		return spec, err
	}
	var null []string
	spec.Configs = make(map[string]string, len(t.Configs))
	for i := range t.Configs {
		c := &t.Configs[i]
		if c.Value == nil {
			null = append(null, c.Name)
			continue
		}
		spec.Configs[c.Name] = *c.Value
	}
	if len(null) > 0 {
		return spec, detail(kerr.InvalidConfig, "no value for "+strings.Join(null, ", "))
	}
	if err := s.store.CheckTopic(spec); err != nil {
		return spec, err
	}
	if len(t.ReplicaAssignment) > 0 {
		spec.Partitions = int32(len(t.ReplicaAssignment))
		return spec, s.checkAssignments(t)
	}
	// A count that cannot be is told before a factor that is only too high.
	if err := validFactor(t.ReplicationFactor); err != nil {
		return spec, err
	}
	spec.Partitions = t.NumPartitions
	if t.NumPartitions == -1 {
		spec.Partitions = int32(s.config.Int("num.partitions"))
	}
	if spec.Partitions < 1 {
		return spec, detail(kerr.InvalidPartitions, fmt.Sprintf("%d partitions, want at least 1, or -1 for the default", t.NumPartitions))
	}
	if err := s.checkReplicationFactor(t.ReplicationFactor); err != nil {
		return spec, err
	}
	return spec, s.store.CheckTopic(spec)
}

// validFactor checks that a number can be a replication factor, -1 for the default.
func validFactor(factor int16) error {
	if factor == 0 || factor < -1 {
		return detail(kerr.InvalidReplicationFactor, fmt.Sprintf("replication factor %d, want at least 1, or -1 for the default", factor))
	}
	return nil
}

// checkReplicationFactor checks a replication factor, -1 for the default. There is one broker to hold replicas, unless
// gateway.replication.factor=clamp says that the wish is not meant.
func (s *Server) checkReplicationFactor(factor int16) error {
	if err := validFactor(factor); err != nil {
		return err
	}
	if factor == -1 {
		factor = int16(s.config.Int("default.replication.factor"))
	}
	if factor > 1 && !s.clampsReplication() {
		return detail(kerr.InvalidReplicationFactor, fmt.Sprintf("replication factor %d with 1 broker (gateway.replication.factor=clamp accepts it)", factor))
	}
	return nil
}

// clampsReplication reports whether a wish for more replicas than there are brokers is taken for one replica.
func (s *Server) clampsReplication() bool {
	return s.config.String("gateway.replication.factor") == "clamp"
}

// checkAssignments checks the replicas that a request gives partition by partition.
func (s *Server) checkAssignments(t *kmsg.CreateTopicsRequestTopic) error {
	if t.ReplicationFactor != -1 || t.NumPartitions != -1 {
		return detail(kerr.InvalidRequest, "partition count and replication factor must be -1 with assignments")
	}
	seen := make(map[int32]bool, len(t.ReplicaAssignment))
	for i := range t.ReplicaAssignment {
		a := &t.ReplicaAssignment[i]
		if seen[a.Partition] {
			return detail(kerr.InvalidReplicaAssignment, fmt.Sprintf("partition %d is assigned more than once", a.Partition))
		}
		seen[a.Partition] = true
		if err := s.checkReplicas(a.Replicas); err != nil {
			return err
		}
	}
	for i := range int32(len(seen)) {
		if !seen[i] {
			return detail(kerr.InvalidReplicaAssignment, fmt.Sprintf("partition %d of %d has no assignment", i, len(seen)))
		}
	}
	return nil
}

// checkReplicas checks the replicas of one partition: this broker, and no other.
func (s *Server) checkReplicas(replicas []int32) error {
	if len(replicas) == 0 {
		return detail(kerr.InvalidReplicaAssignment, "an assignment without replicas")
	}
	if s.clampsReplication() {
		return nil
	}
	for _, id := range replicas {
		if id != s.store.NodeID() {
			return detail(kerr.InvalidReplicaAssignment, fmt.Sprintf("an assignment to broker %d, which does not exist", id))
		}
	}
	if len(replicas) > 1 {
		return detail(kerr.InvalidReplicaAssignment, fmt.Sprintf("an assignment to broker %d more than once", replicas[0]))
	}
	return nil
}

// createdTopic is the answer for a topic that can be made.
func (s *Server) createdTopic(r *request, spec storage.TopicSpec) kmsg.CreateTopicsResponseTopic {
	t := kmsg.NewCreateTopicsResponseTopic()
	t.Topic = spec.Name
	rand.Read(t.TopicID[:]) // for a request that only validates; Kafka makes one up too
	if !s.mayDo(r, opDescribeConfigs, resourceTopic, spec.Name) {
		t.ConfigErrorCode, t.NumPartitions, t.ReplicationFactor = kerr.TopicAuthorizationFailed.Code, -1, -1
		t.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
		return t
	}
	t.NumPartitions, t.ReplicationFactor = spec.Partitions, 1
	t.Configs = s.createdConfigs(spec.Configs)
	return t
}

// createdConfigs returns the effective configs of a topic with the given ones of its own, by name. An internal config is
// told only if it is the topic's own. Kafka: KafkaConfigSchema.resolveEffectiveTopicConfigs.
func (s *Server) createdConfigs(own map[string]string) []kmsg.CreateTopicsResponseTopicConfig {
	defs := storage.TopicConfigs()
	out := make([]kmsg.CreateTopicsResponseTopicConfig, 0, len(defs))
	for i := range defs {
		d := &defs[i]
		value, isOwn := own[d.Name]
		if d.Internal && !isOwn {
			continue
		}
		c := kmsg.NewCreateTopicsResponseTopicConfig()
		c.Name, c.IsSensitive, c.Source = d.Name, d.Sensitive, int8(sourceTopic)
		if !isOwn {
			value, c.Source = s.config.defaultOfTopics(d)
		}
		if !d.Sensitive {
			c.Value = &value
		}
		out = append(out, c)
	}
	return out
}

// defaultOfTopics returns the value of a topic config for topics that do not set it, and where it is from: the first of
// its synonyms that is set for this broker, for all brokers, or at the start, else the default.
func (c *BrokerConfig) defaultOfTopics(d *storage.ConfigDef) (value string, source int8) {
	v := c.values.Load()
	for _, layer := range []struct {
		configs map[string]string
		source  kmsg.ConfigSource
	}{
		{v.one, sourceDynamicBroker},
		{v.all, sourceDynamicDefault},
		{c.static, sourceStaticBroker},
	} {
		for i := range d.Synonyms {
			set, ok := layer.configs[d.Synonyms[i].Name]
			if !ok {
				continue
			}
			if value, err := topicDefault(d, &d.Synonyms[i], set); err == nil {
				return value, int8(layer.source)
			}
		}
	}
	return d.Default, int8(sourceDefault)
}

// failedTopic is the answer for a topic that is not made.
func failedTopic(name string, err error) kmsg.CreateTopicsResponseTopic {
	t := kmsg.NewCreateTopicsResponseTopic()
	t.Topic, t.ErrorCode, t.ErrorMessage = name, errorCode(err), errorMessage(err)
	t.NumPartitions, t.ReplicationFactor, t.Configs = -1, -1, []kmsg.CreateTopicsResponseTopicConfig{}
	return t
}
