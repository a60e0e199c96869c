// Prints what Apache Kafka's assignors make of random groups, for vectors.txt:
//
//   libs=~/.cache/gateway/kafka-4.4.0        (compare/kafka/run start fetches it)
//   java -cp "$libs/*" Vectors.java > vectors.txt
//
// Members and topics are given to the assignors in the order of their ids, which
// fixes what Kafka itself leaves to the order of a hash. Topic n has the id Uuid(0, n).

import java.util.*;
import java.util.stream.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.*;
import org.apache.kafka.coordinator.group.modern.*;

public class Vectors {
    static final Random random = new Random(848);
    static final TreeMap<Integer, Integer> topics = new TreeMap<>();
    static final TreeMap<String, Member> members = new TreeMap<>();
    static int joined;

    static class Member {
        String instance;
        TreeSet<Integer> topics = new TreeSet<>();
        TreeMap<Uuid, Set<Integer>> assigned = new TreeMap<>();
    }

    public static void main(String[] args) {
        for (int group = 0; group < 40; group++) {
            boolean same = group % 2 == 0;
            boolean range = group % 8 >= 6;
            topics.clear();
            members.clear();
            joined = 0;
            int count = 1 + random.nextInt(5);
            for (int t = 1; t <= count; t++) topics.put(t, 1 + random.nextInt(12));
            for (int i = random.nextInt(6); i >= 0; i--) join(same);
            for (int turn = 0; turn < 6; turn++) {
                divide(range, same);
                change(same);
            }
        }
    }

    static void join(boolean same) {
        Member m = new Member();
        String id = String.format("m%02d", random.nextInt(100));
        if (members.containsKey(id)) return;
        if (random.nextInt(4) == 0) m.instance = "i" + (99 - joined);
        joined++;
        for (int t : topics.keySet()) if (same || random.nextInt(3) > 0) m.topics.add(t);
        members.put(id, m);
    }

    static void change(boolean same) {
        switch (random.nextInt(5)) {
            case 0, 1 -> join(same);
            case 2 -> {
                if (members.size() > 1) members.remove(new ArrayList<>(members.keySet()).get(random.nextInt(members.size())));
            }
            case 3 -> topics.merge(1 + random.nextInt(topics.size()), random.nextInt(5), Integer::sum);
            case 4 -> {
                if (same) {
                    int gone = topics.lastKey();
                    if (topics.size() > 1) members.values().forEach(m -> m.topics.remove(gone));
                    if (topics.size() > 1) topics.remove(gone);
                } else {
                    Member m = members.firstEntry().getValue();
                    int t = 1 + random.nextInt(topics.size());
                    if (!m.topics.remove(t)) m.topics.add(t);
                }
            }
        }
    }

    static void divide(boolean range, boolean same) {
        Map<String, MemberSubscriptionAndAssignmentImpl> specs = new TreeMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        members.forEach((id, m) -> {
            Set<Uuid> subscribed = new TreeSet<>();
            m.topics.forEach(t -> subscribed.add(new Uuid(0, t)));
            specs.put(id, new MemberSubscriptionAndAssignmentImpl(Optional.empty(), Optional.ofNullable(m.instance), subscribed, new Assignment(m.assigned)));
            m.assigned.forEach((t, list) -> list.forEach(p -> owners.computeIfAbsent(t, k -> new HashMap<>()).put(p, id)));
        });
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid id) { return topics.get((int) id.getLeastSignificantBits()); }
            public Set<String> racksForPartition(Uuid id, int partition) { return Set.of(); }
        };
        var spec = new GroupSpecImpl(specs, same ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS, owners);
        System.out.println((range ? "range" : "uniform") + (same ? " same" : " own"));
        System.out.println("topics" + topics.entrySet().stream().map(e -> " " + e.getKey() + ":" + e.getValue()).collect(Collectors.joining()));
        members.forEach((id, m) -> System.out.println(id + " " + (m.instance == null ? "-" : m.instance) + " "
            + (m.topics.isEmpty() ? "-" : m.topics.stream().map(String::valueOf).collect(Collectors.joining(","))) + text(m.assigned)));
        GroupAssignment result = (range ? new RangeAssignor() : new UniformAssignor()).assign(spec, describer);
        System.out.println("gives");
        members.forEach((id, m) -> {
            m.assigned = new TreeMap<>();
            MemberAssignment a = result.members().get(id);
            if (a != null) a.partitions().forEach((t, list) -> {
                if (!list.isEmpty()) m.assigned.put(t, new TreeSet<>(list));
            });
            System.out.println(id + text(m.assigned));
        });
        System.out.println();
    }

    static String text(Map<Uuid, Set<Integer>> assigned) {
        return assigned.entrySet().stream()
            .map(e -> " " + e.getKey().getLeastSignificantBits() + ":" + e.getValue().stream().map(String::valueOf).collect(Collectors.joining(",")))
            .collect(Collectors.joining());
    }
}
