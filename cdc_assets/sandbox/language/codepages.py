"""Text in a code page: what its characters become, and how many bytes they are.

A character that the code page lacks becomes `?`, a surrogate pair `??`. Windows gives some of them
a best fit instead (`ā` becomes `a`): here full-width ASCII has its own, and Latin letters theirs
in code page 1252. Letters of scripts without Latin look-alikes are surely lost. What is neither is
refused: SQL Server may have a best fit for it that the sandbox does not know.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from functools import cache

from cdc_assets.sandbox import collations
from cdc_assets.sandbox.language import errors
from cdc_assets.sandbox.language.alphabets import class_of, class_of_ranges, high_half
from cdc_assets.sandbox.language.values import raising, raising_with
from cdc_assets.sandbox.results import DEFAULT_COLLATION, SqlType

CODECS = tuple(sorted({f.codec for f in collations.FAMILIES.values()} | {"cp437", "cp850"}))
DOUBLE_BYTE = ("cp932", "cp936", "cp949", "cp950")
UTF8 = "utf8"

# Blocks of scripts that no best-fit table maps to anything.
_LOST = (
    (0x400, 0x4BA),
    (0x4BC, 0x52F),
    (0x531, 0x58A),
    (0x591, 0x5F4),
    (0x60C, 0x6FF),
    (0x901, 0xFDA),
    (0x10A0, 0x1CFF),
    (0x3041, 0x30FF),
    (0x3400, 0x9FFF),
    (0xAC00, 0xD7A3),
)
_SINGLE = {"cp932": "\\x{ff61}-\\x{ff9f}", "cp936": "", "cp949": "", "cp950": ""}
"""Beyond ASCII, what is one byte in the code pages of two."""


def page_of(kind: SqlType) -> str:
    """The code page of a char type, as the names of macros have it."""
    found = collations.parse(kind.collation or DEFAULT_COLLATION)
    if found is None or found.utf8:
        return UTF8
    return found.codec


def narrowed(sql: str, page: str) -> str:
    """DuckDB text of a string in a code page."""
    return sql if page == UTF8 else f"narrow_{page}({sql})"


def size(sql: str, page: str) -> str:
    """DuckDB text of a string's bytes in a code page."""
    if page == UTF8:
        return f"strlen({sql})"
    return f"bytes_{page}({sql})" if page in _SINGLE else f"length({sql})"


def to_hex(sql: str, page: str) -> str:
    """DuckDB text of a string's bytes in a code page, as hexadecimal digits."""
    return f"hex_{page}({sql})"


def from_bytes(sql: str, page: str) -> str:
    """DuckDB text of the string that a code page makes of bytes."""
    return f"text_{page}({sql})"


def literal(text: str, kind: SqlType) -> str:
    """A literal without N, as the server reads it."""
    page = page_of(kind)
    if text.isascii() or page == UTF8:
        return text
    return "".join(_literal_char(char, page) for char in text)


def literal_bytes(text: str, kind: SqlType) -> int:
    """How many bytes such a literal is."""
    if text.isascii():
        return len(text)
    page = page_of(kind)
    return len(text.encode("utf-8" if page == UTF8 else page, "replace"))


def _literal_char(char: str, page: str) -> str:
    if char.isascii() or char in _characters(page):
        return char
    if char > "\uffff":
        return "??"
    if char in (fits := _best_fit(page)):
        return fits[char]
    if any(low <= ord(char) <= high for low, high in _LOST):
        return "?"
    raise errors.unsupported(f"The character U+{ord(char):04X} in {page}")


@cache
def _characters(page: str) -> frozenset[str]:
    """What a code page has beyond ASCII."""
    single = [bytes([byte]) for byte in range(0x80, 0x100)]
    double = [bytes([a, b]) for a in range(0x81, 0xFF) for b in range(0x40, 0xFF)]
    raw = single + (double if page in _SINGLE else [])
    found = {value.decode(page, "ignore") for value in raw}
    return frozenset(char for char in found if len(char) == 1 and char > "\x7f")


@cache
def _best_fit(page: str) -> dict[str, str]:
    found = {chr(code + 0xFEE0): chr(code) for code in range(0x21, 0x7F)}
    if page == "cp1252":
        for char in map(chr, range(0x100, 0x180)):
            base, *marks = list(unicodedata.normalize("NFD", char))
            if marks and base.isascii():
                found[char] = base
    return {c: fit for c, fit in found.items() if c not in _characters(page)}


@cache
def macros() -> dict[str, str]:
    """The macros of all code pages."""
    found = _bytes()
    for page in CODECS:
        inside = class_of(_characters(page))
        fits = _best_fit(page)
        before, after = "".join(fits), "".join(fits.values()).replace("'", "''")
        kept = f"[^\\x{{0}}-\\x{{7f}}{inside}]"
        failure = raising_with(
            40515,
            "A character that the code page lacks and that may have a best fit there, in '",
            "x",
            f"' as {page}, is not supported by the sandbox.",
        )
        found[f"outside_{page}(x)"] = f"regexp_matches(x, '{kept}')"
        found[f"fitted_{page}(x)"] = f"translate(x, '{before}', '{after}')"
        found[f"lost_{page}(x)"] = _lost(page)
        found[f"narrow_{page}(x)"] = (
            f"CASE WHEN strlen(x) = length(x) OR NOT outside_{page}(x) THEN x "
            f"WHEN outside_{page}(lost_{page}(fitted_{page}(x))) THEN {failure} "
            f"ELSE lost_{page}(fitted_{page}(x)) END"
        )
    for page, single in _SINGLE.items():
        found[f"bytes_{page}(x)"] = (
            "CASE WHEN strlen(x) = length(x) THEN length(x) ELSE length(x) + "
            f"length(regexp_replace(x, '[\\x{{0}}-\\x{{7f}}{single}]', '', 'g')) END"
        )
    # For a message: half of a pair cannot be shown.
    found["shown_units(x, n)"] = _cut("utf16_length(left(x, i))")
    found["cut_utf8(x, n)"] = _cut("strlen(left(x, i))")
    for page in CODECS:
        found[f"cut_{page}(x, n)"] = (
            _cut(f"bytes_{page}(left(x, i))") if page in _SINGLE else "left(x, n)"
        )
    return found


def _bytes() -> dict[str, str]:
    """Strings as the bytes of their code page, and back."""
    found = {
        "latin_hex(x)": "array_to_string(list_transform(string_split(x, ''), "
        "lambda c: byte_hex(unicode(c))), '')",
        "latin_text(b)": "CASE WHEN b IS NULL THEN NULL ELSE array_to_string(list_transform("
        "regexp_extract_all(hex(b), '..'), lambda h: chr(CAST('0x' || h AS INTEGER))), '') END",
    }
    for page in CODECS:
        if page in _SINGLE:
            outside = raising(40515, f"Bytes of {page} beyond ASCII are not supported.")
            found[f"hex_{page}(x)"] = (
                f"CASE WHEN strlen(x) > length(x) THEN {outside} ELSE hex(encode(x)) END"
            )
            found[f"text_{page}(b)"] = (
                f"CASE WHEN regexp_matches(latin_text(b), '[^\\x{{0}}-\\x{{7f}}]') THEN {outside} "
                "ELSE latin_text(b) END"
            )
            continue
        characters, values = (text.replace("'", "''") for text in high_half(page))
        found[f"byte_values_{page}(x)"] = f"translate(x, '{characters}', '{values}')"
        found[f"hex_{page}(x)"] = (
            "CASE WHEN strlen(x) = length(x) THEN hex(encode(x)) "
            f"ELSE latin_hex(byte_values_{page}(x)) END"
        )
        free = class_of(set(map(chr, range(0x80, 0x100))) - set(values))
        text = f"translate(latin_text(b), '{values}', '{characters}')"
        unknown = raising(40515, f"A byte without a character in {page} is not supported.")
        found[f"text_{page}(b)"] = (
            f"CASE WHEN regexp_matches(latin_text(b), '[{free}]') THEN {unknown} ELSE {text} END"
            if free
            else text
        )
    broken = raising(40515, "Bytes that are no UTF-8 are not supported.")
    found[f"hex_{UTF8}(x)"] = "hex(encode(x))"
    found[f"text_{UTF8}(b)"] = (
        f"CASE WHEN b IS NULL THEN NULL ELSE coalesce(TRY(decode(b)), {broken}) END"
    )
    return found


def _lost(page: str) -> str:
    """Half of a pair is a character of its own to the server: two question marks."""
    had = sorted(ord(char) for char in _characters(page))
    gone = []
    for low, high in _LOST:
        start = low
        for code in had[bisect_left(had, low) : bisect_right(had, high)]:
            gone += [(start, code - 1)] if code > start else []
            start = code + 1
        gone += [(start, high)] if start <= high else []
    pairs = "regexp_replace(x, '[\\x{10000}-\\x{10ffff}]', '??', 'g')"
    return f"regexp_replace({pairs}, '[{class_of_ranges(gone)}]', '?', 'g')"


def _cut(measure: str) -> str:
    """The longest beginning within n bytes; a character is never cut in two."""
    return (
        f"CASE WHEN {measure.replace('left(x, i)', 'x')} <= n THEN x ELSE left(x, coalesce("
        f"list_max(list_filter(range(1, n + 1), lambda i: {measure} <= n)), 0)) END"
    )
