import java.util.stream.Stream;

/** The tools that read as a member of a group, and those that look after groups. */
class Groups {
    private final String address;
    private final String topic;
    private final String group;

    /** The topic holds 20 records; it is read by group. */
    Groups(String address, String topic, String group) {
        this.address = address;
        this.topic = topic;
        this.group = group;
    }

    /** A group of one reads all partitions, and commits when it ends; then there is nothing left for it. */
    void consoleConsumer() throws Exception {
        consume(20).says(20, "^\\d+$").says("^0$").says("^19$");
        describe().says(3, "^" + group + " +" + topic + " +\\d +(\\d+) +\\1 +0 +- +- +-");
    }

    /** The consumer of Kafka's own system tests, by the classic protocol or by the new one. */
    void verifiableConsumer(String protocol) throws Exception {
        if (protocol.equals("consumer")) {
            Main.needs(address, "ConsumerGroupHeartbeat(68)");
        }
        Tool.runAlone("VerifiableConsumer", "--bootstrap-server", address, "--topic", topic, "--group-id", group + "-" + protocol,
            "--group-protocol", protocol, "--max-messages", "20", "--reset-policy", "earliest")
            .says("\"name\":\"partitions_assigned\"").says("\"name\":\"offsets_committed\".*\"success\":true").says("\"name\":\"shutdown_complete\"")
            .saysNot("\"success\":false");
    }

    void consumerPerfTest() throws Exception {
        Tool.run("ConsumerPerformance", "--bootstrap-server", address, "--topic", topic, "--group", group + "-perf", "--num-records", "20", "--timeout", "60000")
            .says("^start.time, end.time, data.consumed").says("^\\d{4}-.*, 20, ");
    }

    void list() throws Exception {
        groups("--list").says("^" + group + "$");
        Tool.run("GroupsCommand", "--bootstrap-server", address, "--list").says("^" + group + " +Classic +consumer *$");
    }

    void describeState() throws Exception {
        groups("--describe", "--group", group, "--state").says("^" + group + " +" + address.replace("127.0.0.1", "\\S+") + " +\\(\\d+\\) .*Empty .* 0 *$");
    }

    /** Offsets are set by date, by shift and to the start; a group reads on from there. */
    void resetOffsets() throws Exception {
        reset("--to-earliest").says(3, "^" + group + " +" + topic + " +\\d +0 *$");
        consume(20).says(20, "^\\d+$");
        reset("--shift-by", "-1").says(3, "^" + group + " +" + topic + " +\\d +\\d+ *$");
        describe().says("^" + group + " +" + topic + " +\\d +\\d+ +\\d+ +1 ").saysNot("^" + group + " +" + topic + " +\\d +\\d+ +\\d+ +[2-9]");
        reset("--to-datetime", "2020-01-01T00:00:00.000").says(3, "^" + group + " +" + topic + " +\\d +0 *$");
    }

    void deleteOffsets() throws Exception {
        groups("--delete-offsets", "--group", group, "--topic", topic + ":0").says("^Request succeeded for deleting offsets from group " + group + "\\.$")
            .says("^" + topic + " +0 +Successful");
        describe().says(2, "^" + group + " +" + topic + " ");
    }

    void delete() throws Exception {
        groups("--delete", "--group", group).says("^Deletion of requested consumer groups \\('" + group + "'\\) was successful\\.$");
        groups("--list").saysNot("^" + group + "$");
    }

    private Tool consume(int count) throws Exception {
        return Tool.run("consumer.ConsoleConsumer", "--bootstrap-server", address, "--topic", topic, "--group", group, "--from-beginning",
            "--max-messages", Integer.toString(count), "--timeout-ms", "60000");
    }

    private Tool describe() throws Exception {
        return groups("--describe", "--group", group);
    }

    private Tool reset(String... to) throws Exception {
        return groups(Stream.concat(Stream.of("--reset-offsets", "--group", group, "--topic", topic, "--execute"), Stream.of(to)).toArray(String[]::new));
    }

    private Tool groups(String... arguments) throws Exception {
        return Tool.run("consumer.group.ConsumerGroupCommand", Stream.concat(Stream.of("--bootstrap-server", address), Stream.of(arguments)).toArray(String[]::new));
    }
}
