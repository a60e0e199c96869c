import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Places in a partition: found by time, and kept for a group. */
class Offsets {
    private final Cluster cluster;

    Offsets(Cluster cluster) {
        this.cluster = cluster;
    }

    /** The first record of a time or later is found and reading goes on from there; behind the last there is none. */
    void resumeByTimestamp() throws Exception {
        String topic = cluster.topic("by-timestamp", 1);
        TopicPartition partition = new TopicPartition(topic, 0);
        long first = System.currentTimeMillis() - 100_000;
        List<ProducerRecord<String, String>> records = Stream.iterate(0, i -> i + 1).limit(10)
            .map(i -> new ProducerRecord<>(topic, 0, first + i * 1000, "key-" + i, "value-" + i)).toList();
        try (Producer<String, String> producer = cluster.producer(Map.of());
                Consumer<String, String> consumer = cluster.consumer(Map.of())) {
            List<Cluster.Row> sent = cluster.send(producer, records);
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, first + 5500)).get(partition);
            Cluster.expect("offset of the time", found.offset(), 6L);
            Cluster.expect("timestamp found", found.timestamp(), first + 6000);
            Map<TopicPartition, OffsetAndTimestamp> behind = consumer.offsetsForTimes(Map.of(partition, first + 9001));
            Cluster.expect("nothing behind the last", behind.get(partition) == null, true);

            consumer.assign(List.of(partition));
            consumer.seek(partition, found.offset());
            Cluster.expect("records from there", cluster.readToEnd(consumer), sent.subList(6, 10));
        }
    }

    /** A consumer that assigns its partition itself commits; another of the same group goes on where it was. */
    void commitResume() throws Exception {
        String topic = cluster.topic("commit", 1);
        TopicPartition partition = new TopicPartition(topic, 0);
        OffsetAndMetadata place = new OffsetAndMetadata(4, "read four");
        Map<String, String> group = Map.of("group.id", cluster.name("group"));
        List<Cluster.Row> sent;
        try (Producer<String, String> producer = cluster.producer(Map.of());
                Consumer<String, String> consumer = cluster.consumer(group)) {
            sent = cluster.send(producer, Records.numbered(topic, 1, 10));
            consumer.assign(List.of(partition));
            Cluster.expect("records read at first", cluster.readToEnd(consumer), sent);
            consumer.commitSync(Map.of(partition, place));
        }
        try (Consumer<String, String> consumer = cluster.consumer(group)) {
            OffsetAndMetadata committed = consumer.committed(Set.of(partition)).get(partition);
            Cluster.expect("committed offset", committed.offset(), place.offset());
            Cluster.expect("committed metadata", committed.metadata(), place.metadata());
            consumer.assign(List.of(partition));
            Cluster.expect("records after the commit", cluster.readToEnd(consumer), sent.subList(4, 10));
        }
    }
}
