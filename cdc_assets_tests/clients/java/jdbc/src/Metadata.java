import java.sql.DatabaseMetaData;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** What DatabaseMetaData tells of one table. */
final class Metadata {
    private static final String TABLE = "client_captured";

    private Metadata() {}

    static Map<String, Main.Check> all() {
        Map<String, Main.Check> checks = new LinkedHashMap<>();
        checks.put("jdbc_catalogs", client -> found(catalogs(client), "TABLE_CAT"));
        checks.put("jdbc_schemas", client -> found(of(client).getSchemas(), "TABLE_SCHEM"));
        checks.put("jdbc_tables", Metadata::tables);
        checks.put("jdbc_columns", Metadata::columns);
        checks.put("jdbc_primary_key", Metadata::primaryKey);
        checks.put("jdbc_indexes", Metadata::indexes);
        checks.put("jdbc_foreign_keys", Metadata::foreignKeys);
        checks.put("jdbc_type_info", client -> found(of(client).getTypeInfo(), "TYPE_NAME"));
        checks.put("jdbc_product", Metadata::product);
        return checks;
    }

    private static DatabaseMetaData of(Client client) throws SQLException {
        return client.connection.getMetaData();
    }

    private static ResultSet catalogs(Client client) throws SQLException {
        return of(client).getCatalogs();
    }

    private static List<List<String>> found(ResultSet rows, String... columns)
            throws SQLException {
        List<List<String>> found = new ArrayList<>();
        try (rows) {
            while (rows.next()) {
                List<String> row = new ArrayList<>();
                for (String column : columns) {
                    row.add(rows.getString(column));
                }
                found.add(row);
            }
        }
        return found;
    }

    private static Object tables(Client client) throws SQLException {
        ResultSet rows =
                of(client).getTables(null, "dbo", "client[_]%", new String[] {"TABLE", "VIEW"});
        return found(rows, "TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE");
    }

    private static Object columns(Client client) throws SQLException {
        return found(
                of(client).getColumns(Client.env("DATABASE"), "dbo", TABLE, null),
                "COLUMN_NAME",
                "DATA_TYPE",
                "TYPE_NAME",
                "COLUMN_SIZE",
                "DECIMAL_DIGITS",
                "IS_NULLABLE",
                "COLUMN_DEF",
                "IS_AUTOINCREMENT",
                "IS_GENERATEDCOLUMN",
                "ORDINAL_POSITION");
    }

    private static Object primaryKey(Client client) throws SQLException {
        return found(
                of(client).getPrimaryKeys(null, "dbo", TABLE), "COLUMN_NAME", "KEY_SEQ", "PK_NAME");
    }

    private static Object indexes(Client client) throws SQLException {
        return found(
                of(client).getIndexInfo(null, "dbo", TABLE, false, false),
                "NON_UNIQUE",
                "INDEX_NAME",
                "TYPE",
                "ORDINAL_POSITION",
                "COLUMN_NAME",
                "ASC_OR_DESC");
    }

    private static Object foreignKeys(Client client) throws SQLException {
        return found(
                of(client).getImportedKeys(null, "dbo", "client_child"),
                "FKCOLUMN_NAME",
                "PKTABLE_NAME",
                "PKCOLUMN_NAME",
                "UPDATE_RULE",
                "FK_NAME");
    }

    private static Object product(Client client) throws SQLException {
        DatabaseMetaData described = of(client);
        return Map.of(
                "name", described.getDatabaseProductName(),
                "major", described.getDatabaseMajorVersion(),
                "user", described.getUserName());
    }
}
