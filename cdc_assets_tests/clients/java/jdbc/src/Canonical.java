import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Types;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import microsoft.sql.DateTimeOffset;

/** Values as the canonical text of expected.json. */
final class Canonical {
    private Canonical() {}

    static List<List<String>> rows(ResultSet set) throws SQLException {
        List<List<String>> rows = new ArrayList<>();
        int width = set.getMetaData().getColumnCount();
        while (set.next()) {
            List<String> row = new ArrayList<>();
            for (int column = 1; column <= width; column++) {
                row.add(text(set, column));
            }
            rows.add(row);
        }
        return rows;
    }

    private static String text(ResultSet set, int column) throws SQLException {
        if (set.getObject(column) == null) {
            return null;
        }
        ResultSetMetaData described = set.getMetaData();
        int digits = described.getScale(column);
        switch (described.getColumnType(column)) {
            case Types.BIT:
                return set.getBoolean(column) ? "1" : "0";
            case Types.DECIMAL:
            case Types.NUMERIC:
                return set.getBigDecimal(column).toPlainString();
            case Types.DATE:
                return set.getObject(column, LocalDate.class).toString();
            case Types.TIME:
                return set.getObject(column, LocalTime.class).format(clock("", digits));
            case Types.TIMESTAMP:
                LocalDateTime at = set.getObject(column, LocalDateTime.class);
                return at.format(clock("yyyy-MM-dd'T'", digits));
            case microsoft.sql.Types.DATETIMEOFFSET:
                OffsetDateTime zoned =
                        set.getObject(column, DateTimeOffset.class).getOffsetDateTime();
                return zoned.format(clock("yyyy-MM-dd'T'", digits)) + zoned.getOffset();
            case Types.BINARY:
            case Types.VARBINARY:
            case Types.LONGVARBINARY:
                return "0x" + HexFormat.of().withUpperCase().formatHex(set.getBytes(column));
            default:
                return set.getString(column);
        }
    }

    private static DateTimeFormatter clock(String date, int digits) {
        String fraction = digits > 0 ? "." + "S".repeat(digits) : "";
        return DateTimeFormatter.ofPattern(date + "HH:mm:ss" + fraction);
    }
}
