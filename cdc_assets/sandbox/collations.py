"""The collations' names as SQL Server spells them: language, code page, what they tell apart.

Both ends know this page: the wire writes a collation's LCID and flags and encodes with its code
page, the language compares with it. Names follow Microsoft's list (`sys.fn_helpcollations`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

_ALL = ("", "100")


@dataclass(frozen=True, slots=True)
class Family:
    """A language's collations: its LCID, the Python codec of its code page, its versions.

    `linguistic` says that the sandbox knows how its strings compare beyond BIN and BIN2.
    """

    name: str
    lcid: int
    codec: str
    versions: tuple[str, ...] = _ALL
    linguistic: bool = False


FAMILIES = {
    family.name: family
    for family in (
        Family("Latin1_General", 0x0409, "cp1252", linguistic=True),
        Family("Greek", 0x0408, "cp1253", linguistic=True),
        Family("Cyrillic_General", 0x0419, "cp1251", linguistic=True),
        Family("Turkish", 0x041F, "cp1254", linguistic=True),
        Family("Hebrew", 0x040D, "cp1255", linguistic=True),
        Family("Arabic", 0x0401, "cp1256", linguistic=True),
        Family("Thai", 0x041E, "cp874", linguistic=True),
        Family("Japanese", 0x0411, "cp932", ("", "90"), linguistic=True),
        Family("Japanese_XJIS", 0x0411, "cp932", ("100", "140"), linguistic=True),
        Family("Chinese_PRC", 0x0804, "cp936", ("", "90"), linguistic=True),
        Family("Chinese_Simplified_Pinyin", 0x0804, "cp936", ("100",), linguistic=True),
        Family("Chinese_Taiwan_Stroke", 0x0404, "cp950", ("", "90"), linguistic=True),
        Family("Chinese_Traditional_Stroke_Count", 0x0404, "cp950", ("100",), linguistic=True),
        Family("Korean_Wansung", 0x0412, "cp949", ("",), linguistic=True),
        Family("Korean", 0x0412, "cp949", ("90", "100"), linguistic=True),
        # Letters stand elsewhere in these alphabets, or several count as one.
        Family("Croatian", 0x041A, "cp1250"),
        Family("Czech", 0x0405, "cp1250"),
        Family("Danish_Norwegian", 0x0406, "cp1252", ("",)),
        Family("Estonian", 0x0425, "cp1257"),
        Family("Finnish_Swedish", 0x040B, "cp1252"),
        Family("French", 0x040C, "cp1252"),
        Family("German_PhoneBook", 0x10407, "cp1252"),
        Family("Hungarian", 0x040E, "cp1250"),
        Family("Icelandic", 0x040F, "cp1252"),
        Family("Latvian", 0x0426, "cp1257"),
        Family("Lithuanian", 0x0427, "cp1257"),
        Family("Modern_Spanish", 0x0C0A, "cp1252"),
        Family("Polish", 0x0415, "cp1250"),
        Family("Romanian", 0x0418, "cp1250"),
        Family("Slovak", 0x041B, "cp1250"),
        Family("Slovenian", 0x0424, "cp1250"),
        Family("Traditional_Spanish", 0x040A, "cp1252"),
        Family("Ukrainian", 0x0422, "cp1251"),
        Family("Vietnamese", 0x042A, "cp1258"),
    )
}

# SQL Server's own collations: the id of their sort order, LCID and codec.
_SQL = {
    "SQL_Latin1_General_CP1_CS_AS": (51, 0x0409, "cp1252"),
    "SQL_Latin1_General_CP1_CI_AS": (52, 0x0409, "cp1252"),
    "SQL_Latin1_General_Pref_CP1_CI_AS": (53, 0x0409, "cp1252"),
    "SQL_Latin1_General_CP1_CI_AI": (54, 0x0409, "cp1252"),
    "SQL_Latin1_General_CP437_BIN": (30, 0x0409, "cp437"),
    "SQL_Latin1_General_CP437_CS_AS": (31, 0x0409, "cp437"),
    "SQL_Latin1_General_CP437_CI_AS": (32, 0x0409, "cp437"),
    "SQL_Latin1_General_CP437_CI_AI": (34, 0x0409, "cp437"),
    "SQL_Latin1_General_CP850_BIN": (40, 0x0409, "cp850"),
    "SQL_Latin1_General_CP850_CS_AS": (41, 0x0409, "cp850"),
    "SQL_Latin1_General_CP850_CI_AS": (42, 0x0409, "cp850"),
    "SQL_Latin1_General_CP850_CI_AI": (44, 0x0409, "cp850"),
    "SQL_Latin1_General_CP1250_CS_AS": (81, 0x0409, "cp1250"),
    "SQL_Latin1_General_CP1250_CI_AS": (82, 0x0409, "cp1250"),
    "SQL_Latin1_General_CP1251_CS_AS": (105, 0x0419, "cp1251"),
    "SQL_Latin1_General_CP1251_CI_AS": (106, 0x0419, "cp1251"),
    "SQL_Latin1_General_CP1253_CS_AS": (113, 0x0408, "cp1253"),
    "SQL_Latin1_General_CP1253_CI_AS": (114, 0x0408, "cp1253"),
    "SQL_Latin1_General_CP1253_CI_AI": (124, 0x0408, "cp1253"),
    "SQL_Latin1_General_CP1254_CS_AS": (129, 0x041F, "cp1254"),
    "SQL_Latin1_General_CP1254_CI_AS": (130, 0x041F, "cp1254"),
    "SQL_Latin1_General_CP1255_CS_AS": (137, 0x040D, "cp1255"),
    "SQL_Latin1_General_CP1255_CI_AS": (138, 0x040D, "cp1255"),
    "SQL_Latin1_General_CP1256_CS_AS": (145, 0x0401, "cp1256"),
    "SQL_Latin1_General_CP1256_CI_AS": (146, 0x0401, "cp1256"),
    "SQL_Latin1_General_CP1257_CS_AS": (153, 0x0425, "cp1257"),
    "SQL_Latin1_General_CP1257_CI_AS": (154, 0x0425, "cp1257"),
}
_SQL_KNOWN = ("SQL_Latin1_General_CP1_CI_AS", "SQL_Latin1_General_CP1_CI_AI")
"""SQL Server's own collations whose tables of char order the sandbox knows."""


@dataclass(frozen=True, slots=True)
class Collation:
    """One collation, taken apart; `version` is 80, 90, 100 or 140.

    `sort_id` is not 0 for SQL Server's own collations, which compare char and varchar by a table
    of their own; `ordered` says that the sandbox knows how its strings compare.
    """

    name: str
    family: str
    lcid: int
    codec: str
    version: int = 80
    binary: str = ""
    case: bool = True
    accent: bool = True
    kana: bool = False
    width: bool = False
    supplementary: bool = False
    utf8: bool = False
    sort_id: int = 0
    ordered: bool = True

    @property
    def code_page(self) -> int:
        """Its code page as COLLATIONPROPERTY names it."""
        return 65001 if self.utf8 else int(self.codec.removeprefix("cp"))

    @property
    def style(self) -> int:
        """COLLATIONPROPERTY's ComparisonStyle: Windows' NORM_IGNORE flags."""
        if self.binary:
            return 0
        return (
            (0 if self.case else 1)
            | (0 if self.accent else 2)
            | (0 if self.kana else 0x10000)
            | (0 if self.width else 0x20000)
        )

    @property
    def description(self) -> str:
        """What sys.fn_helpcollations says of it."""
        words = [self.family.replace("_", "-")]
        if self.version > 80:
            words[0] += f"-{self.version}"
        if self.binary:
            words.append(
                "binary code point comparison sort" if self.binary == "BIN2" else "binary sort"
            )
        else:
            for told_apart, what in (
                (self.case, "case"),
                (self.accent, "accent"),
                (self.kana, "kanatype"),
                (self.width, "width"),
            ):
                words.append(f"{what}-{'sensitive' if told_apart else 'insensitive'}")
        if self.supplementary:
            words.append("supplementary characters")
        if self.utf8:
            words.append("UTF8")
        return ", ".join(words)


@cache
def parse(name: str) -> Collation | None:
    """The collation of that name, whatever its case; None for what SQL Server does not have."""
    return _catalogue().get(name.lower())


def known() -> list[Collation]:
    """Every collation that the sandbox accepts, by name."""
    return sorted((c for c in _catalogue().values() if c.ordered), key=lambda c: c.name)


@cache
def _catalogue() -> dict[str, Collation]:
    found = [_sql(name) for name in _SQL]
    for family in FAMILIES.values():
        for version in family.versions:
            found += [_windows(family, version, suffix) for suffix in _suffixes(family, version)]
    return {collation.name.lower(): collation for collation in found}


def _suffixes(family: Family, version: str) -> list[str]:
    """What may follow a language and version: 140 always knows supplementary characters."""
    latin = family.name == "Latin1_General"
    binary = ["BIN", "BIN2"] if version != "140" else ["BIN2"]
    found = binary + (["BIN2_UTF8"] if latin and version == "100" else [])
    selectors = ("", "_VSS") if version == "140" else ("",)
    endings = {"": ("",), "140": ("", "_UTF8")}.get(version, ("", "_SC", "_SC_UTF8"))
    for case in ("CI", "CS"):
        for accent in ("AI", "AS"):
            for kana in ("", "_KS"):
                for width in ("", "_WS"):
                    for selector in selectors:
                        head = f"{case}_{accent}{kana}{width}{selector}"
                        found += [head + ending for ending in endings]
    return found


def _windows(family: Family, version: str, suffix: str) -> Collation:
    name = "_".join(part for part in (family.name, version, suffix) if part)
    parts = suffix.split("_")
    binary = parts[0] if parts[0].startswith("BIN") else ""
    return Collation(
        name,
        family.name,
        family.lcid,
        family.codec,
        int(version or 80),
        binary,
        "CS" in parts or bool(binary),
        "AS" in parts or bool(binary),
        "KS" in parts or bool(binary),
        "WS" in parts or bool(binary),
        "SC" in parts or version == "140",
        "UTF8" in parts,
        ordered=bool(binary) or (family.linguistic and "VSS" not in parts),
    )


def _sql(name: str) -> Collation:
    sort_id, lcid, codec = _SQL[name]
    binary = "BIN" if name.endswith("_BIN") else ""
    return Collation(
        name,
        name.rsplit("_", 1)[0] if binary else name.rsplit("_", 2)[0],
        lcid,
        codec,
        binary=binary,
        case="_CS_" in name or bool(binary),
        accent=not name.endswith("_AI"),
        sort_id=sort_id,
        ordered=bool(binary) or name in _SQL_KNOWN,
    )


def tells_case(name: str) -> bool:
    """Whether names that differ in case alone are two, in a database of that collation."""
    return "_CS" in name or "_BIN" in name


def of_sql_server() -> list[Collation]:
    """SQL Server's own collations, whose names begin with SQL_."""
    return [_sql(name) for name in _SQL]
