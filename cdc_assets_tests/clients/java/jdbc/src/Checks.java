import com.fasterxml.jackson.databind.JsonNode;
import com.microsoft.sqlserver.jdbc.SQLServerException;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/** The checks that expected.json asks of every driver. */
final class Checks {
    private Checks() {}

    static Map<String, Main.Check> all() {
        Map<String, Main.Check> checks = new LinkedHashMap<>();
        checks.put("login_with_verified_tls", Checks::loginWithVerifiedTls);
        checks.put("login_without_tls", Checks::loginWithoutTls);
        checks.put("wrong_password", Checks::wrongPassword);
        checks.put("types", Checks::types);
        checks.put("text_of_types", Checks::textOfTypes);
        checks.put("parameters", Checks::parameters);
        checks.put("prepared_twice", Checks::preparedTwice);
        checks.put("commit", client -> transaction(client, "commit"));
        checks.put("rollback", client -> transaction(client, "rollback"));
        checks.put("errors", Checks::errors);
        checks.put("cancel", Checks::cancel);
        checks.put("several_result_sets", Checks::severalResultSets);
        checks.put("row_counts", Checks::rowCounts);
        checks.put("unicode", Checks::unicode);
        checks.put("long_text", Checks::longText);
        checks.put("nulls", Checks::nulls);
        return checks;
    }

    private static Object loginWithVerifiedTls(Client client) throws SQLException {
        boolean refused = false;
        Map<String, String> stranger =
                Map.of("encrypt", "true", "hostNameInCertificate", "localhost");
        try (Connection other = client.administrator(stranger)) {
            Client.fetch(other, "SELECT 1");
        } catch (SQLException error) {
            refused = error.getMessage().contains("PKIX path building failed");
        }
        return Map.of("rows", client.fetch("SELECT 1"), "refused_without_the_ca", refused);
    }

    private static Object loginWithoutTls(Client client) throws SQLException {
        try (Connection plain = client.administrator(Map.of("encrypt", "false"))) {
            return Map.of("rows", Client.fetch(plain, "SELECT 1"));
        }
    }

    private static Object wrongPassword(Client client) throws SQLException {
        String password = client.expected.at("/wrong_password/password").asText();
        Map<String, String> options = client.verified(Map.of());
        try (Connection other = Client.open(Client.env("USER"), password, options)) {
            return Map.of("number", 0);
        } catch (SQLServerException error) {
            return Map.of("number", error.getErrorCode());
        }
    }

    private static Object types(Client client) throws SQLException {
        String from = " FROM " + client.expected.at("/types/table").asText() + " ORDER BY id";
        String names = String.join(", ", client.fields("/types/columns", "name"));
        List<String> versions = new ArrayList<>();
        for (List<String> row : client.fetch("SELECT c_rowversion" + from)) {
            versions.add(row.get(0));
        }
        return Map.of("rows", client.fetch("SELECT " + names + from), "rowversions", versions);
    }

    private static Object textOfTypes(Client client) throws SQLException {
        String texts = String.join(", ", client.fields("/types/columns", "text"));
        String table = client.expected.at("/types/table").asText();
        return client.fetch("SELECT " + texts + " FROM " + table + " ORDER BY id");
    }

    private static Object parameters(Client client) throws SQLException {
        JsonNode order = client.expected.get("parameters");
        return client.query(order.get("sql").asText(), order.get("values")).get(0);
    }

    private static Object preparedTwice(Client client) throws SQLException {
        JsonNode order = client.expected.get("prepared_twice");
        List<Object> seen = new ArrayList<>();
        try (PreparedStatement statement = client.prepare(order.get("sql").asText())) {
            for (JsonNode run : order.get("runs")) {
                Client.bind(statement, run.get("values"));
                try (ResultSet rows = statement.executeQuery()) {
                    seen.add(Canonical.rows(rows));
                }
            }
        }
        return seen;
    }

    private static Object transaction(Client client, String end) throws SQLException {
        String table = client.scratch(end);
        JsonNode order = client.expected.get("transactions");
        String read = order.get("read").asText().replace("{table}", table);
        Object inside;
        try (Connection own = client.another()) {
            own.setAutoCommit(false);
            try (Statement statement = own.createStatement()) {
                for (JsonNode text : order.get("statements")) {
                    statement.executeUpdate(text.asText().replace("{table}", table));
                }
            }
            inside = Client.fetch(own, read);
            if (end.equals("commit")) {
                own.commit();
            } else {
                own.rollback();
            }
        }
        return Map.of("inside", inside, "after", client.fetch(read));
    }

    private static Object errors(Client client) throws SQLException {
        JsonNode order = client.expected.get("errors");
        String then = order.at("/then/sql").asText();
        List<Object> seen = new ArrayList<>();
        try (Connection reader = client.reader()) {
            for (JsonNode one : order.get("cases")) {
                boolean granted = one.get("login").asText().equals("administrator");
                Connection connection = granted ? client.connection : reader;
                SQLServerException error = error(connection, one.get("sql").asText());
                Map<String, Object> found = new LinkedHashMap<>();
                found.put("name", one.get("name").asText());
                found.put("number", error.getErrorCode());
                found.put("severity", error.getSQLServerError().getErrorSeverity());
                found.put("text", error.getMessage());
                found.put("then", Client.fetch(connection, then));
                seen.add(found);
            }
        }
        return seen;
    }

    /** The server's error that a statement ends with. */
    static SQLServerException error(Connection connection, String text) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            readAll(statement, text);
        } catch (SQLServerException error) {
            return error;
        }
        throw new IllegalStateException("no error: " + text);
    }

    /** Every row of every result: the driver drops the error of rows that nobody reads. */
    private static void readAll(Statement statement, String text) throws SQLException {
        boolean more = statement.execute(text);
        while (more || statement.getUpdateCount() != -1) {
            if (more) {
                Canonical.rows(statement.getResultSet());
            }
            more = statement.getMoreResults();
        }
    }

    private static Object cancel(Client client) throws SQLException {
        JsonNode order = client.expected.get("cancel");
        long after = (long) (order.get("after_seconds").asDouble() * 1000);
        List<Object> seen = new ArrayList<>();
        for (JsonNode text : order.get("statements")) {
            long began = System.nanoTime();
            boolean cancelled = cancelled(client.connection, text.asText(), after);
            double seconds = (System.nanoTime() - began) / 1e9;
            Object then = client.fetch(order.at("/then/sql").asText());
            seen.add(Map.of("cancelled", cancelled, "seconds", seconds, "then", then));
        }
        return seen;
    }

    private static boolean cancelled(Connection connection, String text, long milliseconds)
            throws SQLException {
        ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor();
        try (Statement statement = connection.createStatement()) {
            timer.schedule(
                    () -> {
                        statement.cancel();
                        return null;
                    },
                    milliseconds,
                    TimeUnit.MILLISECONDS);
            readAll(statement, text);
            return false;
        } catch (SQLException error) {
            return error.getMessage().contains("canceled");
        } finally {
            timer.shutdownNow();
        }
    }

    private static Object severalResultSets(Client client) throws SQLException {
        List<Object> sets = new ArrayList<>();
        List<Object> columns = new ArrayList<>();
        String text = client.expected.at("/several_result_sets/sql").asText();
        try (Statement statement = client.connection.createStatement()) {
            boolean more = statement.execute(text);
            while (more) {
                try (ResultSet rows = statement.getResultSet()) {
                    columns.add(labels(rows.getMetaData()));
                    sets.add(Canonical.rows(rows));
                }
                more = statement.getMoreResults();
            }
        }
        return Map.of("sets", sets, "columns", columns);
    }

    private static List<String> labels(ResultSetMetaData described) throws SQLException {
        List<String> labels = new ArrayList<>();
        for (int column = 1; column <= described.getColumnCount(); column++) {
            labels.add(described.getColumnLabel(column));
        }
        return labels;
    }

    private static Object rowCounts(Client client) throws SQLException {
        String table = client.scratch("row_counts");
        List<Integer> counts = new ArrayList<>();
        try (Statement statement = client.connection.createStatement()) {
            for (String text : client.fields("/row_counts", "sql")) {
                counts.add(statement.executeUpdate(text.replace("{table}", table)));
            }
        }
        return counts;
    }

    /** Writes a text through a parameter and reads it back. */
    private static List<String> written(
            Client client, JsonNode order, String table, int id, String text) throws SQLException {
        String insert = order.get("insert").asText().replace("{table}", table);
        try (PreparedStatement statement = client.prepare(insert)) {
            statement.setInt(1, id);
            statement.setString(2, text);
            statement.executeUpdate();
        }
        String read = order.get("read").asText().replace("{table}", table);
        try (PreparedStatement statement = client.prepare(read)) {
            statement.setInt(1, id);
            try (ResultSet rows = statement.executeQuery()) {
                return Canonical.rows(rows).get(0);
            }
        }
    }

    private static Object unicode(Client client) throws SQLException {
        String table = client.scratch("unicode");
        JsonNode order = client.expected.get("unicode");
        List<Object> seen = new ArrayList<>();
        for (JsonNode one : order.get("texts")) {
            String text = one.get("text").asText();
            List<String> read = written(client, order, table, seen.size(), text);
            String literal =
                    order.get("literal").asText().replace("{text}", text.replace("'", "''"));
            seen.add(Map.of("read", read, "literal", client.fetch(literal).get(0).get(0)));
        }
        return seen;
    }

    private static Object longText(Client client) throws SQLException {
        String table = client.scratch("long_text");
        JsonNode order = client.expected.get("long_text");
        List<Object> seen = new ArrayList<>();
        for (JsonNode count : order.get("characters")) {
            String repeated = order.get("unit").asText().repeat(count.asInt());
            String text = repeated.substring(0, count.asInt());
            seen.add(written(client, order, table, seen.size(), text));
        }
        return seen;
    }

    private static Object nulls(Client client) throws SQLException {
        String table = client.scratch("nulls");
        JsonNode order = client.expected.get("nulls");
        String insert = order.get("insert").asText().replace("{table}", table);
        try (PreparedStatement statement = client.prepare(insert)) {
            Client.bind(statement, order.get("values"));
            statement.executeUpdate();
        }
        return client.fetch(order.get("read").asText().replace("{table}", table)).get(0);
    }
}
