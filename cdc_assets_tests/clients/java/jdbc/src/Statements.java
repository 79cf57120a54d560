import com.microsoft.sqlserver.jdbc.SQLServerStatement;
import java.math.BigDecimal;
import java.sql.BatchUpdateException;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.ParameterMetaData;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.SQLTimeoutException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** What JDBC alone has: handles, batches, generated keys, savepoints, cursors, time-outs. */
final class Statements {
    private static final int RUNS = 5;
    private static final String PEOPLE = "SELECT id FROM dbo.client_people ORDER BY id";

    private Statements() {}

    static Map<String, Main.Check> all() {
        Map<String, Main.Check> checks = new LinkedHashMap<>();
        checks.put("jdbc_strict_tls", Statements::strictTls);
        checks.put("jdbc_sqlstates", Statements::sqlstates);
        checks.put("jdbc_prepared_handle", Statements::preparedHandle);
        checks.put("jdbc_typed_parameters", Statements::typedParameters);
        checks.put("jdbc_parameter_metadata", Statements::parameterMetadata);
        checks.put("jdbc_batch", Statements::batch);
        checks.put("jdbc_batch_error", Statements::batchError);
        checks.put("jdbc_generated_keys", Statements::generatedKeys);
        checks.put("jdbc_isolation", Statements::isolation);
        checks.put("jdbc_server_cursor", Statements::serverCursor);
        checks.put("jdbc_scrolling", Statements::scrolling);
        checks.put("jdbc_query_timeout", Statements::queryTimeout);
        checks.put("jdbc_procedure", Statements::procedure);
        checks.put("jdbc_adaptive_rows", Statements::adaptiveRows);
        return checks;
    }

    private static Object strictTls(Client client) throws SQLException {
        Map<String, String> options = client.verified(Map.of("encrypt", "strict"));
        try (Connection strict = client.administrator(options)) {
            return Client.fetch(strict, "SELECT 1");
        }
    }

    private static Object sqlstates(Client client) throws SQLException {
        Map<String, String> states = new LinkedHashMap<>();
        try (Connection connection =
                client.administrator(client.verified(Map.of("xopenStates", "false")))) {
            for (String text : client.fields("/errors/cases", "sql")) {
                if (!text.contains("client_secret")) {
                    states.put(text, Checks.error(connection, text).getSQLState());
                }
            }
        }
        return states;
    }

    /** The third run and those after it use the handle that the second one got. */
    private static Object preparedHandle(Client client) throws SQLException {
        List<List<String>> seen = new ArrayList<>();
        String text = "SELECT ? + 1, CAST(? AS nvarchar(20))";
        try (PreparedStatement statement = client.connection.prepareStatement(text)) {
            for (int run = 0; run < RUNS; run++) {
                statement.setInt(1, run);
                statement.setString(2, run % 2 == 0 ? "even" : null);
                try (ResultSet rows = statement.executeQuery()) {
                    seen.addAll(Canonical.rows(rows));
                }
            }
        }
        return seen;
    }

    private static Object typedParameters(Client client) throws SQLException {
        String text =
                "SELECT ?, ?, ?, ?, ?, ?, ?, ?, CONVERT(varchar(40), ?, 121), "
                        + "CONVERT(varchar(40), ?, 114), ?";
        try (PreparedStatement statement = client.connection.prepareStatement(text)) {
            statement.setBoolean(1, true);
            statement.setShort(2, (short) -3);
            statement.setLong(3, Long.MIN_VALUE);
            statement.setBigDecimal(4, new BigDecimal("-12345678901234567890.123"));
            statement.setDouble(5, 0.5);
            statement.setFloat(6, 0.25f);
            statement.setBytes(7, new byte[] {0, 1, (byte) 255});
            statement.setDate(8, java.sql.Date.valueOf("2026-11-30"));
            statement.setTimestamp(9, Timestamp.valueOf("2026-11-30 12:34:56.1234567"));
            statement.setObject(10, java.time.LocalTime.of(1, 2, 3, 450_000_000));
            statement.setNull(11, Types.INTEGER);
            try (ResultSet rows = statement.executeQuery()) {
                return Canonical.rows(rows).get(0);
            }
        }
    }

    private static Object parameterMetadata(Client client) throws SQLException {
        String text = "SELECT name FROM dbo.client_people WHERE id = ? AND name = ?";
        List<String> names = new ArrayList<>();
        try (PreparedStatement statement = client.connection.prepareStatement(text)) {
            ParameterMetaData described = statement.getParameterMetaData();
            for (int place = 1; place <= described.getParameterCount(); place++) {
                names.add(described.getParameterTypeName(place));
            }
        }
        return names;
    }

    private static PreparedStatement filled(Connection connection, String table, int... ids)
            throws SQLException {
        PreparedStatement statement =
                connection.prepareStatement("INSERT INTO " + table + " (id, name) VALUES (?, ?)");
        for (int id : ids) {
            statement.setInt(1, id);
            statement.setString(2, "n" + id);
            statement.addBatch();
        }
        return statement;
    }

    private static Object batch(Client client) throws SQLException {
        String table = client.scratch("batch");
        try (PreparedStatement statement = filled(client.connection, table, 1, 2, 3);
                Statement plain = client.connection.createStatement()) {
            int[] prepared = statement.executeBatch();
            plain.addBatch("UPDATE " + table + " SET name = N'x' WHERE id > 1");
            plain.addBatch("DELETE FROM " + table + " WHERE id = 1");
            int[] counts = plain.executeBatch();
            String read = "SELECT id, name FROM " + table + " ORDER BY id";
            return Map.of("prepared", prepared, "plain", counts, "rows", client.fetch(read));
        }
    }

    private static Object batchError(Client client) throws SQLException {
        String table = client.scratch("batch_error");
        try (PreparedStatement statement = filled(client.connection, table, 1, 2, 2, 3)) {
            statement.executeBatch();
            return "no error";
        } catch (BatchUpdateException error) {
            String read = "SELECT id FROM " + table + " ORDER BY id";
            return Map.of(
                    "number", error.getErrorCode(),
                    "counts", error.getUpdateCounts(),
                    "rows", client.fetch(read));
        }
    }

    private static Object generatedKeys(Client client) throws SQLException {
        client.execute(
                "CREATE TABLE dbo.jdbc_keys (id int IDENTITY(10, 5) PRIMARY KEY, name nvarchar(9))");
        List<Long> keys = new ArrayList<>();
        String text = "INSERT INTO dbo.jdbc_keys (name) VALUES (?)";
        try (PreparedStatement statement =
                client.connection.prepareStatement(text, Statement.RETURN_GENERATED_KEYS)) {
            for (int run = 0; run < RUNS; run++) {
                statement.setString(1, "n" + run);
                statement.executeUpdate();
                try (ResultSet rows = statement.getGeneratedKeys()) {
                    while (rows.next()) {
                        keys.add(rows.getLong(1));
                    }
                }
            }
        }
        return keys;
    }

    private static Object isolation(Client client) throws SQLException {
        List<String> levels = new ArrayList<>();
        try (Connection own = client.another()) {
            for (int level : new int[] {1, 2, 4, 8}) {
                own.setTransactionIsolation(level);
                levels.add(own.getTransactionIsolation() + "");
                levels.addAll(
                        Client.fetch(
                                        own,
                                        "SELECT transaction_isolation_level FROM"
                                                + " sys.dm_exec_sessions WHERE session_id = @@SPID")
                                .get(0));
            }
        }
        return levels;
    }

    /** Two rows a fetch; the statement is prepared with its first run and run by its handle. */
    private static Object serverCursor(Client client) throws SQLException {
        Map<String, String> options = client.verified(Map.of("selectMethod", "cursor"));
        List<Object> seen = new ArrayList<>();
        String text = "SELECT id, name FROM dbo.client_people WHERE id >= ? ORDER BY id";
        try (Connection own = client.administrator(options);
                PreparedStatement statement = own.prepareStatement(text)) {
            statement.setFetchSize(2);
            for (int run = 1; run <= RUNS; run++) {
                statement.setInt(1, run);
                try (ResultSet rows = statement.executeQuery()) {
                    seen.add(Canonical.rows(rows));
                }
            }
        }
        return seen;
    }

    private static Object scrolling(Client client) throws SQLException {
        List<Integer> seen = new ArrayList<>();
        try (Statement statement =
                client.connection.createStatement(
                        ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_READ_ONLY)) {
            statement.setFetchSize(2);
            try (ResultSet rows = statement.executeQuery(PEOPLE)) {
                rows.last();
                seen.add(rows.getInt(1));
                seen.add(rows.getRow());
                rows.previous();
                seen.add(rows.getInt(1));
                rows.absolute(-3);
                seen.add(rows.getInt(1));
                seen.add(rows.relative(2) ? rows.getInt(1) : 0);
                seen.add(rows.next() ? 1 : 0);
                rows.beforeFirst();
                while (rows.next()) {
                    seen.add(rows.getInt(1));
                }
            }
        }
        return seen;
    }

    private static Object queryTimeout(Client client) throws SQLException {
        long began = System.nanoTime();
        boolean timedOut = false;
        String state = "";
        try (Statement statement = client.connection.createStatement()) {
            statement.setQueryTimeout(1);
            statement.execute("WAITFOR DELAY '00:00:30'");
        } catch (SQLTimeoutException error) {
            timedOut = true;
            state = error.getSQLState();
        }
        boolean soon = System.nanoTime() - began < 5_000_000_000L;
        List<List<String>> then = client.fetch("SELECT 1");
        return Map.of("timed_out", timedOut, "soon", soon, "state", state, "then", then);
    }

    private static Object procedure(Client client) throws SQLException {
        String call = "{? = call sys.sp_cdc_help_change_data_capture(?, ?)}";
        try (CallableStatement statement = client.connection.prepareCall(call)) {
            statement.registerOutParameter(1, Types.INTEGER);
            statement.setString(2, "dbo");
            statement.setString(3, "client_captured");
            List<String> names = new ArrayList<>();
            try (ResultSet rows = statement.executeQuery()) {
                while (rows.next()) {
                    names.add(rows.getString("capture_instance"));
                }
            }
            return Map.of("status", statement.getInt(1), "instances", names);
        }
    }

    /** More rows than one packet holds, another statement between them. */
    private static Object adaptiveRows(Client client) throws SQLException {
        String text =
                "SELECT a.name, b.name FROM sys.types AS a CROSS JOIN sys.types AS b"
                        + " CROSS JOIN sys.types AS c";
        int count = 0;
        try (Statement statement = client.connection.createStatement()) {
            ((SQLServerStatement) statement).setResponseBuffering("adaptive");
            try (ResultSet rows = statement.executeQuery(text)) {
                while (rows.next()) {
                    if (count == 100) {
                        client.fetch("SELECT 1");
                    }
                    count++;
                }
            }
        }
        return count;
    }
}
