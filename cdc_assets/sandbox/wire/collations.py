"""Collation names as the five bytes TDS carries, and the code page of their char types.

Layout (MS-TDS 2.2.5.1.2): LCID in 20 bits, eight flags, four bits of version, the sort id.
"""

from __future__ import annotations

import codecs
from functools import cache

from cdc_assets.sandbox.results import DEFAULT_COLLATION
from cdc_assets.sandbox.wire.errors import EncodingError

_UTF8_FLAG = 0x40
_LANGUAGES = {
    "Latin1_General": (0x0409, "cp1252"),
    "SQL_Latin1_General_CP1": (0x0409, "cp1252"),
    "SQL_Latin1_General_CP437": (0x0409, "cp437"),
    "SQL_Latin1_General_CP850": (0x0409, "cp850"),
    "SQL_Latin1_General_CP1250": (0x0409, "cp1250"),
    "SQL_Latin1_General_CP1251": (0x0409, "cp1251"),
    "SQL_Latin1_General_CP1253": (0x0409, "cp1253"),
    "SQL_Latin1_General_CP1254": (0x0409, "cp1254"),
    "SQL_Latin1_General_CP1256": (0x0409, "cp1256"),
    "SQL_Latin1_General_CP1257": (0x0409, "cp1257"),
    "Arabic": (0x0401, "cp1256"),
    "Chinese_PRC": (0x0804, "cp936"),
    "Chinese_Taiwan_Stroke": (0x0404, "cp950"),
    "Cyrillic_General": (0x0419, "cp1251"),
    "Czech": (0x0405, "cp1250"),
    "Danish_Norwegian": (0x0406, "cp1252"),
    "Finnish_Swedish": (0x040B, "cp1252"),
    "French": (0x040C, "cp1252"),
    "German_PhoneBook": (0x10407, "cp1252"),
    "Greek": (0x0408, "cp1253"),
    "Hebrew": (0x040D, "cp1255"),
    "Hungarian": (0x040E, "cp1250"),
    "Japanese": (0x0411, "cp932"),
    "Japanese_XJIS": (0x0411, "cp932"),
    "Korean_Wansung": (0x0412, "cp949"),
    "Modern_Spanish": (0x0C0A, "cp1252"),
    "Polish": (0x0415, "cp1250"),
    "Romanian": (0x0418, "cp1250"),
    "Thai": (0x041E, "cp874"),
    "Turkish": (0x041F, "cp1254"),
    "Ukrainian": (0x0422, "cp1251"),
    "Vietnamese": (0x042A, "cp1258"),
}
_SORT_IDS = {
    "SQL_Latin1_General_CP1_CS_AS": 51,
    "SQL_Latin1_General_CP1_CI_AS": 52,
    "SQL_Latin1_General_CP1_CI_AI": 54,
    "SQL_Latin1_General_CP850_BIN": 40,
    "SQL_Latin1_General_CP850_CS_AS": 41,
    "SQL_Latin1_General_CP850_CI_AS": 42,
    "SQL_Latin1_General_CP437_CS_AS": 31,
    "SQL_Latin1_General_CP437_CI_AS": 32,
    "SQL_Latin1_General_CP1250_CS_AS": 81,
    "SQL_Latin1_General_CP1250_CI_AS": 82,
    "SQL_Latin1_General_CP1251_CS_AS": 105,
    "SQL_Latin1_General_CP1251_CI_AS": 106,
    "SQL_Latin1_General_CP1253_CS_AS": 113,
    "SQL_Latin1_General_CP1253_CI_AS": 114,
}
_OPTIONS = {"CI", "CS", "AI", "AS", "KS", "WS", "SC", "VSS", "BIN", "BIN2", "UTF8"}
_VERSIONS = {"90": 1, "100": 2, "140": 3, "160": 4}


@cache
def collation_bytes(name: str | None) -> bytes:
    """The five bytes of a collation; `EncodingError` for one this server does not know."""
    language, options = _split(name or DEFAULT_COLLATION)
    lcid, _ = _language(language, name)
    version = next((_VERSIONS[option] for option in options if option in _VERSIONS), 0)
    value = lcid | _flags(options) << 20 | version << 28
    sort_id = _SORT_IDS.get(name or DEFAULT_COLLATION, 0)
    return value.to_bytes(4, "little") + bytes([sort_id])


@cache
def collation_codec(name: str | None) -> str:
    """The Python codec of char, varchar and text in a collation."""
    language, options = _split(name or DEFAULT_COLLATION)
    return "utf-8" if "UTF8" in options else _language(language, name)[1]


def codec_of_bytes(collation: bytes) -> str:
    """The Python codec a client's collation bytes mean; cp1252 where they mean nothing known."""
    value = int.from_bytes(collation[:4], "little")
    if value >> 20 & _UTF8_FLAG:
        return "utf-8"
    sort_id = collation[4]
    for name, known in _SORT_IDS.items():
        if sort_id and known == sort_id:
            return collation_codec(name)
    lcid = value & 0xFFFFF
    for known_lcid, codec in _LANGUAGES.values():
        if known_lcid == lcid:
            return codecs.lookup(codec).name
    return "cp1252"


def _language(language: str, name: str | None) -> tuple[int, str]:
    try:
        return _LANGUAGES[language]
    except KeyError:
        raise EncodingError(f"the sandbox does not know the collation {name}") from None


def _split(name: str) -> tuple[str, frozenset[str]]:
    words = name.split("_")
    options: set[str] = set()
    while words and (words[-1] in _OPTIONS or words[-1] in _VERSIONS):
        options.add(words.pop())
    return "_".join(words), frozenset(options)


def _flags(options: frozenset[str]) -> int:
    if "BIN2" in options or "BIN" in options:
        flags = 0x20 if "BIN2" in options else 0x10
    else:
        flags = (
            (0x01 if "CI" in options else 0)
            | (0x02 if "AI" in options else 0)
            | (0x04 if "KS" not in options else 0)
            | (0x08 if "WS" not in options else 0)
        )
    return flags | (_UTF8_FLAG if "UTF8" in options else 0)
