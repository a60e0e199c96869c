import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The broker under test: makes topics, producers and consumers, and says what must be so. */
class Cluster implements AutoCloseable {
    /** How long anything may take. */
    static final Duration PATIENCE = Duration.ofSeconds(120);

    final Admin admin;
    private final String address;
    private final String prefix;

    Cluster(String address, String prefix) {
        this.address = address;
        this.prefix = prefix;
        admin = Admin.create(client());
    }

    /** The name of a topic or group of this run. */
    String name(String suffix) {
        return prefix + "-" + suffix;
    }

    /** Makes a topic of this run and returns its name. */
    String topic(String suffix, int partitions) throws Exception {
        return topic(suffix, partitions, Map.of());
    }

    String topic(String suffix, int partitions, Map<String, String> configs) throws Exception {
        admin.createTopics(List.of(new NewTopic(name(suffix), partitions, (short) 1).configs(configs))).all().get();
        await("metadata of " + name(suffix), () -> admin.listTopics().names().get().contains(name(suffix)));
        return name(suffix);
    }

    Producer<String, String> producer(Map<String, String> configs) {
        Properties properties = client();
        properties.put("delivery.timeout.ms", (int) PATIENCE.toMillis());
        properties.put("max.block.ms", PATIENCE.toMillis());
        properties.putAll(configs);
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    Consumer<String, String> consumer(Map<String, String> configs) {
        Properties properties = client();
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.putAll(configs);
        return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }

    /** Sends the records and returns them as they were acknowledged, by partition and offset. */
    List<Row> send(Producer<String, String> producer, List<ProducerRecord<String, String>> records) throws Exception {
        List<Future<RecordMetadata>> acknowledgements = new ArrayList<>();
        for (ProducerRecord<String, String> record : records) {
            acknowledgements.add(producer.send(record));
        }
        producer.flush();
        List<Row> sent = new ArrayList<>();
        for (int i = 0; i < records.size(); i++) {
            sent.add(Row.sent(records.get(i), acknowledgements.get(i).get()));
        }
        sent.sort(Row.ORDER);
        return sent;
    }

    /** Reads on from where the consumer is to the end of every partition assigned to it. */
    List<Row> readToEnd(Consumer<String, String> consumer) {
        Map<TopicPartition, Long> ends = consumer.endOffsets(consumer.assignment());
        List<Row> read = new ArrayList<>();
        await("the end of " + ends, () -> {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                read.add(Row.read(record));
            }
            return ends.entrySet().stream().allMatch(end -> consumer.position(end.getKey()) >= end.getValue());
        });
        read.sort(Row.ORDER);
        return read;
    }

    /** Everything in a topic, read by a consumer of its own. */
    List<Row> readAll(String topic) {
        try (Consumer<String, String> consumer = consumer(Map.of())) {
            consumer.assign(partitions(topic, consumer.partitionsFor(topic).size()));
            return readToEnd(consumer);
        }
    }

    static List<TopicPartition> partitions(String topic, int count) {
        return IntStream.range(0, count).mapToObj(partition -> new TopicPartition(topic, partition)).toList();
    }

    /** Asks again until the answer is yes; answers of a cluster about itself may lag behind its acknowledgements. */
    static void await(String what, Callable<Boolean> condition) {
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        try {
            while (!condition.call()) {
                expect(what, System.nanoTime() < deadline, true);
            }
        } catch (RuntimeException e) {
            throw e;
        } catch (Exception e) {
            throw new RuntimeException(e);
        }
    }

    static void expect(String what, Object got, Object want) {
        if (!want.equals(got)) {
            throw new AssertionError(what + ": got " + got + ", want " + want);
        }
    }

    private Properties client() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", address);
        properties.put("request.timeout.ms", (int) PATIENCE.toMillis() / 2);
        properties.put("default.api.timeout.ms", (int) PATIENCE.toMillis());
        return properties;
    }

    @Override
    public void close() {
        admin.close();
    }

    /** One record: as it was sent and acknowledged it must be equal to what is read. */
    record Row(int partition, long offset, long timestamp, String key, String value, List<String> headers) {
        static final Comparator<Row> ORDER = Comparator.comparing(Row::partition).thenComparing(Row::offset);

        static Row sent(ProducerRecord<String, String> record, RecordMetadata at) {
            return new Row(at.partition(), at.offset(), at.timestamp(), record.key(), record.value(), headers(record.headers()));
        }

        static Row read(ConsumerRecord<String, String> record) {
            return new Row(record.partition(), record.offset(), record.timestamp(), record.key(), record.value(), headers(record.headers()));
        }

        private static List<String> headers(org.apache.kafka.common.header.Headers headers) {
            List<String> all = new ArrayList<>();
            headers.forEach(header -> all.add(header.key() + "=" + (header.value() == null ? null : new String(header.value()))));
            return all;
        }
    }
}
