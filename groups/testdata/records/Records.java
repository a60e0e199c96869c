// Prints the records of a consumer group as Apache Kafka writes them, and its hashes
// of topics, for consumer.txt, or those of a share group, for share.txt:
//
//   libs=~/.cache/gateway/kafka-4.4.0        (compare/kafka/run start fetches it)
//   java -cp "$libs/*" Records.java consumer > consumer.txt
//   java -cp "$libs/*" Records.java share > share.txt

import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.*;
import org.apache.kafka.coordinator.group.generated.*;
import org.apache.kafka.coordinator.group.modern.*;
import org.apache.kafka.coordinator.group.modern.consumer.*;
import org.apache.kafka.coordinator.group.modern.share.*;
import org.apache.kafka.coordinator.group.modern.share.ShareGroup.InitMapValue;
import org.apache.kafka.coordinator.common.runtime.*;

public class Records {
    static void p(String name, CoordinatorRecord r) {
        var s = new GroupCoordinatorRecordSerde();
        System.out.println(name);
        System.out.println(HexFormat.of().formatHex(s.serializeKey(r)));
        byte[] v = s.serializeValue(r);
        System.out.println(v == null ? "null" : HexFormat.of().formatHex(v));
    }
    public static void main(String[] a) throws Exception {
        switch (a[0]) {
            case "consumer" -> consumer();
            case "share" -> share();
        }
    }
    static void consumer() {
        Uuid t1 = new Uuid(0x0102030405060708L, 0x1112131415161718L);
        p("group epoch", GroupCoordinatorRecordHelpers.newConsumerGroupEpochRecord("g", 7, 0x1122334455667788L));
        p("group epoch without hash", GroupCoordinatorRecordHelpers.newConsumerGroupEpochRecord("g", 7, 0));
        p("group gone", GroupCoordinatorRecordHelpers.newConsumerGroupEpochTombstoneRecord("g"));
        p("partition metadata gone", GroupCoordinatorRecordHelpers.newConsumerGroupSubscriptionMetadataTombstoneRecord("g"));
        var m = new ConsumerGroupMember.Builder("m1").setInstanceId("i1").setRackId("r1").setClientId("c").setClientHost("/127.0.0.1")
            .setSubscribedTopicNames(List.of("b", "a")).setSubscribedTopicRegex("x.*").setRebalanceTimeoutMs(45000).setServerAssignorName("range")
            .setMemberEpoch(5).setPreviousMemberEpoch(4).setState(MemberState.UNREVOKED_PARTITIONS)
            .setAssignedPartitions(Map.of(t1, new TreeMap<>(Map.of(0, 3, 2, 5)))).setPartitionsPendingRevocation(Map.of(t1, Map.of(1, 4))).build();
        p("member", GroupCoordinatorRecordHelpers.newConsumerGroupMemberSubscriptionRecord("g", m));
        p("member gone", GroupCoordinatorRecordHelpers.newConsumerGroupMemberSubscriptionTombstoneRecord("g", "m1"));
        var c = new ConsumerGroupMember.Builder("m2").setClientId("c").setClientHost("/127.0.0.1").setSubscribedTopicNames(List.of("a")).setRebalanceTimeoutMs(1)
            .setClassicMemberMetadata(new ConsumerGroupMemberMetadataValue.ClassicMemberMetadata().setSessionTimeoutMs(6000).setSupportedProtocols(List.of(
                new ConsumerGroupMemberMetadataValue.ClassicProtocol().setName("range").setMetadata(new byte[]{1, 2, 3})))).build();
        p("classic member", GroupCoordinatorRecordHelpers.newConsumerGroupMemberSubscriptionRecord("g", c));
        p("target epoch", GroupCoordinatorRecordHelpers.newConsumerGroupTargetAssignmentMetadataRecord("g", 9, 1700000000000L));
        p("target epoch without time", GroupCoordinatorRecordHelpers.newConsumerGroupTargetAssignmentMetadataRecord("g", 9, 0));
        p("target epoch gone", GroupCoordinatorRecordHelpers.newConsumerGroupTargetAssignmentMetadataTombstoneRecord("g"));
        p("target", GroupCoordinatorRecordHelpers.newConsumerGroupTargetAssignmentRecord("g", "m1", Map.of(t1, new TreeSet<>(Set.of(0, 1)))));
        p("target gone", GroupCoordinatorRecordHelpers.newConsumerGroupTargetAssignmentTombstoneRecord("g", "m1"));
        p("current", GroupCoordinatorRecordHelpers.newConsumerGroupCurrentAssignmentRecord("g", m));
        p("current gone", GroupCoordinatorRecordHelpers.newConsumerGroupCurrentAssignmentTombstoneRecord("g", "m1"));
        p("regex", GroupCoordinatorRecordHelpers.newConsumerGroupRegularExpressionRecord("g", "x.*", new ResolvedRegularExpression(Set.of("x1", "x0"), 12, 1700000000000L)));
        p("regex gone", GroupCoordinatorRecordHelpers.newConsumerGroupRegularExpressionTombstone("g", "x.*"));
        // hashes
        for (int[] n : new int[][]{{1}, {3}, {100}}) {
            System.out.println("hash topic " + n[0] + " " + Utils.computeTopicHash("orders", image("orders", t1, n[0])));
        }
        System.out.println("hash unicode " + Utils.computeTopicHash("caf\u00e9", image("caf\u00e9", t1, 2)));
        System.out.println("hash group " + Utils.computeGroupHash(Map.of("a", 5L, "b", -6L)));
    }
    static void share() {
        Uuid t1 = new Uuid(0x0102030405060708L, 0x1112131415161718L);
        Uuid t2 = new Uuid(0x0202030405060708L, 0x1112131415161718L);
        var m = new ShareGroupMember.Builder("m1").setRackId("r1").setClientId("c").setClientHost("/127.0.0.1").setSubscribedTopicNames(List.of("b", "a"))
            .setMemberEpoch(5).setPreviousMemberEpoch(4).setAssignedPartitions(Map.of(t1, new TreeSet<>(Set.of(0, 2)))).build();
        var bare = new ShareGroupMember.Builder("m2").setClientId("c").setClientHost("/127.0.0.1").setSubscribedTopicNames(List.of("a")).build();
        p("member", GroupCoordinatorRecordHelpers.newShareGroupMemberSubscriptionRecord("g", m));
        p("member without rack", GroupCoordinatorRecordHelpers.newShareGroupMemberSubscriptionRecord("g", bare));
        p("member gone", GroupCoordinatorRecordHelpers.newShareGroupMemberSubscriptionTombstoneRecord("g", "m1"));
        p("group epoch", GroupCoordinatorRecordHelpers.newShareGroupEpochRecord("g", 7, 0x1122334455667788L));
        p("group gone", GroupCoordinatorRecordHelpers.newShareGroupEpochTombstoneRecord("g"));
        p("target epoch", GroupCoordinatorRecordHelpers.newShareGroupTargetAssignmentMetadataRecord("g", 9, 1700000000000L));
        p("target epoch without time", GroupCoordinatorRecordHelpers.newShareGroupTargetAssignmentMetadataRecord("g", 9, 0));
        p("target epoch gone", GroupCoordinatorRecordHelpers.newShareGroupTargetAssignmentMetadataTombstoneRecord("g"));
        p("target", GroupCoordinatorRecordHelpers.newShareGroupTargetAssignmentRecord("g", "m1", Map.of(t1, new TreeSet<>(Set.of(0, 1)))));
        p("target gone", GroupCoordinatorRecordHelpers.newShareGroupTargetAssignmentTombstoneRecord("g", "m1"));
        p("current", GroupCoordinatorRecordHelpers.newShareGroupCurrentAssignmentRecord("g", m));
        p("current gone", GroupCoordinatorRecordHelpers.newShareGroupCurrentAssignmentTombstoneRecord("g", "m1"));
        p("states", GroupCoordinatorRecordHelpers.newShareGroupStatePartitionMetadataRecord("g",
            Map.of(t1, new InitMapValue("a", new TreeSet<>(Set.of(1)), 1)), Map.of(t1, new InitMapValue("a", new TreeSet<>(Set.of(0, 2)), 1)), Map.of(t2, "b")));
        p("no states", GroupCoordinatorRecordHelpers.newShareGroupStatePartitionMetadataRecord("g", Map.of(), Map.of(), Map.of()));
        p("states gone", GroupCoordinatorRecordHelpers.newShareGroupStatePartitionMetadataTombstoneRecord("g"));
    }
    static CoordinatorMetadataImage image(String name, Uuid id, int n) {
        var t = new CoordinatorMetadataImage.TopicMetadata() {
            public String name() { return name; }
            public Uuid id() { return id; }
            public int partitionCount() { return n; }
            public List<String> partitionRacks(int p) { return new ArrayList<>(); }
        };
        return new CoordinatorMetadataImage() {
            public Set<Uuid> topicIds() { return Set.of(id); }
            public Set<String> topicNames() { return Set.of(name); }
            public Optional<TopicMetadata> topicMetadata(String s) { return Optional.of(t); }
            public Optional<TopicMetadata> topicMetadata(Uuid s) { return Optional.of(t); }
            public CoordinatorMetadataDelta emptyDelta() { return null; }
            public long version() { return 1; }
            public boolean isEmpty() { return false; }
        };
    }
}
