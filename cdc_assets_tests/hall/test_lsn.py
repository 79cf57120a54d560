"""LSNs as values (B009: a store's text decoding must never corrupt one silently)."""

import json
import pickle
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.lsn import Lsn
from cdc_assets.planning.offsets import Offset

lsns = st.integers(0, (1 << 80) - 1).map(Lsn.of_int)


@given(lsns)
def test_text_round_trips(lsn: Lsn) -> None:
    assert Lsn.parse(str(lsn)) == lsn
    assert Lsn.of_int(lsn.to_int()) == lsn
    assert pickle.loads(pickle.dumps(lsn)) == lsn


@given(lsns, lsns)
def test_order_of_texts_is_order_of_values(a: Lsn, b: Lsn) -> None:
    assert (a < b) == (a.to_int() < b.to_int()) == (str(a) < str(b))


@given(st.integers(0, (1 << 80) - 2).map(Lsn.of_int))
def test_next_and_previous_are_neighbours(lsn: Lsn) -> None:
    assert lsn.next() > lsn
    assert lsn.next().previous() == lsn


def test_every_byte_survives_a_store() -> None:
    """B009: bytes that are no text in any encoding, through text, JSON and a Delta commit."""
    lsn = Lsn.of_int(int.from_bytes(bytes.fromhex("0000002A0000808100FF"), "big"))
    assert str(lsn) == "0x0000002A0000808100FF"
    offset = Offset(lsn, datetime(2026, 11, 30, 12))
    assert Offset.from_dict(json.loads(json.dumps(offset.to_dict()))) == offset
    for broken in ({"lsn": "\x00*\x80\x81\x00\ufffd"}, {"lsn": "0x2A"}, {"lsn": ""}):
        with pytest.raises(ValueError, match="not an LSN"):
            Offset.from_dict({**offset.to_dict(), **broken})


def test_case_is_normalised() -> None:
    assert Lsn.parse("0x0000002a0000808100ff") == Lsn.parse("0X0000002A0000808100FF")


@pytest.mark.parametrize(
    "text", ["", "0x", "0000002A0000808100FF", "0x0000002A0000808100F", "0x" + "0" * 21, "0xZZ"]
)
def test_anything_else_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="not an LSN"):
        Lsn.parse(text)


def test_null_and_zero_both_mean_none_yet() -> None:
    assert Lsn.parse_optional(None) is None
    assert Lsn.parse_optional("0x" + "0" * 20) is None
    assert Lsn.parse_optional("0x" + "0" * 19 + "1") == Lsn.of_int(1)


@pytest.mark.parametrize("value", [-1, 1 << 80])
def test_ten_bytes_only(value: int) -> None:
    with pytest.raises(ValueError, match="10 bytes"):
        Lsn.of_int(value)
