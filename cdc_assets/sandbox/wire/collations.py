"""Collations as the five bytes TDS carries, and the code page of their char types.

Layout (MS-TDS 2.2.5.1.2): LCID in 20 bits, eight flags, four bits of version, the sort id.
"""

from __future__ import annotations

from functools import cache

from cdc_assets.sandbox import collations
from cdc_assets.sandbox.results import DEFAULT_COLLATION
from cdc_assets.sandbox.wire.errors import EncodingError

_UTF8_FLAG = 0x40
_VERSIONS = {80: 0, 90: 1, 100: 2, 140: 3}


@cache
def collation_bytes(name: str | None) -> bytes:
    """The five bytes of a collation; `EncodingError` for one this server does not know."""
    found = _known(name)
    value = found.lcid | _flags(found) << 20 | _VERSIONS[found.version] << 28
    return value.to_bytes(4, "little") + bytes([found.sort_id])


@cache
def collation_codec(name: str | None) -> str:
    """The Python codec of char, varchar and text in a collation."""
    found = _known(name)
    return "utf-8" if found.utf8 else found.codec


def codec_of_bytes(collation: bytes) -> str:
    """The Python codec a client's collation bytes mean; cp1252 where they mean nothing known."""
    value = int.from_bytes(collation[:4], "little")
    if value >> 20 & _UTF8_FLAG:
        return "utf-8"
    by_sort_id, by_lcid = _codecs()
    return by_sort_id.get(collation[4]) or by_lcid.get(value & 0xFFFFF) or "cp1252"


@cache
def _codecs() -> tuple[dict[int, str], dict[int, str]]:
    return (
        {c.sort_id: c.codec for c in collations.of_sql_server()},
        {family.lcid: family.codec for family in collations.FAMILIES.values()},
    )


def _known(name: str | None) -> collations.Collation:
    found = collations.parse(name or DEFAULT_COLLATION)
    if found is None:
        raise EncodingError(f"the sandbox does not know the collation {name}")
    return found


def _flags(collation: collations.Collation) -> int:
    if collation.binary:
        flags = 0x20 if collation.binary == "BIN2" else 0x10
    else:
        flags = (
            (0 if collation.case else 0x01)
            | (0 if collation.accent else 0x02)
            | (0 if collation.kana else 0x04)
            | (0 if collation.width else 0x08)
        )
    return flags | (_UTF8_FLAG if collation.utf8 else 0)
