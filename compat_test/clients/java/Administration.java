import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.TopicExistsException;

/** Topics and their configs. */
class Administration {
    private final Cluster cluster;

    Administration(Cluster cluster) {
        this.cluster = cluster;
    }

    /** A topic comes out as it was asked for, with an id; a second of its name is refused. */
    void createTopic() throws Exception {
        String topic = cluster.topic("created", 3);
        TopicDescription created = cluster.admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        Cluster.expect("partitions", created.partitions().size(), 3);
        Cluster.expect("replicas", created.partitions().get(0).replicas().size(), 1);
        Cluster.expect("has an id", created.topicId().equals(Uuid.ZERO_UUID), false);
        try {
            cluster.topic("created", 3);
            throw new AssertionError("a second topic of the same name was made");
        } catch (ExecutionException refused) {
            Cluster.expect("the refusal", refused.getCause().getClass(), TopicExistsException.class);
        }
    }

    /** A topic's configs with where they come from, its own and defaults, and a broker's. */
    void listConfigs() throws Exception {
        Config configs = topicConfigs(cluster.topic("configs", 1, Map.of("retention.ms", "3600000")));
        Cluster.expect("retention.ms", configs.get("retention.ms").value(), "3600000");
        Cluster.expect("source of retention.ms", configs.get("retention.ms").source(), ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG);
        Cluster.expect("cleanup.policy", configs.get("cleanup.policy").value(), "delete");
        Cluster.expect("source of cleanup.policy", configs.get("cleanup.policy").source(), ConfigEntry.ConfigSource.DEFAULT_CONFIG);

        String node = cluster.admin.describeCluster().nodes().get().iterator().next().idString();
        Config broker = configs(new ConfigResource(ConfigResource.Type.BROKER, node));
        Cluster.expect("message.max.bytes of the broker", broker.get("message.max.bytes").value(), "1048588");
        Cluster.expect("node.id is read only", broker.get("node.id").isReadOnly(), true);
    }

    /** A config that is set is read back as the topic's own, and deleted it is the default again. */
    void alterConfigs() throws Exception {
        String topic = cluster.topic("alter-configs", 1);
        ConfigEntry before = topicConfigs(topic).get("retention.ms");
        alter(topic, AlterConfigOp.OpType.SET, "86400000");
        Cluster.await("retention.ms set", () -> topicConfigs(topic).get("retention.ms").value().equals("86400000"));
        Cluster.expect("source", topicConfigs(topic).get("retention.ms").source(), ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG);
        alter(topic, AlterConfigOp.OpType.DELETE, null);
        Cluster.await("retention.ms deleted", () -> topicConfigs(topic).get("retention.ms").equals(before));
    }

    /** Records before an offset go: the partition then starts there, for the admin client and for a consumer. */
    void deleteRecords() throws Exception {
        String topic = cluster.topic("delete-records", 1);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (Producer<String, String> producer = cluster.producer(Map.of())) {
            List<Cluster.Row> sent = cluster.send(producer, Records.numbered(topic, 1, 10));
            long start = cluster.admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(4))).lowWatermarks().get(partition).get().lowWatermark();
            Cluster.expect("low watermark", start, 4L);
            Cluster.expect("earliest offset", cluster.admin.listOffsets(Map.of(partition, OffsetSpec.earliest())).partitionResult(partition).get().offset(), 4L);
            Cluster.expect("records left", cluster.readAll(topic), sent.subList(4, 10));
        }
    }

    /** Every topic of this run goes, and is no longer listed. */
    void deleteTopic() throws Exception {
        Set<String> ours = ours();
        Cluster.expect("there are topics to delete", ours.isEmpty(), false);
        cluster.admin.deleteTopics(ours).all().get();
        Cluster.await("no topic of this run listed", () -> ours().isEmpty());
    }

    private Set<String> ours() throws Exception {
        Set<String> names = new TreeSet<>(cluster.admin.listTopics().names().get());
        names.removeIf(name -> !name.startsWith(cluster.name("")));
        return names;
    }

    private void alter(String topic, AlterConfigOp.OpType operation, String value) throws Exception {
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry("retention.ms", value), operation);
        cluster.admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.TOPIC, topic), List.of(change))).all().get();
    }

    private Config topicConfigs(String topic) throws Exception {
        return configs(new ConfigResource(ConfigResource.Type.TOPIC, topic));
    }

    private Config configs(ConfigResource resource) throws Exception {
        return cluster.admin.describeConfigs(List.of(resource)).all().get().get(resource);
    }
}
