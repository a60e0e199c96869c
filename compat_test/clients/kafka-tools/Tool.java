import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * One run of a tool: the class that Kafka's script of the same purpose starts, with the arguments that one would give
 * to the script. The tools run one after the other in this JVM, for a JVM of its own takes each seconds to start.
 */
class Tool {
    private final String command;
    private final String output;
    private final String errors;

    private Tool(String command, String output, String errors) {
        this.command = command;
        this.output = output;
        this.errors = errors;
    }

    /** Runs the main method of a class below org.apache.kafka.tools; it must end with exit code 0. */
    static Tool run(String name, String... arguments) throws Exception {
        return runWithInput("", name, arguments);
    }

    static Tool runWithInput(String input, String name, String... arguments) throws Exception {
        InputStream in = System.in;
        PrintStream out = System.out;
        PrintStream err = System.err;
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        ByteArrayOutputStream errors = new ByteArrayOutputStream();
        List<Runnable> hooks = new ArrayList<>();
        List<Integer> codes = new ArrayList<>();
        Exit.setShutdownHookAdder((hookName, hook) -> hooks.add(hook));
        Exit.setExitProcedure((code, message) -> codes.add(code));
        System.setIn(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)));
        System.setOut(new PrintStream(output, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(errors, true, StandardCharsets.UTF_8));
        try {
            Class.forName("org.apache.kafka.tools." + name).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            thrown.getCause().printStackTrace();
            codes.add(1);
        } finally {
            hooks.forEach(Runnable::run);
            System.setIn(in);
            System.setOut(out);
            System.setErr(err);
        }
        int code = codes.stream().filter(each -> each != 0).findFirst().orElse(0);
        return ended(name, arguments, code, output.toString(StandardCharsets.UTF_8), errors.toString(StandardCharsets.UTF_8));
    }

    /** Runs a tool in a JVM of its own: for one that ends its work when its JVM ends. */
    static Tool runAlone(String name, String... arguments) throws Exception {
        List<String> command = new ArrayList<>(List.of(System.getProperty("java.home") + "/bin/java", "-XX:TieredStopAtLevel=1",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", System.getProperty("java.class.path"), "org.apache.kafka.tools." + name));
        command.addAll(List.of(arguments));
        Process process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        return ended(name, arguments, process.waitFor(), output, "");
    }

    /** Fails unless a part of the output matches, with ^ and $ at the ends of lines. */
    Tool says(String pattern) {
        return expect(matches(pattern) > 0, "no line with " + pattern);
    }

    Tool says(int count, String pattern) {
        return expect(matches(pattern) == count, matches(pattern) + " times, not " + count + ", " + pattern);
    }

    Tool saysNot(String pattern) {
        return expect(matches(pattern) == 0, "a line with " + pattern);
    }

    /** Fails when a line on standard error does not match. */
    Tool complainsOnlyOf(String pattern) {
        return expect(errors.lines().allMatch(line -> line.matches(pattern)), "errors");
    }

    boolean has(String pattern) {
        return matches(pattern) > 0;
    }

    /** The first group of the first match. */
    String find(String pattern) {
        Matcher matcher = Pattern.compile(pattern, Pattern.MULTILINE).matcher(output);
        expect(matcher.find(), "no line with " + pattern);
        return matcher.group(1);
    }

    private int matches(String pattern) {
        return (int) Pattern.compile(pattern, Pattern.MULTILINE).matcher(output).results().count();
    }

    private Tool expect(boolean condition, String otherwise) {
        if (!condition) {
            throw new AssertionError(command + ": " + otherwise + " in: " + start(output) + " " + start(errors));
        }
        return this;
    }

    private static Tool ended(String name, String[] arguments, int code, String output, String errors) {
        System.err.print(errors);
        Tool tool = new Tool(name + " " + String.join(" ", arguments), output, errors);
        return tool.expect(code == 0, "exit code " + code);
    }

    private static String start(String text) {
        return Stream.of(text.split("\n")).limit(6).map(line -> line.substring(0, Math.min(line.length(), 200))).reduce("", (a, b) -> a + b + " ");
    }
}
