import com.fasterxml.jackson.databind.JsonNode;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Types;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The checks of programs in other languages alone: values written, given back and undone. */
final class Written {
    private Written() {}

    static Map<String, Main.Check> all() {
        Map<String, Main.Check> checks = new LinkedHashMap<>();
        checks.put("types_written", Written::typesWritten);
        checks.put("output_parameters", Written::outputParameters);
        checks.put("savepoint", Written::savepoint);
        return checks;
    }

    /** A time goes as a time: by default the driver makes it a datetime. */
    private static Object typesWritten(Client client) throws SQLException {
        String table = "dbo.jdbc_types";
        String source = client.expected.at("/types/table").asText();
        client.execute(client.expected.at("/types/ddl").asText().replace(source, table));
        List<String> names = client.fields("/types/columns", "name");
        String columns = String.join(", ", names);
        String marks = String.join(", ", Collections.nCopies(names.size() + 1, "?"));
        String insert =
                client.expected
                        .at("/types_written/insert")
                        .asText()
                        .replace("{table}", table)
                        .replace("{columns}", columns)
                        .replace("{values}", marks);
        Map<String, String> options = client.verified(Map.of("sendTimeAsDatetime", "false"));
        try (Connection own = client.administrator(options);
                PreparedStatement statement = own.prepareStatement(insert);
                Statement read = client.connection.createStatement();
                ResultSet rows =
                        read.executeQuery(
                                "SELECT id, " + columns + " FROM " + source + " ORDER BY id")) {
            while (rows.next()) {
                for (int place = 1; place <= names.size() + 1; place++) {
                    copy(rows, place, statement);
                }
                statement.executeUpdate();
            }
        }
        String texts = String.join(", ", client.fields("/types/columns", "text"));
        return client.fetch("SELECT " + texts + " FROM " + table + " ORDER BY id");
    }

    private static void copy(ResultSet rows, int place, PreparedStatement statement)
            throws SQLException {
        ResultSetMetaData described = rows.getMetaData();
        int type = described.getColumnType(place);
        if (rows.getObject(place) == null) {
            statement.setNull(place, type);
            return;
        }
        switch (type) {
            case Types.DATE:
                statement.setObject(place, rows.getObject(place, LocalDate.class));
                break;
            case Types.TIME:
                statement.setObject(place, rows.getObject(place, LocalTime.class));
                break;
            case Types.TIMESTAMP:
                statement.setObject(place, rows.getObject(place, LocalDateTime.class));
                break;
            default:
                statement.setObject(place, rows.getObject(place));
        }
    }

    private static Object outputParameters(Client client) throws SQLException {
        JsonNode order = client.expected.get("output_parameters");
        String call = "{call sp_executesql(?, ?, ?, ?, ?)}";
        try (CallableStatement statement = client.connection.prepareCall(call)) {
            statement.setString(1, order.get("sql").asText());
            statement.setString(2, "@a int, @b int OUTPUT, @s nvarchar(20) OUTPUT");
            statement.setInt(3, order.at("/in/a").asInt());
            statement.registerOutParameter(4, Types.INTEGER);
            statement.setString(5, order.at("/in/s").asText());
            statement.registerOutParameter(5, Types.NVARCHAR);
            statement.execute();
            return Map.of("b", statement.getString(4), "s", statement.getString(5));
        }
    }

    private static Object savepoint(Client client) throws SQLException {
        String table = client.scratch("savepoint");
        JsonNode order = client.expected.get("savepoint");
        try (Connection own = client.another();
                Statement statement = own.createStatement()) {
            own.setAutoCommit(false);
            statement.executeUpdate(order.get("kept").asText().replace("{table}", table));
            Savepoint here = own.setSavepoint("here");
            statement.executeUpdate(order.get("undone").asText().replace("{table}", table));
            own.rollback(here);
            own.commit();
        }
        return client.fetch(order.get("read").asText().replace("{table}", table));
    }
}
