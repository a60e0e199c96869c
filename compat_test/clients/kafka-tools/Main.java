import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Kafka's command line tools against the broker at ADDR, the output of each looked into.
 *
 * <pre>Main ADDR PREFIX</pre>
 *
 * The directory with the broker's files is in the environment, as GATEWAY_DATA, when it is on this machine.
 */
public class Main {
    private final String address;
    private final String prefix;
    /** A topic of few records, one of many, and the lines that stand in the first. */
    private final String few;
    private final String many;
    private static final String LINES = """
        h1:a,h2:b\tkey-0\tvalue-0
        h1:a\tkey-1\tNULL
        h1:a\tNULL\tvalue-2
        h1:NULL\tkey-3\tvalue-3
        h1:a\tkey-4\tvalue-4
        """;

    private Main(String address, String prefix) {
        this.address = address;
        this.prefix = prefix;
        few = prefix + "-few";
        many = prefix + "-many";
    }

    public static void main(String[] args) throws Exception {
        Main main = new Main(args[0], args[1]);
        System.out.println("version kafka-tools " + version());
        feature("topics-create", main::topicsCreate);
        feature("topics-describe", main::topicsDescribe);
        feature("topics-alter", main::topicsAlter);
        feature("configs-topic", main::configsTopic);
        feature("configs-broker", main::configsBroker);
        feature("configs-group", main::configsGroup);
        feature("console-producer", main::consoleProducer);
        feature("console-consumer", main::consoleConsumer);
        feature("get-offsets", main::getOffsets);
        feature("delete-records", main::deleteRecords);
        feature("log-dirs", main::logDirs);
        feature("producer-perf-test", main::producerPerfTest);
        feature("verifiable-producer", main::verifiableProducer);
        feature("broker-api-versions", main::brokerApiVersions);
        feature("cluster", main::cluster);
        feature("features", main::features);
        feature("metadata-quorum", main::metadataQuorum);
        feature("dump-log", main::dumpLog);
        Groups groups = new Groups(main.address, main.few, main.prefix + "-group");
        feature("console-consumer-group", groups::consoleConsumer);
        feature("verifiable-consumer", () -> groups.verifiableConsumer("classic"));
        feature("verifiable-consumer-848", () -> groups.verifiableConsumer("consumer"));
        feature("consumer-perf-test", groups::consumerPerfTest);
        feature("groups-list", groups::list);
        feature("groups-describe", groups::describeState);
        feature("groups-reset", groups::resetOffsets);
        feature("groups-delete-offsets", groups::deleteOffsets);
        feature("groups-delete", groups::delete);
        feature("topics-delete", main::topicsDelete);
    }

    private void topicsCreate() throws Exception {
        topics("--create", "--topic", few, "--partitions", "1", "--replication-factor", "1", "--config", "retention.ms=3600000")
            .says("^Created topic " + few + "\\.$");
        topics("--create", "--topic", many, "--partitions", "1", "--config", "segment.bytes=1048576").says("^Created topic " + many);
        await(() -> topics("--list").has("^" + few + "$"));
    }

    private void topicsDescribe() throws Exception {
        topics("--describe", "--topic", few)
            .says("^Topic: " + few + "\tTopicId: \\S{22}\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: .*retention.ms=3600000")
            .says("Partition: 0\tLeader: (\\d+)\tReplicas: \\1\tIsr: \\1");
    }

    private void topicsAlter() throws Exception {
        topics("--alter", "--topic", few, "--partitions", "3");
        await(() -> topics("--describe", "--topic", few).has("PartitionCount: 3"));
    }

    private void configsTopic() throws Exception {
        configs("topics", few, "--alter", "--add-config", "max.message.bytes=2000000,cleanup.policy=[compact,delete]").says("^Completed updating config for topic " + few);
        await(() -> configs("topics", few, "--describe").has("max.message.bytes=2000000 .*DYNAMIC_TOPIC_CONFIG:max.message.bytes=2000000"));
        configs("topics", few, "--describe").says("cleanup.policy=compact,delete ").saysNot("segment.bytes=");
        configs("topics", few, "--describe", "--all").says("segment.bytes=1073741824 .*DEFAULT_CONFIG");
        configs("topics", few, "--alter", "--delete-config", "max.message.bytes,cleanup.policy");
        await(() -> !configs("topics", few, "--describe").has("max.message.bytes|cleanup.policy"));
    }

    private void configsBroker() throws Exception {
        String node = topics("--describe", "--topic", few).find("Leader: (\\d+)");
        configs("brokers", node, "--describe", "--all").says("^ +message.max.bytes=1048588 ").says("^ +node.id=" + node + " ");
        configs("brokers", node, "--alter", "--add-config", "log.cleaner.threads=2").says("^Completed updating config for broker " + node);
        await(() -> configs("brokers", node, "--describe").has("log.cleaner.threads=2 .*DYNAMIC_BROKER_CONFIG"));
        configs("brokers", node, "--alter", "--delete-config", "log.cleaner.threads");
        await(() -> !configs("brokers", node, "--describe").has("log.cleaner.threads"));
    }

    private void configsGroup() throws Exception {
        needs(address, "ListGroups(16)"); // to know whether there is such a group
        String group = prefix + "-configured";
        configs("groups", group, "--alter", "--add-config", "consumer.session.timeout.ms=50000").says("^Completed updating config for group " + group);
        await(() -> configs("groups", group, "--describe").has("consumer.session.timeout.ms=50000 .*DYNAMIC_GROUP_CONFIG"));
        configs("groups", group, "--alter", "--delete-config", "consumer.session.timeout.ms");
        await(() -> !configs("groups", group, "--describe").has("consumer.session.timeout.ms=50000"));
    }

    private void consoleProducer() throws Exception {
        // Every record into partition 0 of a topic of one partition; the other topic has three by now.
        topics("--create", "--topic", prefix + "-lines", "--partitions", "1");
        Tool.runWithInput(LINES, "ConsoleProducer", "--bootstrap-server", address, "--topic", prefix + "-lines", "--compression-codec=lz4",
            "--reader-property", "parse.key=true", "--reader-property", "parse.headers=true", "--reader-property", "null.marker=NULL");
    }

    private void consoleConsumer() throws Exception {
        Tool all = consumeLines("earliest", 5);
        String[] lines = LINES.split("\n");
        for (int i = 0; i < lines.length; i++) {
            all.says("^Partition:0\tOffset:" + i + "\t" + lines[i] + "$");
        }
        consumeLines("3", 2).says(2, "^Partition").says("Offset:3\t").says("Offset:4\t");
    }

    private Tool consumeLines(String offset, int count) throws Exception {
        return Tool.run("consumer.ConsoleConsumer", "--bootstrap-server", address, "--topic", prefix + "-lines", "--partition", "0", "--offset", offset,
            "--max-messages", Integer.toString(count), "--timeout-ms", "60000", "--formatter-property", "print.key=true",
            "--formatter-property", "print.headers=true", "--formatter-property", "print.offset=true",
            "--formatter-property", "print.partition=true", "--formatter-property", "null.literal=NULL");
    }

    private void getOffsets() throws Exception {
        offsets("latest").says("^" + prefix + "-lines:0:5$");
        offsets("earliest").says("^" + prefix + "-lines:0:0$");
        offsets("max-timestamp").says("^" + prefix + "-lines:0:[0-4]$");
    }

    private void deleteRecords() throws Exception {
        Path file = Files.createTempFile("offsets", ".json");
        try {
            Files.writeString(file, "{\"version\": 1, \"partitions\": [{\"topic\": \"" + prefix + "-lines\", \"partition\": 0, \"offset\": 2}]}");
            Tool.run("DeleteRecordsCommand", "--bootstrap-server", address, "--offset-json-file", file.toString())
                .says("^partition: " + prefix + "-lines-0\tlow_watermark: 2$");
        } finally {
            Files.delete(file);
        }
        offsets("earliest").says("^" + prefix + "-lines:0:2$");
    }

    private void logDirs() throws Exception {
        Tool.run("LogDirsCommand", "--bootstrap-server", address, "--describe", "--topic-list", prefix + "-lines")
            .says("\"partition\":\"" + prefix + "-lines-0\"").says("\"size\":[1-9]").says("\"offsetLag\":0").says("\"error\":null");
    }

    private void producerPerfTest() throws Exception {
        Tool.run("ProducerPerformance", "--bootstrap-server", address, "--topic", many, "--num-records", "3000", "--record-size", "1000",
            "--throughput", "-1").says("^3000 records sent, .* ms 99.9th\\.$");
        Tool.run("GetOffsetShell", "--bootstrap-server", address, "--topic", many).says("^" + many + ":0:3000$");
    }

    private void verifiableProducer() throws Exception {
        Tool.runAlone("VerifiableProducer", "--bootstrap-server", address, "--topic", few, "--max-messages", "20")
            .says(20, "\"name\":\"producer_send_success\"").says("\"name\":\"tool_data\".*\"sent\":20,\"acked\":20|\"sent\":20,\"acked\":20.*\"name\":\"tool_data\"");
    }

    private void brokerApiVersions() throws Exception {
        apiVersions(address).says("^\\S+:" + address.split(":")[1] + " \\(id: \\d+ rack: null isFenced: false\\) -> \\(").says("Produce\\(0\\): \\d+ to 13 \\[usable: 13\\]")
            .says("Fetch\\(1\\): 4 to 18 \\[usable: 18\\]").says("Metadata\\(3\\): 0 to 13 \\[usable: 13\\]").says("ApiVersions\\(18\\): 0 to 5 \\[usable: 5\\]");
    }

    private void cluster() throws Exception {
        Tool.run("ClusterTool", "cluster-id", "--bootstrap-server", address).says("^Cluster ID: \\S+$");
        Tool.run("ClusterTool", "list-endpoints", "--bootstrap-server", address).says("^\\d+ +\\S+ +" + address.split(":")[1] + " ");
    }

    private void features() throws Exception {
        Tool.run("FeatureCommand", "--bootstrap-server", address, "describe")
            .says("^Feature: metadata.version\\s+SupportedMinVersion: 3\\.3-IV3\\s+SupportedMaxVersion: 4\\.\\d-IV\\d\\s+FinalizedVersionLevel: 4\\.\\d-IV\\d\\s+Epoch: \\d+");
    }

    private void metadataQuorum() throws Exception {
        needs(address, "DescribeQuorum(55)");
        Tool.run("MetadataQuorumCommand", "--bootstrap-server", address, "describe", "--status").says("^LeaderId: +\\d+$").says("^HighWatermark: +\\d+$");
    }

    /** Kafka's tool reads what the broker left on the disk: every record is there, and no index disagrees with its segment. */
    private void dumpLog() throws Exception {
        String data = System.getenv("GATEWAY_DATA");
        if (data == null || data.isEmpty()) {
            throw new Unsupported("needs the files of the broker, GATEWAY_DATA");
        }
        List<String> logs = files(Path.of(data, many + "-0"), ".log");
        if (logs.size() < 3) {
            throw new AssertionError("want three segments or more, got " + logs);
        }
        Tool.run("DumpLogSegments", "--print-data-log", "--files", String.join(",", logs))
            .says(3000, "^\\| offset: \\d+ .*payload: \\S+").says("^baseOffset: 0 ").says("lastOffset: 2999 ").saysNot("isvalid: false")
            .complainsOnlyOf("Non-consecutive offsets in .*|  -1 is followed by \\d+"); // of each segment that begins behind offset 0
        // The indexes of the segment that is written to are not finished.
        Path first = Path.of(data, many + "-0", "00000000000000000000");
        Tool.run("DumpLogSegments", "--files", first + ".index," + first + ".timeindex")
            .says("^offset: [1-9]\\d* position: [1-9]").says("^timestamp: \\d+ offset: [1-9]").complainsOnlyOf("");
    }

    private void topicsDelete() throws Exception {
        topics("--delete", "--topic", prefix + "-.*");
        await(() -> !topics("--list").has("^" + prefix));
    }

    private Tool topics(String... arguments) throws Exception {
        return Tool.run("TopicCommand", with(new String[] {"--bootstrap-server", address}, arguments));
    }

    private Tool configs(String type, String name, String... arguments) throws Exception {
        return Tool.run("ConfigCommand", with(new String[] {"--bootstrap-server", address, "--entity-type", type, "--entity-name", name}, arguments));
    }

    private Tool offsets(String time) throws Exception {
        return Tool.run("GetOffsetShell", "--bootstrap-server", address, "--topic", prefix + "-lines", "--time", time);
    }

    private static Tool apiVersions(String address) throws Exception {
        return Tool.run("BrokerApiVersionsCommand", "--bootstrap-server", address);
    }

    /** Ends a feature whose tool sends a request that this broker does not advertise. */
    static void needs(String address, String api) throws Exception {
        if (apiVersions(address).has(Pattern.quote(api) + ": UNSUPPORTED")) {
            throw new Unsupported("asks with " + api + ", which this broker does not advertise");
        }
    }

    private static String[] with(String[] first, String[] rest) {
        return Stream.concat(Stream.of(first), Stream.of(rest)).toArray(String[]::new);
    }

    private static List<String> files(Path folder, String ending) throws IOException {
        try (Stream<Path> all = Files.list(folder)) {
            return all.map(Path::toString).filter(name -> name.endsWith(ending)).sorted().collect(Collectors.toList());
        }
    }

    private static String version() throws IOException {
        try (var file = org.apache.kafka.clients.admin.Admin.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            var properties = new java.util.Properties();
            properties.load(file);
            return properties.getProperty("version");
        }
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    /** Asks again until the answer is yes, for a minute at most: what a cluster says may lag behind what it acknowledged. */
    private static void await(Condition condition) throws Exception {
        long deadline = System.nanoTime() + 60_000_000_000L;
        while (!condition.holds()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("still not so after a minute");
            }
        }
    }

    interface Feature {
        void run() throws Exception;
    }

    /** The broker offers nothing that this tool could ask for. */
    private static class Unsupported extends RuntimeException {
        private static final long serialVersionUID = 1;

        Unsupported(String reason) {
            super(reason);
        }
    }

    private static void feature(String name, Feature feature) {
        String outcome = "pass";
        try {
            feature.run();
        } catch (Unsupported reason) {
            outcome = "unsupported " + reason.getMessage();
        } catch (Throwable reason) {
            outcome = "fail " + reason.getMessage().replaceAll("\\s+", " ");
        }
        System.out.println(name + " " + outcome);
        System.out.flush();
    }
}
