"""T-SQL's types: how they are written, ranked, and stored in DuckDB."""

from __future__ import annotations

from cdc_assets.sandbox.language import errors
from cdc_assets.sandbox.results import DEFAULT_COLLATION, MAX_LENGTH, SqlError, SqlType

BIT = SqlType("bit")
TINYINT = SqlType("tinyint")
SMALLINT = SqlType("smallint")
INT = SqlType("int")
BIGINT = SqlType("bigint")
FLOAT = SqlType("float")
REAL = SqlType("real")
DATE = SqlType("date")
DATETIME = SqlType("datetime")
MONEY = SqlType("money")
UNIQUEIDENTIFIER = SqlType("uniqueidentifier")

# SQL Server's data type precedence, highest first.
PRECEDENCE = (
    "xml",
    "datetimeoffset",
    "datetime2",
    "datetime",
    "smalldatetime",
    "date",
    "time",
    "float",
    "real",
    "decimal",
    "numeric",
    "money",
    "smallmoney",
    "bigint",
    "int",
    "smallint",
    "tinyint",
    "bit",
    "ntext",
    "text",
    "image",
    "rowversion",
    "uniqueidentifier",
    "nvarchar",
    "nchar",
    "varchar",
    "char",
    "varbinary",
    "binary",
)
RANK = {name: len(PRECEDENCE) - i for i, name in enumerate(PRECEDENCE)}

INTEGERS = frozenset({"bit", "tinyint", "smallint", "int", "bigint"})
DECIMALS = frozenset({"decimal", "numeric"})
MONEYS = frozenset({"money", "smallmoney"})
FLOATS = frozenset({"float", "real"})
NUMBERS = INTEGERS | DECIMALS | MONEYS | FLOATS
NATIONAL = frozenset({"nvarchar", "nchar", "ntext"})
NARROW = frozenset({"varchar", "char", "text"})
STRINGS = NATIONAL | NARROW
BINARIES = frozenset({"binary", "varbinary", "image", "rowversion"})
TICKED = frozenset({"datetime", "smalldatetime", "datetime2"})
TIMES = TICKED | {"date", "time", "datetimeoffset"}
LOBS = frozenset({"text", "ntext", "image", "xml"})

_SIMPLE = (
    INTEGERS
    | MONEYS
    | {
        "real",
        "date",
        "datetime",
        "smalldatetime",
        "text",
        "ntext",
        "image",
        "xml",
        "uniqueidentifier",
        "rowversion",
    }
)
_SYNONYMS = {
    "integer": "int",
    "dec": "decimal",
    "timestamp": "rowversion",
    "character": "char",
    "charvarying": "varchar",
    "sysname": "nvarchar",
}
OPAQUE = ("sql_variant", "geography", "geometry", "hierarchyid")
"""Types that a column may have here and whose values only NULL is known of."""

UNKNOWN = SqlType("?")
"""Of a column whose type is an alias's, until that is looked up."""

_UNSUPPORTED = frozenset({"sql_variant", "geography", "geometry", "hierarchyid", "vector", "json"})


def is_built_in(name: str) -> bool:
    """Whether it begins a built-in type's name."""
    lower = name.lower()
    return (
        lower in RANK
        or lower in _SYNONYMS
        or lower in _UNSUPPORTED
        or lower in ("double", "national")
    )


def varchar(length: int, collation: str = DEFAULT_COLLATION) -> SqlType:
    """varchar(n); MAX_LENGTH for (max)."""
    return SqlType("varchar", length=length, collation=collation)


def nvarchar(length: int, collation: str = DEFAULT_COLLATION) -> SqlType:
    """nvarchar(n); MAX_LENGTH for (max)."""
    return SqlType("nvarchar", length=length, collation=collation)


def decimal(precision: int, scale: int, name: str = "decimal") -> SqlType:
    """decimal(p, s)."""
    return SqlType(name, precision=precision, scale=scale)


def binary(length: int) -> SqlType:
    """binary(n)."""
    return SqlType("binary", length=length)


def varbinary(length: int) -> SqlType:
    """varbinary(n)."""
    return SqlType("varbinary", length=length)


def datetime2(scale: int = 7) -> SqlType:
    """datetime2(s)."""
    return SqlType("datetime2", scale=scale)


SYSNAME = nvarchar(128)


def make(name: str, arguments: tuple[int, ...], *, cast: bool = False) -> SqlType:
    """The type that `name(arguments)` writes; `cast` for CAST's default length of 30.

    Raises `SqlError` 243 or 2715 for an unknown type; 291 or 2716, 1001, 2750, 183 or 192 and 131
    for wrong arguments: CAST and a definition have numbers of their own.
    """
    lower = name.lower()
    if lower == "sysname":
        return SYSNAME
    lower = _SYNONYMS.get(lower, lower)
    if lower in _UNSUPPORTED:
        raise errors.unsupported(f"Data type {lower}")
    if lower in _SIMPLE:
        if arguments:
            raise _widthless(lower, cast=cast)
        return SqlType(lower, collation=DEFAULT_COLLATION if lower in STRINGS else None)
    if lower == "float":
        return REAL if arguments and arguments[0] <= 24 else FLOAT
    if lower in DECIMALS:
        return _decimal(lower, arguments, cast=cast)
    if lower in {"time", "datetime2", "datetimeoffset"}:
        scale = arguments[0] if arguments else 7
        if not 0 <= scale <= 7:
            raise SqlError(1002, f"Line 1: Specified scale {scale} is invalid.", 15)
        return SqlType(lower, scale=scale)
    if lower in {"char", "varchar", "nchar", "nvarchar", "binary", "varbinary"}:
        return _sized(lower, arguments, 30 if cast else 1)
    if cast:
        raise SqlError(243, f"Type {name} is not a defined system type.")
    raise SqlError(2715, f"Column, parameter, or variable #1: Cannot find data type {name}.")


def _widthless(name: str, *, cast: bool) -> SqlError:
    if cast:
        return SqlError(291, f"CAST or CONVERT: invalid attributes specified for type '{name}'")
    return SqlError(
        2716,
        f"Column, parameter, or variable #1: Cannot specify a column width on data type {name}.",
    )


def _invalid_length(length: int) -> SqlError:
    return SqlError(1001, f"Line 1: Length or precision specification {length} is invalid.", 15)


def _decimal(name: str, arguments: tuple[int, ...], *, cast: bool) -> SqlType:
    precision, scale = (*arguments, *(18, 0)[len(arguments) :])[:2]
    if precision > 38 and not cast:
        raise SqlError(
            2750,
            f"Column or parameter #1: Specified column precision {precision} is greater than the "
            "maximum precision of 38.",
        )
    if not 1 <= precision <= 38:
        raise _invalid_length(precision)
    if not 0 <= scale <= precision:
        if cast:
            raise SqlError(192, "The scale must be less than or equal to the precision.")
        raise SqlError(183, f"The scale ({scale}) must be within the range 0 to {precision}.", 15)
    return decimal(precision, scale, name)


def _sized(name: str, arguments: tuple[int, ...], default: int) -> SqlType:
    length = arguments[0] if arguments else default
    limit = 4000 if name in NATIONAL else 8000
    fixed = name in {"char", "nchar", "binary"}
    if length == MAX_LENGTH and fixed:
        raise errors.syntax("max")
    if length != MAX_LENGTH and length < 1:
        raise _invalid_length(length)
    if length > limit:
        raise SqlError(
            131,
            f"The size ({length}) given to the type '{name}' exceeds the maximum allowed for any "
            f"data type ({limit}).",
            15,
        )
    return SqlType(name, length=length, collation=DEFAULT_COLLATION if name in STRINGS else None)


def physical(kind: SqlType) -> str:
    """The DuckDB type in which values of it are stored and computed."""
    name = kind.name
    fixed = {
        "bit": "BOOLEAN",
        "tinyint": "UTINYINT",
        "smallint": "SMALLINT",
        "int": "INTEGER",
        "bigint": "BIGINT",
        "real": "FLOAT",
        "float": "DOUBLE",
        "money": "DECIMAL(19,4)",
        "smallmoney": "DECIMAL(10,4)",
        "date": "DATE",
        "time": "BIGINT",
        "datetimeoffset": "STRUCT(ticks BIGINT, offset_minutes SMALLINT)",
    }
    if name in fixed:
        return fixed[name]
    if name in DECIMALS:
        return f"DECIMAL({kind.precision},{kind.scale})"
    if name in TICKED:
        return "BIGINT"
    if name in BINARIES:
        return "BLOB"
    return "VARCHAR"


def is_max(kind: SqlType) -> bool:
    """Whether it is a (max) or LOB type."""
    return kind.length == MAX_LENGTH or kind.name in LOBS


def fractional_digits(kind: SqlType) -> int:
    """Digits of a second that a time type keeps."""
    return {"datetime": 3, "smalldatetime": 0}.get(kind.name, kind.scale or 0)


def as_decimal(kind: SqlType) -> SqlType:
    """The decimal type that holds every value of an exact number type."""
    digits = {"bit": 1, "tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
    if kind.name in digits:
        return decimal(digits[kind.name], 0)
    if kind.name == "money":
        return decimal(19, 4)
    if kind.name == "smallmoney":
        return decimal(10, 4)
    return decimal(kind.precision or 18, kind.scale or 0)


def common(left: SqlType, right: SqlType) -> SqlType:
    """The type of `CASE WHEN … THEN left ELSE right END`, and of UNION's columns."""
    if left == right:
        return left
    high, low = (left, right) if RANK[left.name] >= RANK[right.name] else (right, left)
    if high.name in DECIMALS and low.name in NUMBERS:
        low = as_decimal(low)
        scale = max(high.scale or 0, low.scale or 0)
        whole = max(
            (high.precision or 0) - (high.scale or 0), (low.precision or 0) - (low.scale or 0)
        )
        precision = min(38, whole + scale)
        return decimal(precision, min(scale, precision - min(whole, precision)), high.name)
    if high.name in STRINGS and low.name in STRINGS | {"uniqueidentifier"}:
        return _common_string(high, low)
    if high.name in {"varbinary", "binary"} and low.name in {"varbinary", "binary"}:
        fixed = high.name == low.name == "binary"
        return (binary if fixed else varbinary)(_longer(high, low))
    if high.name in {"datetime2", "datetimeoffset", "time"} and low.name in TIMES:
        return SqlType(high.name, scale=max(high.scale or 0, fractional_digits(low)))
    return high


def _common_string(high: SqlType, low: SqlType) -> SqlType:
    if {high.name, low.name} & {"text", "ntext"}:
        return high
    national = bool({high.name, low.name} & NATIONAL)
    fixed = {high.name, low.name} <= {"char", "nchar"}
    name = ("n" if national else "") + ("char" if fixed else "varchar")
    length = _longer(high, low)
    if national and length > 4000:
        length = MAX_LENGTH
    return SqlType(name, length=length, collation=high.collation or low.collation)


def _longer(left: SqlType, right: SqlType) -> int:
    lengths = [text_length(left), text_length(right)]
    return MAX_LENGTH if MAX_LENGTH in lengths else max(lengths)


def text_length(kind: SqlType) -> int:
    """How many characters (bytes for binaries) a value of it takes as text."""
    if kind.length is not None:
        return kind.length
    lengths = {
        "bit": 1,
        "tinyint": 3,
        "smallint": 6,
        "int": 11,
        "bigint": 20,
        "uniqueidentifier": 36,
    }
    return lengths.get(kind.name, 48)
