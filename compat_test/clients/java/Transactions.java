import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.TopicPartition;

/** Records and offsets that are there together, or not at all. */
class Transactions {
    private final Cluster cluster;

    Transactions(Cluster cluster) {
        this.cluster = cluster;
    }

    /** What is committed is read by who reads committed records, with the group's offset; of what is aborted nothing is. */
    void transaction() throws Exception {
        String topic = cluster.topic("transaction", 1);
        TopicPartition partition = new TopicPartition(topic, 0);
        List<Cluster.Row> kept = new ArrayList<>();
        try (Producer<String, String> producer = cluster.producer(Map.of("transactional.id", cluster.name("id")));
                Consumer<String, String> consumer = cluster.consumer(Map.of("group.id", cluster.name("transaction"), "isolation.level", "read_committed"))) {
            producer.initTransactions();
            long committed = -1;
            for (boolean commit : new boolean[] {true, false, true}) {
                producer.beginTransaction();
                List<Cluster.Row> sent = cluster.send(producer, Records.numbered(topic, 1, 10));
                long place = kept.size() + (commit ? 10 : 5);
                producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(place)), consumer.groupMetadata());
                if (commit) {
                    producer.commitTransaction();
                    kept.addAll(sent);
                    committed = place;
                } else {
                    producer.abortTransaction();
                }
                Cluster.expect("committed offset", consumer.committed(Set.of(partition)).get(partition).offset(), committed);
            }
            // A transaction ends a moment after it is said to be committed. Its marker takes an offset.
            Cluster.await("the end of the last transaction", () -> consumer.endOffsets(Set.of(partition)).get(partition) == 33);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(consumer.assignment());
            Cluster.expect("committed records", cluster.readToEnd(consumer), kept);
        }
    }
}
