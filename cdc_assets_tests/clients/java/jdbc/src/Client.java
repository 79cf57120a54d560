import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/** What every check needs: the orders of expected.json, where the server is, a connection. */
final class Client implements AutoCloseable {
    private static final String STORE_PASSWORD = "changeit";

    final JsonNode expected;
    final Connection connection;
    private final Map<String, String> verified;

    Client() throws Exception {
        expected = new ObjectMapper().readTree(new File(env("EXPECTED")));
        verified = verified(env("CA_FILE"));
        connection = administrator(verified);
    }

    static String env(String name) {
        return System.getenv("CLIENT_" + name);
    }

    private static Map<String, String> verified(String authority)
            throws IOException, GeneralSecurityException {
        Path file = Files.createTempFile("trust", ".p12");
        file.toFile().deleteOnExit();
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        try (InputStream in = Files.newInputStream(Path.of(authority));
                OutputStream out = Files.newOutputStream(file)) {
            CertificateFactory factory = CertificateFactory.getInstance("X.509");
            store.setCertificateEntry("authority", factory.generateCertificate(in));
            store.store(out, STORE_PASSWORD.toCharArray());
        }
        return Map.of(
                "encrypt", "true",
                "hostNameInCertificate", "localhost",
                "trustStore", file.toString(),
                "trustStorePassword", STORE_PASSWORD);
    }

    /** The options of a connection that verifies the server's certificate, and some more. */
    Map<String, String> verified(Map<String, String> more) {
        Map<String, String> options = new HashMap<>(verified);
        options.putAll(more);
        return options;
    }

    Connection administrator(Map<String, String> options) throws SQLException {
        return open(env("USER"), env("PASSWORD"), options);
    }

    /** One more connection as the administrator. */
    Connection another() throws SQLException {
        return administrator(verified);
    }

    Connection reader() throws SQLException {
        return open(env("READER"), env("READER_PASSWORD"), verified);
    }

    static Connection open(String user, String password, Map<String, String> options)
            throws SQLException {
        Properties properties = new Properties();
        properties.put("user", user);
        properties.put("password", password);
        properties.put("databaseName", env("DATABASE"));
        properties.putAll(options);
        return DriverManager.getConnection(
                "jdbc:sqlserver://" + env("HOST") + ":" + env("PORT"), properties);
    }

    /** A table for one check's own writing, by its name. */
    String scratch(String check) throws SQLException {
        String table = "dbo.jdbc_" + check;
        execute(expected.at("/scratch/create").asText().replace("{table}", table));
        return table;
    }

    void execute(String text) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(text);
        }
    }

    List<List<String>> fetch(String text) throws SQLException {
        return fetch(connection, text);
    }

    static List<List<String>> fetch(Connection connection, String text) throws SQLException {
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(text)) {
            return Canonical.rows(rows);
        }
    }

    /** A statement of expected.json with the driver's parameter marks. */
    PreparedStatement prepare(String text) throws SQLException {
        return connection.prepareStatement(text.replaceAll("\\{\\d\\}", "?"));
    }

    static void bind(PreparedStatement statement, Iterable<JsonNode> values) throws SQLException {
        int place = 0;
        for (JsonNode value : values) {
            place++;
            if (value.isNull()) {
                statement.setNull(place, Types.NVARCHAR);
            } else if (value.isNumber()) {
                statement.setInt(place, value.asInt());
            } else {
                statement.setString(place, value.asText());
            }
        }
    }

    List<List<String>> query(String text, Iterable<JsonNode> values) throws SQLException {
        try (PreparedStatement statement = prepare(text)) {
            bind(statement, values);
            try (ResultSet rows = statement.executeQuery()) {
                return Canonical.rows(rows);
            }
        }
    }

    List<String> fields(String pointer, String field) {
        List<String> found = new ArrayList<>();
        for (JsonNode node : expected.at(pointer)) {
            if (node.has(field)) {
                found.add(node.get(field).asText());
            }
        }
        return found;
    }

    @Override
    public void close() throws SQLException {
        connection.close();
    }
}
