"""Which characters the sandbox can compare as SQL Server does, and their weights.

Taken from Microsoft's published rules: the order of punctuation, the word sort (hyphen and
apostrophe hardly count), expansions (`ß` is `ss`), characters without weight (controls; before
version 90 all supplementary ones), `sp_helpsort`'s list for sort order 52. Everything else is in
`DOUBTFUL` or outside an `ordered` class: comparing it is an error, never a guess.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import cache

_OLD = unicodedata.ucd_3_2_0

CONTROLS = "".join(map(chr, (*range(1, 9), *range(0x0E, 0x20), 0x7F)))
"""Without weight in Windows' collations, like NUL."""

# As they sort, all before the digits; hyphen and apostrophe are not among them.
PUNCTUATION = ' !"#$%&()*,./:;?@[\\]^_`{|}~+<=>'
PUNCTUATION_WEIGHTS = "".join(chr(0x10 + i) for i in range(len(PUNCTUATION)))
IGNORED = "-'"

SQL_PUNCTUATION = (
    " !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~" + "".join(map(chr, range(0xA1, 0xC0))) + "×÷"
)
"""Sort order 52's, all before the digits."""

SQL_DOUBTFUL = "ŠšŽžŒœŸƒ"
"""Letters of code page 1252 that sort order 52, made for ISO 8859-1, does not list."""

# The weights of accents where nothing else differs: the second level of Windows' sort keys, which
# Mono's sources list as they were read from Windows (create-mscompat-collation-table.cs).
_ACCENTS = {
    "\u0301": 14,
    "\u0300": 15,
    "\u0307": 16,
    "\u0302": 18,
    "\u0308": 19,
    "\u030c": 20,
    "\u0306": 21,
    "\u0304": 23,
    "\u0303": 25,
    "\u030a": 26,
    "\u0328": 27,
    "\u0327": 28,
}
EXPANSIONS = (("ß", "ss"), ("æ", "ae"), ("œ", "oe"), ("þ", "th"), ("Æ", "AE"), ("Œ", "OE"),
              ("Þ", "TH"))  # fmt: skip
TURKISH_LETTERS = "çğıöşü"
TURKISH_ALPHABET = "abcçdefgğhıijklmnoöpqrsştuüvwxyz"

_SMALL_KANA = "ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮヵヶ"
_KANA_MARKS = "ー々ゝゞヽヾ〻"
_HEBREW_FINALS = "ךםןףץ"
_STROKES = "øØđĐłŁħĦŧŦðÐ"


def _is_doubtful(char: str) -> bool:
    category = _OLD.category(char)
    if category in ("Cn", "Cf", "Co", "Cs"):
        return True
    return unicodedata.decomposition(char).startswith("<") and char not in narrowed()[0]


@cache
def narrowed() -> tuple[str, str]:
    """Full-width forms and half-width kana, and what they are in their usual width."""
    wide = [chr(code) for code in (0x3000, *range(0xFF01, 0xFF5F), *range(0xFF66, 0xFFA0))]
    usual = [unicodedata.normalize("NFKC", char) for char in wide]
    pairs = [(w, u) for w, u in zip(wide, usual, strict=True) if len(u) == 1]
    return "".join(w for w, _ in pairs), "".join(u for _, u in pairs)


@cache
def katakana() -> tuple[str, str]:
    """Hiragana, and the same in katakana."""
    codes = range(0x3041, 0x3095)
    return "".join(map(chr, codes)), "".join(chr(code + 0x60) for code in codes)


@cache
def doubtful() -> str:
    """A class of characters that no rule here covers, not even for equality."""
    listed = set(_SMALL_KANA + _KANA_MARKS + _HEBREW_FINALS)
    return class_of(c for c in map(chr, range(0x80, 0x10000)) if _is_doubtful(c) or c in listed)


@cache
def doubtful_accents() -> str:
    """Characters of which it is not known whether they have an accent to be ignored."""
    kept = set("ёЁйЙ")
    return class_of(
        c
        for c in map(chr, range(0x80, 0x10000))
        if c in _STROKES
        or (
            c not in kept
            and unicodedata.decomposition(c)
            and not unicodedata.decomposition(c).startswith("<")
            and c not in _accented()
        )
    )


@cache
def _accented() -> dict[str, str]:
    """Small Latin and Greek letters with accents, and capitals: the letter without them."""
    found = {}
    for char in map(chr, (*range(0xC0, 0x250), *range(0x386, 0x3CF), *range(0x1E00, 0x2000))):
        base, *marks = list(unicodedata.normalize("NFD", char))
        if marks and (base.isascii() or "α" <= base.lower() <= "ω"):
            found[char] = base
    return found


@cache
def accent_weights() -> tuple[str, str]:
    """Letters with one accent of known weight, and characters that sort by that weight."""
    pairs = []
    for char in _accented():
        _, *marks = list(unicodedata.normalize("NFD", char))
        if len(marks) == 1 and marks[0] in _ACCENTS:
            pairs.append((char, chr(0xE000 + _ACCENTS[marks[0]])))
    return "".join(c for c, _ in pairs), "".join(w for _, w in pairs)


ALPHABETS = {
    "default": "Latin1_General",
    "turkish": "Turkish",
    "korean": "Korean",
    "east": "Japanese",
}
"""The classes of `ordered`, each with a language that has it."""


@cache
def ordered(family: str) -> str:
    """The class of characters whose order in a language is known."""
    letters = set(accent_weights()[0] + "".join(letter for letter, _ in EXPANSIONS) + "ё")
    if family == "Turkish":
        letters = set(TURKISH_LETTERS + "İâîûÂÎÛ")
    letters |= set(map(chr, range(0x3B1, 0x3CA))) | set("άέήίόύώϊϋΐΰ")
    letters |= set(map(chr, range(0x430, 0x450)))
    letters |= set(map(chr, range(0x5D0, 0x5EB))) - set(_HEBREW_FINALS)
    letters |= {c for c in map(chr, (*range(0x628, 0x649), 0x64A)) if c.isalpha() and c not in "ةـ"}
    if not family.startswith(("Japanese", "Chinese", "Korean")):
        letters |= set(map(chr, range(0x4E00, 0x9FA6)))
    if family.startswith("Korean"):
        letters |= set(map(chr, range(0xAC00, 0xD7A4)))
    # Controls and pairs have no weight, or are refused by equality's own rules.
    others = {"\0", *CONTROLS, *map(chr, range(0x20, 0x7F)), *narrowed()[0][:95]}
    capitals = {c.upper() for c in letters if len(c.upper()) == 1}
    return class_of(letters | capitals | others) + "\\x{10000}-\\x{10ffff}"


@cache
def simple() -> str:
    """Letters of Latin, Greek and Cyrillic that need nothing but their case and expansions."""
    codes = (*range(0x20, 0x7F), *range(0xC0, 0x250), *range(0x386, 0x3CF), *range(0x400, 0x460))
    return class_of(c for c in map(chr, codes) if not _is_doubtful(c) and c not in "İı")


@cache
def sql_ordered() -> str:
    """The class of characters that sort order 52 lists."""
    listed = set(map(chr, (*range(0x20, 0x7F), *range(0xA1, 0x100))))
    return class_of(listed - set("ßæøðþÆØÐÞ"))


@cache
def high_half(codec: str) -> tuple[str, str]:
    """What a code page of single bytes has above ASCII, and the bytes as characters."""
    pairs = []
    for byte in range(0x80, 0x100):
        char = bytes([byte]).decode(codec, "ignore")
        pairs += [(char, chr(byte))] if char else []
    return "".join(c for c, _ in pairs), "".join(b for _, b in pairs)


def class_of(chars: Iterable[str]) -> str:
    """Characters as the inside of a regular expression's class."""
    ranges: list[tuple[int, int]] = []
    for code in sorted({ord(char) for char in chars}):
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1] = (ranges[-1][0], code)
        else:
            ranges.append((code, code))
    return class_of_ranges(ranges)


def class_of_ranges(ranges: Iterable[tuple[int, int]]) -> str:
    """Closed ranges of code points as the inside of a regular expression's class."""
    return "".join(
        _shown(low) if low == high else f"{_shown(low)}-{_shown(high)}" for low, high in ranges
    )


def _shown(code: int) -> str:
    """Itself where that is shorter and means nothing else."""
    plain = code > 0xFF and not 0xD800 <= code <= 0xDFFF
    return chr(code) if plain else f"\\x{{{code:x}}}"
