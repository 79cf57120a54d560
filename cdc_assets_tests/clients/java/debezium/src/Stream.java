import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * Runs the connector that a properties file describes and prints each event as a line of JSON.
 *
 * <p>Ends after the batch in which the topic of its second argument has an event whose key holds
 * the number of its third. Exit status 1 and the reason on standard error when the connector fails.
 */
public final class Stream implements DebeziumEngine.ChangeConsumer<ChangeEvent<String, String>> {
    private static final long CLOSING_SECONDS = 60;

    private final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private final CountDownLatch ended = new CountDownLatch(1);
    private final String topic;
    private final String key;
    private volatile boolean failed;

    private Stream(String topic, String key) {
        this.topic = topic;
        this.key = key;
    }

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            properties.load(file);
        }
        System.exit(new Stream(arguments[1], arguments[2]).run(properties) ? 0 : 1);
    }

    private boolean run(Properties properties) throws IOException, InterruptedException {
        ExecutorService executor = Executors.newSingleThreadExecutor();
        DebeziumEngine<ChangeEvent<String, String>> engine =
                DebeziumEngine.create(Json.class)
                        .using(properties)
                        .notifying(this)
                        .using(this::completed)
                        .build();
        executor.execute(engine);
        ended.await();
        if (!failed) {
            engine.close();
        }
        executor.shutdown();
        return executor.awaitTermination(CLOSING_SECONDS, TimeUnit.SECONDS) && !failed;
    }

    private void completed(boolean success, String message, Throwable error) {
        if (!success) {
            failed = true;
            System.err.println(message);
        }
        ended.countDown();
    }

    @Override
    public void handleBatch(
            List<ChangeEvent<String, String>> events,
            DebeziumEngine.RecordCommitter<ChangeEvent<String, String>> committer)
            throws InterruptedException {
        boolean last = false;
        for (ChangeEvent<String, String> event : events) {
            out.printf(
                    "{\"topic\": \"%s\", \"key\": %s, \"value\": %s}%n",
                    event.destination(), event.key(), event.value());
            last |= event.destination().equals(topic) && event.key().contains(":" + key + "}");
            committer.markProcessed(event);
        }
        committer.markBatchFinished();
        out.flush();
        if (last) {
            ended.countDown();
        }
    }
}
