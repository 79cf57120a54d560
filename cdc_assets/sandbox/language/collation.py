"""Collations: how strings compare, as DuckDB expressions.

What the sandbox compares is what SQL Server compares: case, accents, kana, width, expansions,
characters without weight, the word sort. A collation whose alphabet it does not know is refused
where a column, a database or a COLLATE names it (Msg 40515; no such collation is Msg 448), and a
single character whose weight it does not know where it is compared. BIN2 of every language works.
SQL Server's own collations (`SQL_…`) have no BIN2: a column may have any of them, for its code
page, and is refused where it is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from cdc_assets.sandbox import collations
from cdc_assets.sandbox.collations import Collation
from cdc_assets.sandbox.language import codepages, errors, types
from cdc_assets.sandbox.language.keying import VALUE, keyed
from cdc_assets.sandbox.language.weights import SEPARATOR, refusal
from cdc_assets.sandbox.results import DEFAULT_COLLATION, SqlError, SqlType


def checked(name: str) -> str:
    """The collation's name as SQL Server spells it.

    Raises Msg 448 for what is no collation, and refuses those whose order is not known here.
    """
    found = _found(name)
    _check_ordered(found)
    return found.name


def stored(name: str) -> str:
    """As `checked`, for a column: one of SQL Server's own is refused where it is compared."""
    found = _found(name)
    if not found.sort_id:
        _check_ordered(found)
    return found.name


def _found(name: str | None) -> Collation:
    found = collations.parse(name or DEFAULT_COLLATION)
    if found is None:
        raise SqlError(448, f"Invalid collation '{name}'.")
    return found


def _check_ordered(found: Collation) -> None:
    if not found.ordered:
        raise errors.unsupported(f"The order of the collation {found.name} (its BIN2 would be)")


def of(kind: SqlType) -> Collation:
    """The collation of a character type."""
    return _found(kind.collation)


def is_binary(kind: SqlType) -> bool:
    """Whether its strings compare by code point."""
    return bool(of(kind).binary)


def ignores_case(kind: SqlType) -> bool:
    """Whether `a` equals `A` in it."""
    return not of(kind).case


def searches_any_case(kind: SqlType, what: str) -> bool:
    """Whether a search inside of strings (LIKE, REPLACE) ignores case.

    Raises where it would have to ignore more than that.
    """
    found = of(kind)
    _check_ordered(found)
    if not found.accent or (found.family == "Turkish" and not found.case):
        raise errors.unsupported(f"{what} under the collation {found.name}")
    return not found.case


def is_plain(value: object) -> bool:
    """Whether it is a string of printable ASCII: its key needs no table of characters."""
    return isinstance(value, str) and value.isascii() and (value.isprintable() or not value)


def equality_key(sql: str, kind: SqlType, *, plain: bool = False) -> str:
    """What two values must share to be equal: DuckDB text; `plain` where `is_plain` holds."""
    if kind.name in types.STRINGS:
        found = of(kind)
        _check_ordered(found)
        if found.binary:
            return f"rtrim({sql}, ' ')"
        rules = _rules(kind, found)
        key = f"rtrim({rules.plain(sql)}, ' ')"
        if plain:
            return key
        other = _checked(rules.doubts, rules.folded(VALUE), "Comparing")
        short = rules.shorter(VALUE)
        branch = f"WHEN simple({VALUE}) THEN {short} " if short else ""
        return _plain_or(sql, key, f"{branch}{other}")
    if kind.name == "datetimeoffset":
        return f"({sql}).ticks"
    return sql


def order_key(sql: str, kind: SqlType, *, plain: bool = False) -> str:
    """What orders two values: DuckDB text, consistent with `equality_key`."""
    if kind.name in types.STRINGS:
        found = of(kind)
        _check_ordered(found)
        if found.binary:
            return _binary_key(sql, kind, found)
        rules = _rules(kind, found)
        key = rules.plain_ordered(f"rtrim({rules.plain(sql)}, ' ')")
        if plain:
            return key
        doubts = (*rules.doubts, rules.unordered)
        other = _checked(doubts, rules.ordered(rules.folded(VALUE)), "Ordering")
        short, is_ordered = rules.shorter(VALUE), f"NOT has_{rules.unordered}({VALUE})"
        branch = f"WHEN simple({VALUE}) AND {is_ordered} THEN {rules.ordered(short)} "
        return _plain_or(sql, key, f"{branch if short else ''}{other}")
    if kind.name == "datetimeoffset":
        return f"({sql}).ticks"
    if kind.name == "uniqueidentifier":
        return f"guid_key({sql})"
    return sql


def _plain_or(sql: str, key: str, branches: str) -> str:
    """The key of printable ASCII, and for all else what the branches of a CASE say."""
    return f"CASE WHEN plain({sql}) THEN {key} ELSE {keyed(sql, f'CASE {branches} END')} END"


def _checked(doubts: Sequence[str], key: str, what: str) -> str:
    """Branches of a CASE: an error for what no rule covers, else the key."""
    doubtful = " OR ".join(f"has_{doubt}({VALUE})" for doubt in doubts)
    return f"WHEN {doubtful} THEN {refusal(VALUE, what)} ELSE {key}"


@dataclass(frozen=True, slots=True)
class _Rules:
    """How the strings of one collation become keys: macros, in the order they apply."""

    small: str
    steps: tuple[str, ...]
    doubts: tuple[str, ...]
    unordered: str
    primary: str
    accents: bool
    capitals: bool

    def plain(self, sql: str) -> str:
        """ASCII text without what is ignored."""
        if not self.small:
            return sql
        return f"lower(replace({sql}, 'I', 'ı'))" if "turkish" in self.small else f"lower({sql})"

    def folded(self, sql: str) -> str:
        """Any text without what is ignored."""
        for step in self.steps:
            sql = f"{step}({sql})"
        return f"rtrim({sql}, ' ')"

    def shorter(self, sql: str) -> str:
        """As `folded`, of letters to which most of the steps do nothing; empty if none is less."""
        if self.steps[0] != "weighted" or "bare" in self.steps or "turkish" in self.small:
            return ""
        folded = f"expanded({sql})"
        folded = f"{self.small}({folded})" if self.small else folded
        return f"rtrim({folded}, ' ')"

    def plain_ordered(self, key: str) -> str:
        """As `ordered`, of ASCII."""
        if self.primary == "primary_turkish":
            return self.ordered(key)
        small = key if self.small else f"lower({key})"
        sql = self.primary == "sql_primary"
        parts = [f"{'sql_' if sql else ''}plain_primary({small})"]
        parts += [f"plain_accents({small})"] if self.accents else []
        parts += [f"capitals_of({key})"] if self.capitals else []
        return SEPARATOR.join([*parts, small if sql else f"specials_of({small})"])

    def ordered(self, key: str) -> str:
        """Letters first; then accents, capitals, and at last hyphens and apostrophes decide."""
        small = key if self.small else f"lower({key})"
        parts = [f"{self.primary}({small})"]
        parts += [f"accents_of({small})"] if self.accents else []
        parts += [f"capitals_of({key})"] if self.capitals else []
        last = small if self.primary == "sql_primary" else f"specials_of({small})"
        return SEPARATOR.join([*parts, last])


@cache
def _rules(kind: SqlType, found: Collation) -> _Rules:
    if found.sort_id and kind.name in types.NARROW:
        steps = ["lower"] if found.accent else ["lower", "strip_accents"]
        doubts = ["sql_doubtful"] if found.accent else ["sql_doubtful", "sql_letters"]
        return _Rules("lower", tuple(steps), tuple(doubts), "sql_unordered", "sql_primary",
                      accents=False, capitals=False)  # fmt: skip
    turkish = found.family == "Turkish"
    small = "" if found.case else "small_turkish" if turkish else "small"
    steps = ["weighted"]
    steps += ["one_unit"] if found.version == 80 else []
    steps += [] if found.width else ["usual_width"]
    steps += [] if found.kana else ["one_kana"]
    steps += ["nfc_normalize", "expanded"]
    steps += [small] if small else []
    steps += [] if found.accent else ["bare"]
    doubts = ["doubtful"]
    doubts += [] if found.version == 80 else ["pairs"]
    doubts += [] if turkish else ["dots"]
    doubts += [] if found.accent else ["unclear_accents"]
    return _Rules(
        small,
        tuple(steps),
        tuple(doubts),
        f"unordered_{_alphabet(found)}",
        "primary_turkish" if turkish else "primary_of",
        accents=found.accent,
        capitals=found.case,
    )


def _alphabet(found: Collation) -> str:
    """The name of the class of characters whose order is known."""
    if found.family == "Turkish" or found.family.startswith("Korean"):
        return found.family.partition("_")[0].lower()
    return "east" if found.family.startswith(("Japanese", "Chinese")) else "default"


def _binary_key(sql: str, kind: SqlType, found: Collation) -> str:
    """By code unit or byte; char and varchar by the bytes of their code page."""
    doubts = ["spaced_controls"]
    units = VALUE
    if kind.name in types.NATIONAL:
        units = f"units({VALUE})"
        doubts += ["other_than_latin1"] if found.binary == "BIN" else []
    elif found.codec in codepages.DOUBLE_BYTE and not found.utf8:
        doubts.append("other_than_ascii")
    elif not found.utf8:
        units = f"byte_values_{found.codec}({VALUE})"
    return _plain_or(sql, f"padded({sql})", _checked(doubts, f"padded({units})", "Ordering"))


def check_comparable(kind: SqlType) -> None:
    """Raise Msg 402 or 305 for types that have no order."""
    if kind.name in ("text", "ntext", "image"):
        raise SqlError(
            402,
            f"The data types {kind.name} and {kind.name} are incompatible in the "
            "equal to operator.",
        )
    if kind.name == "xml":
        raise SqlError(
            305,
            "The XML data type cannot be compared or sorted, except when using the IS NULL "
            "operator.",
        )
