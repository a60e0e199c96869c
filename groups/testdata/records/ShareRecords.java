// Prints the records of a share group as Apache Kafka writes them, for share.txt:
//
//   libs=~/.cache/gateway/kafka-4.4.0        (compare/kafka/run start fetches it)
//   java -cp "$libs/*" ShareRecords.java > share.txt

import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.*;
import org.apache.kafka.coordinator.group.modern.*;
import org.apache.kafka.coordinator.group.modern.share.*;
import org.apache.kafka.coordinator.group.modern.share.ShareGroup.InitMapValue;
import org.apache.kafka.coordinator.common.runtime.*;

public class ShareRecords {
    static void p(String name, CoordinatorRecord r) {
        var s = new GroupCoordinatorRecordSerde();
        System.out.println(name);
        System.out.println(HexFormat.of().formatHex(s.serializeKey(r)));
        byte[] v = s.serializeValue(r);
        System.out.println(v == null ? "null" : HexFormat.of().formatHex(v));
    }
    public static void main(String[] a) throws Exception {
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
}
