import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Records written and read back. */
class Records {
    private final Cluster cluster;

    Records(Cluster cluster) {
        this.cluster = cluster;
    }

    /** Keys and values that are there, empty and null, headers that repeat or are null, several partitions. */
    void produce() throws Exception {
        String topic = cluster.topic("produce", 3);
        List<ProducerRecord<String, String>> records = new ArrayList<>();
        for (int i = 0; i < 30; i++) {
            String key = i % 5 == 0 ? null : "key-" + i;
            String value = switch (i % 4) {
                case 0 -> null;
                case 1 -> "";
                default -> "value-" + i;
            };
            ProducerRecord<String, String> record = new ProducerRecord<>(topic, i % 3, key, value);
            record.headers().add("number", Integer.toString(i).getBytes()).add("number", "again".getBytes()).add("null", null);
            records.add(record);
        }
        try (Producer<String, String> producer = cluster.producer(Map.of("enable.idempotence", "false"))) {
            List<Cluster.Row> sent = cluster.send(producer, records);
            Cluster.expect("records read back", cluster.readAll(topic), sent);
        }
    }

    /** One codec, on batches that it makes smaller. */
    void codec(String codec) throws Exception {
        String topic = cluster.topic("codec-" + codec, 1);
        try (Producer<String, String> producer = cluster.producer(Map.of("compression.type", codec, "linger.ms", "50"))) {
            List<Cluster.Row> sent = cluster.send(producer, numbered(topic, 1, 100));
            Cluster.expect("batches were compressed", compressionRate(producer) < 0.9, !codec.equals("none"));
            Cluster.expect("records read back", cluster.readAll(topic), sent);
        }
    }

    /** A consumer without any position starts at the first record of each partition and sees all in order. */
    void consumeFromStart() throws Exception {
        String topic = cluster.topic("from-start", 3);
        try (Producer<String, String> producer = cluster.producer(Map.of());
                Consumer<String, String> consumer = cluster.consumer(Map.of())) {
            List<Cluster.Row> sent = cluster.send(producer, numbered(topic, 3, 300));
            consumer.assign(Cluster.partitions(topic, 3));
            consumer.seekToBeginning(consumer.assignment());
            Cluster.expect("records from the start", cluster.readToEnd(consumer), sent);
            for (int partition = 0; partition < 3; partition++) {
                int wanted = partition;
                List<Long> offsets = sent.stream().filter(row -> row.partition() == wanted).map(Cluster.Row::offset).toList();
                Cluster.expect("offsets of partition " + partition, offsets, Stream.iterate(0L, offset -> offset + 1).limit(100).toList());
            }
        }
    }

    /** Many small batches in flight at once by an idempotent producer: each record once, in the order sent. */
    void idempotent() throws Exception {
        String topic = cluster.topic("idempotent", 2);
        Map<String, String> configs = Map.of("enable.idempotence", "true", "acks", "all", "batch.size", "200",
            "max.in.flight.requests.per.connection", "5");
        try (Producer<String, String> producer = cluster.producer(configs)) {
            List<ProducerRecord<String, String>> records = numbered(topic, 2, 400);
            cluster.send(producer, records);
            List<String> wanted = Stream.of(0, 1)
                .flatMap(partition -> records.stream().filter(record -> record.partition().equals(partition))).map(ProducerRecord::value).toList();
            Cluster.expect("values in order", cluster.readAll(topic).stream().map(Cluster.Row::value).toList(), wanted);
        }
    }

    /** count records with numbers for keys and values, in turn to each partition. */
    static List<ProducerRecord<String, String>> numbered(String topic, int partitions, int count) {
        return Stream.iterate(0, i -> i + 1).limit(count)
            .map(i -> new ProducerRecord<>(topic, i % partitions, "key-" + i, "value of the record with number " + i)).toList();
    }

    /** What share of their size this producer's batches kept. */
    private static double compressionRate(Producer<String, String> producer) {
        return producer.metrics().entrySet().stream()
            .filter(metric -> metric.getKey().name().equals("compression-rate-avg") && metric.getKey().group().equals("producer-metrics"))
            .mapToDouble(metric -> (Double) metric.getValue().metricValue()).findFirst().orElseThrow();
    }
}
