import java.io.InputStream;
import java.util.Properties;
import java.util.concurrent.ExecutionException;

/**
 * What Kafka Streams does with the broker at ADDR when it has to count exactly once.
 *
 * <pre>Main ADDR PREFIX</pre>
 *
 * The features go on from each other: it is one application, and what it has counted is kept by the broker.
 */
public class Main {
    public static void main(String[] args) throws Exception {
        System.out.println("version kafka-streams " + version());
        try (WordCount words = new WordCount(args[0], args[1])) {
            feature("count", words::count);
            feature("restart", words::restart);
            feature("abort", words::abort);
            feature("delete", words::delete);
        }
        System.exit(0); // whatever a feature that failed left running
    }

    static String version() throws Exception {
        try (InputStream file = Main.class.getResourceAsStream("/kafka/kafka-streams-version.properties")) {
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
            thrown.printStackTrace();
        }
        System.out.println(name + " " + outcome);
        System.out.flush();
    }
}
