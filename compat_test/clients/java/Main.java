import java.io.IOException;
import java.io.InputStream;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;

/**
 * What Apache Kafka's Java client can do with the broker at ADDR: one feature after the other, a line each.
 *
 * <pre>Main ADDR PREFIX</pre>
 *
 * The same source is compiled against every version of kafka-clients in the matrix, so it keeps to calls that all of
 * them have. Topics and groups begin with PREFIX.
 */
public class Main {
    public static void main(String[] args) throws Exception {
        System.out.println("version kafka-clients " + version());
        try (Cluster cluster = new Cluster(args[0], args[1])) {
            Administration administration = new Administration(cluster);
            Records records = new Records(cluster);
            Offsets offsets = new Offsets(cluster);
            Groups groups = new Groups(cluster);

            feature("create-topic", administration::createTopic);
            feature("produce", records::produce);
            for (String codec : new String[] {"none", "gzip", "snappy", "lz4", "zstd"}) {
                feature("codec-" + codec, () -> records.codec(codec));
            }
            feature("consume-from-start", records::consumeFromStart);
            feature("resume-by-timestamp", offsets::resumeByTimestamp);
            feature("list-configs", administration::listConfigs);
            feature("alter-configs", administration::alterConfigs);
            feature("delete-records", administration::deleteRecords);
            feature("idempotent", records::idempotent);
            feature("commit-resume", offsets::commitResume);
            feature("transaction", new Transactions(cluster)::transaction);
            feature("group-balance", groups::balance);
            feature("group-join-leave", groups::joinLeave);
            feature("group-kill", groups::kill);
            feature("group-static", groups::staticMember);
            feature("group-cooperative", groups::cooperative);
            feature("group-new-protocol", groups::newProtocol);
            feature("group-admin", groups::administer);
            feature("delete-topic", administration::deleteTopic);
        }
    }

    /** The version that the client says it is. */
    static String version() throws IOException {
        try (InputStream file = Admin.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            Properties properties = new Properties();
            properties.load(file);
            return properties.getProperty("version");
        }
    }

    interface Feature {
        void run() throws Exception;
    }

    /** Runs one feature and prints its line: what it throws is the reason why it failed. */
    static void feature(String name, Feature feature) {
        String outcome = "pass";
        try {
            feature.run();
        } catch (Throwable thrown) {
            Throwable reason = thrown instanceof ExecutionException ? thrown.getCause() : thrown;
            outcome = "fail " + reason.toString().replaceAll("\\s+", " ");
        }
        System.out.println(name + " " + outcome);
        System.out.flush();
    }
}
