import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ListConsumerGroupsOptions;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.TopicPartition;

/** Consumers that share the partitions of a topic, six, as members of a group. */
class Groups {
    private static final Map<String, String> EAGER = Map.of("partition.assignment.strategy", RangeAssignor.class.getName());
    private static final Map<String, String> COOPERATIVE = Map.of("partition.assignment.strategy", CooperativeStickyAssignor.class.getName());
    private static final Map<String, String> NEW_PROTOCOL = Map.of("group.protocol", "consumer");
    /** A member that is gone is missed after this time; brokers allow no less. */
    private static final Map<String, String> SHORT_SESSION = Map.of("session.timeout.ms", "6000", "heartbeat.interval.ms", "1000");

    private final Cluster cluster;

    Groups(Cluster cluster) {
        this.cluster = cluster;
    }

    /** Three members have two partitions each, and read every record once among them. */
    void balance() throws Exception {
        balance("balance", EAGER);
    }

    /** The same by the protocol of KIP-848. */
    void newProtocol() throws Exception {
        balance("new-protocol", NEW_PROTOCOL);
    }

    private void balance(String name, Map<String, String> configs) throws Exception {
        String topic = cluster.topic(name, 6);
        List<Cluster.Row> sent = send(topic);
        try (Group group = new Group(topic, configs)) {
            Member first = group.join();
            Member second = group.join();
            Member third = group.join();
            group.poll("two partitions each", () -> first.owned.size() == 2 && second.owned.size() == 2 && third.owned.size() == 2);
            // What a member read before the others came is read again by who owns it now: it was not committed.
            group.poll("every record read", () -> new HashSet<>(group.read()).containsAll(sent));
            Cluster.expect("records read by the group", new HashSet<>(group.read()), new HashSet<>(sent));
        }
    }

    /** A member that joins gets its share; when it leaves, the other has all again at once. */
    void joinLeave() throws Exception {
        String topic = cluster.topic("join-leave", 6);
        try (Group group = new Group(topic, EAGER)) {
            Member first = group.join();
            group.poll("all for one", () -> first.owned.size() == 6);
            Member second = group.join();
            group.poll("half for each", () -> first.owned.size() == 3 && second.owned.size() == 3);
            group.leave(second);
            group.poll("all for one again", () -> first.owned.size() == 6);
        }
    }

    /** A member that goes without a word is missed when its session ends, and its committed offset is where another goes on. */
    void kill() throws Exception {
        String topic = cluster.topic("kill", 6);
        List<Cluster.Row> sent = send(topic);
        Map<String, String> configs = new HashMap<>(EAGER);
        configs.putAll(SHORT_SESSION);
        configs.put("internal.leave.group.on.close", "false"); // for vanish, before Kafka 4.1
        try (Group group = new Group(topic, configs)) {
            Member victim = group.join();
            group.poll("every record read", () -> new HashSet<>(victim.read).containsAll(sent));
            victim.consumer.commitSync();
            Member heir = group.join();
            group.poll("half for each", () -> heir.owned.size() == 3 && victim.owned.size() == 3);
            group.vanish(victim);
            group.poll("all for the heir", () -> heir.owned.size() == 6);
            Cluster.expect("records read again", heir.read, List.of());
        }
    }

    /** A static member that comes back within its session has its partitions at once, and the others notice nothing. */
    void staticMember() throws Exception {
        String topic = cluster.topic("static", 6);
        try (Group group = new Group(topic, EAGER)) {
            Member first = group.join("group.instance.id", "one");
            Member second = group.join("group.instance.id", "two");
            group.poll("half for each", () -> first.owned.size() == 3 && second.owned.size() == 3);
            int rebalances = first.assignments;
            Set<TopicPartition> before = Set.copyOf(second.owned);
            group.leave(second);
            Member again = group.join("group.instance.id", "two");
            group.poll("it is back", () -> !again.owned.isEmpty());
            Cluster.expect("partitions of the member that came back", Set.copyOf(again.owned), before);
            Cluster.expect("rebalances that the other saw", first.assignments, rebalances);
        }
    }

    /** By the cooperative assignor a member keeps what it is not asked to give away. */
    void cooperative() throws Exception {
        String topic = cluster.topic("cooperative", 6);
        try (Group group = new Group(topic, COOPERATIVE)) {
            Member first = group.join();
            group.poll("all for one", () -> first.owned.size() == 6);
            Member second = group.join();
            group.poll("half for each", () -> first.owned.size() == 3 && second.owned.size() == 3);
            Cluster.expect("partitions revoked", first.revoked, second.owned);
        }
    }

    /** A group is listed and described while it has a member; without one its offsets can be set and deleted, and itself. */
    void administer() throws Exception {
        String topic = cluster.topic("administered", 6);
        String name;
        List<Cluster.Row> sent = send(topic);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (Group group = new Group(topic, EAGER)) {
            name = group.name;
            Member member = group.join();
            group.poll("every record read", () -> new HashSet<>(member.read).containsAll(sent));
            member.consumer.commitSync();
            Cluster.expect("listed", list().contains(name), true);
            ConsumerGroupDescription described = cluster.admin.describeConsumerGroups(List.of(name)).describedGroups().get(name).get();
            Cluster.expect("members", described.members().size(), 1);
            Cluster.expect("assignor", described.partitionAssignor(), "range");
            Cluster.expect("its partitions", described.members().iterator().next().assignment().topicPartitions(), member.owned);
        }
        Cluster.await("the group is empty", () -> cluster.admin.describeConsumerGroups(List.of(name)).describedGroups().get(name).get().members().isEmpty());
        Cluster.expect("committed", committed(name).get(partition).offset(), (long) sent.size() / 6);
        cluster.admin.alterConsumerGroupOffsets(name, Map.of(partition, new OffsetAndMetadata(1))).all().get();
        Cluster.expect("reset", committed(name).get(partition).offset(), 1L);
        cluster.admin.deleteConsumerGroupOffsets(name, Set.of(partition)).all().get();
        Cluster.expect("offset deleted", committed(name).get(partition) == null, true);
        cluster.admin.deleteConsumerGroups(List.of(name)).all().get();
        Cluster.expect("listed after its deletion", list().contains(name), false);
    }

    private Map<TopicPartition, OffsetAndMetadata> committed(String group) throws Exception {
        return cluster.admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
    }

    @SuppressWarnings("deprecation") // what replaces it is not in 3.9
    private Set<String> list() throws Exception {
        Set<String> names = new TreeSet<>();
        cluster.admin.listConsumerGroups(new ListConsumerGroupsOptions()).all().get().forEach(group -> names.add(group.groupId()));
        return names;
    }

    private List<Cluster.Row> send(String topic) throws Exception {
        try (Producer<String, String> producer = cluster.producer(Map.of())) {
            return cluster.send(producer, Records.numbered(topic, 6, 60));
        }
    }

    /** The members of one group, polled in turn by this thread: each has to be, to take part in a rebalance. */
    private class Group implements AutoCloseable {
        final String name;
        private final String topic;
        private final Map<String, String> configs;
        private final List<Member> members = new ArrayList<>();
        private final List<Cluster.Row> read = new ArrayList<>();

        Group(String topic, Map<String, String> configs) {
            this.topic = topic;
            this.configs = configs;
            name = topic + "-group";
        }

        /** Adds a member, with a config more when one is given by name and value. */
        Member join(String... config) {
            Map<String, String> all = new HashMap<>(configs);
            all.put("group.id", name);
            if (config.length == 2) {
                all.put(config[0], config[1]);
            }
            Member member = new Member(cluster.consumer(all));
            member.consumer.subscribe(List.of(topic), member);
            members.add(member);
            return member;
        }

        void leave(Member member) {
            members.remove(member);
            read.addAll(member.read);
            member.consumer.close();
        }

        /** Ends a member without a word to the group, as if it were killed: by an option that came with Kafka 4.1. */
        void vanish(Member member) throws Exception {
            members.remove(member);
            try {
                Class<?> options = Class.forName("org.apache.kafka.clients.consumer.CloseOptions");
                Class<?> operation = Class.forName(options.getName() + "$GroupMembershipOperation");
                Object remain = options.getMethod("groupMembershipOperation", operation).invoke(null, operation.getField("REMAIN_IN_GROUP").get(null));
                Consumer.class.getMethod("close", options).invoke(member.consumer, remain);
            } catch (ClassNotFoundException old) {
                member.consumer.close();
            }
        }

        /** Polls every member until the condition holds. */
        void poll(String what, Callable<Boolean> condition) {
            Cluster.await(what, () -> {
                for (Member member : members) {
                    for (ConsumerRecord<String, String> record : member.consumer.poll(Duration.ofMillis(50))) {
                        member.read.add(Cluster.Row.read(record));
                    }
                }
                return condition.call();
            });
        }

        /** What all members have read, those that left too. */
        List<Cluster.Row> read() {
            List<Cluster.Row> all = new ArrayList<>(read);
            members.forEach(member -> all.addAll(member.read));
            return all;
        }

        @Override
        public void close() {
            List.copyOf(members).forEach(this::leave);
        }
    }

    /** A consumer, and what it owns and has read. */
    private static class Member implements ConsumerRebalanceListener {
        final Consumer<String, String> consumer;
        final Set<TopicPartition> owned = new HashSet<>();
        final Set<TopicPartition> revoked = new HashSet<>();
        final List<Cluster.Row> read = new ArrayList<>();
        int assignments;

        Member(Consumer<String, String> consumer) {
            this.consumer = consumer;
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            assignments++;
            owned.addAll(partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            revoked.addAll(partitions);
            owned.removeAll(partitions);
        }
    }
}
