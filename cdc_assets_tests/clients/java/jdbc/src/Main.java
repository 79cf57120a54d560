import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/** Runs every check and writes what each saw as a line of JSON. */
public final class Main {
    /** A check: what it saw, in canonical text. */
    interface Check {
        Object run(Client client) throws Exception;
    }

    private Main() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        ObjectMapper json = new ObjectMapper();
        Map<String, Check> checks = new LinkedHashMap<>(Checks.all());
        checks.putAll(Written.all());
        checks.putAll(Statements.all());
        checks.putAll(Metadata.all());
        try (Client client = new Client()) {
            for (Map.Entry<String, Check> entry : checks.entrySet()) {
                Map<String, Object> line = new LinkedHashMap<>();
                line.put("check", entry.getKey());
                try {
                    line.put("got", entry.getValue().run(client));
                    line.put("ok", true);
                } catch (Exception error) {
                    line.put("got", error.toString());
                    line.put("ok", false);
                }
                out.println(json.writeValueAsString(line));
            }
        }
    }
}
