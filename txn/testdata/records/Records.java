// Prints the records of transactions as Apache Kafka writes them, for kafka.txt: of each its
// name, key and value.
//
//   libs=~/.cache/gateway/kafka-4.4.0        (compare/kafka/run start fetches it)
//   java -cp "$libs/*" Records.java > kafka.txt

import java.util.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.coordinator.transaction.*;
import org.apache.kafka.server.common.TransactionVersion;

public class Records {
    // A value of version 0 has no room for the version of the client.
    static final TransactionVersion V0 = TransactionVersion.TV_0, V2 = TransactionVersion.TV_2;

    static TxnTransitMetadata t(long id, long previous, long next, int epoch, TransactionState state, Set<TopicPartition> in, long start, TransactionVersion client) {
        return new TxnTransitMetadata(id, previous, next, (short) epoch, (short) 3, 60000, state, new HashSet<>(in), start, 1700000000123L, client);
    }
    static void p(String name, TxnTransitMetadata t, TransactionVersion server) {
        System.out.println(name);
        System.out.println(HexFormat.of().formatHex(TransactionLog.keyToBytes("größe-1")));
        if (server == V0) t = t(t.producerId(), -1, -1, t.producerEpoch(), t.txnState(), t.topicPartitions(), t.txnStartTimestamp(), V0);
        System.out.println(HexFormat.of().formatHex(TransactionLog.valueToBytes(t, server)));
    }
    public static void main(String[] a) {
        var none = Set.<TopicPartition>of();
        var one = Set.of(new TopicPartition("orders", 7));
        var in = Set.of(new TopicPartition("orders", 2), new TopicPartition("orders", 0));
        for (var server : List.of(V0, V2)) {
            String v = server == V0 ? "v0 " : "v1 ";
            p(v + "new", t(4711, -1, -1, 0, TransactionState.EMPTY, none, -1, V0), server);
            p(v + "initialized", t(4711, 4711, -1, 5, TransactionState.EMPTY, none, -1, V2), server);
            p(v + "ongoing", t(4711, 4711, -1, 5, TransactionState.ONGOING, one, 1700000000001L, V0), server);
            p(v + "commit", t(4711, 4711, -1, 5, TransactionState.PREPARE_COMMIT, in, 1700000000001L, V0), server);
            p(v + "abort", t(4711, 4711, 4712, 32767, TransactionState.PREPARE_ABORT, one, 1700000000001L, V2), server);
            p(v + "committed", t(4711, 4711, -1, 5, TransactionState.COMPLETE_COMMIT, none, 1700000000001L, V0), server);
            p(v + "aborted", t(4712, 4711, -1, 0, TransactionState.COMPLETE_ABORT, none, 1700000000001L, V2), server);
        }
    }
}
