import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Produced;

/** An application that reads lines, counts their words and writes each count as it grows. */
class WordCount implements AutoCloseable {
    /** How long anything may take. */
    private static final Duration PATIENCE = Duration.ofSeconds(120);
    private static final int PARTITIONS = 2;

    private final Admin admin;
    private final String address;
    private final String prefix;
    private final String application;
    private final String lines;
    private final String counts;
    /** What was written to the lines so far, counted here. */
    private final Map<String, Integer> written = new TreeMap<>();

    WordCount(String address, String prefix) {
        this.address = address;
        this.prefix = prefix;
        application = prefix + "-application";
        lines = prefix + "-lines";
        counts = prefix + "-counts";
        admin = Admin.create(client());
    }

    void count() throws Exception {
        admin.createTopics(List.of(topic(lines), topic(counts))).all().get();
        await("metadata of the topics", () -> admin.listTopics().names().get().containsAll(List.of(lines, counts)));
        write("the quick brown fox", "jumps over the lazy dog", "the end");
        counting("");
    }

    void restart() throws Exception {
        write("the fox again", "and the dog");
        counting("");
    }

    void abort() throws Exception {
        List<String> many = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            many.add("one more line, the line number-" + i % 10);
        }
        many.add("poison");
        write(many.toArray(String[]::new));
        instance("poison", streams -> await("an end by what it can not count", () -> streams.state() == KafkaStreams.State.ERROR));
        counting("");
    }

    void delete() throws Exception {
        List<String> ours = topics();
        expect("a topic between and a changelog", ours.size(), 4);
        admin.deleteTopics(ours).all().get();
        await("no topic of this run listed", () -> topics().isEmpty());
        await("no members", () -> admin.describeConsumerGroups(List.of(application)).all().get().get(application).members().isEmpty());
        admin.deleteConsumerGroups(List.of(application)).all().get();
        await("no group listed", () -> admin.listGroups().all().get().stream().noneMatch(group -> group.groupId().equals(application)));
    }

    private List<String> topics() throws Exception {
        return admin.listTopics().names().get().stream().filter(name -> name.startsWith(prefix + "-")).toList();
    }

    private static NewTopic topic(String name) {
        return new NewTopic(name, PARTITIONS, (short) 1);
    }

    /** Adds lines, in order, to the partitions in turn. */
    private void write(String... added) throws Exception {
        try (Producer<String, String> producer = new KafkaProducer<>(client(), new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < added.length; i++) {
                producer.send(new ProducerRecord<>(lines, i % PARTITIONS, null, added[i]));
                for (String word : added[i].split(" ")) {
                    written.merge(word, 1, Integer::sum);
                }
            }
            producer.flush();
        }
    }

    /** Has an instance count until all that was written is counted, each word once: no count is missing and none is there twice. */
    private void counting(String failing) throws Exception {
        instance(failing, streams -> await("all counted", () -> {
            expect("failed", streams.state() == KafkaStreams.State.ERROR, false);
            return read().values().stream().mapToInt(List::size).sum() >= written.values().stream().mapToInt(Integer::intValue).sum();
        }));
        Map<String, List<Integer>> want = new TreeMap<>();
        written.forEach((word, times) -> want.put(word, Stream.iterate(1, i -> i + 1).limit(times).toList()));
        expect("counts", read(), want);
    }

    interface Use {
        void with(KafkaStreams streams) throws Exception;
    }

    /** Runs an instance that fails at one word, in a directory of its own. */
    private void instance(String failing, Use use) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(lines)
            .flatMapValues(line -> List.of(line.split(" ")))
            .peek((none, word) -> {
                if (word.equals(failing)) {
                    throw new IllegalStateException("there is " + word);
                }
            })
            .groupBy((none, word) -> word)
            .count()
            .toStream()
            .mapValues(String::valueOf)
            .to(counts, Produced.with(Serdes.String(), Serdes.String()));
        Path directory = Files.createTempDirectory("streams");
        Properties properties = client();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, directory.toString());
        properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0); // every count is written, not the last of some
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        properties.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 10_000);
        try (KafkaStreams streams = new KafkaStreams(builder.build(), properties)) {
            streams.setUncaughtExceptionHandler(thrown -> {
                thrown.printStackTrace();
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.start();
            use.with(streams);
            // It would stay in its group else, and the next one wait for its session to end, as after one that failed.
            streams.close(CloseOptions.timeout(PATIENCE).withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
        } finally {
            try (Stream<Path> files = Files.walk(directory)) {
                files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
            }
        }
    }

    /** The counts of each word that a reader of committed records gets, in order. */
    private Map<String, List<Integer>> read() throws Exception {
        Properties properties = client();
        properties.put("isolation.level", "read_committed");
        properties.put("auto.offset.reset", "earliest");
        Map<String, List<Integer>> read = new TreeMap<>();
        try (Consumer<String, String> consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(Stream.iterate(0, i -> i + 1).limit(PARTITIONS).map(i -> new TopicPartition(counts, i)).toList());
            Map<TopicPartition, Long> ends = consumer.endOffsets(consumer.assignment());
            await("the end of " + ends, () -> {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    read.computeIfAbsent(record.key(), word -> new ArrayList<>()).add(Integer.valueOf(record.value()));
                }
                return ends.entrySet().stream().allMatch(end -> consumer.position(end.getKey()) >= end.getValue());
            });
        }
        return read;
    }

    private Properties client() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", address);
        return properties;
    }

    /** Asks again until the answer is yes. */
    private static void await(String what, Callable<Boolean> condition) throws Exception {
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (!condition.call()) {
            expect(what, System.nanoTime() < deadline, true);
        }
    }

    private static void expect(String what, Object got, Object want) {
        if (!want.equals(got)) {
            throw new AssertionError(what + ": got " + got + ", want " + want);
        }
    }

    @Override
    public void close() {
        admin.close();
    }
}
