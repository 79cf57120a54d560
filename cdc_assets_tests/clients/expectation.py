"""What a check must have seen, by expected.json, and what a program saw, in the same form."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from cdc_assets_tests.clients.stacks import EXPECTED

ROWVERSION_DIGITS = 16
_SEVENTH_DIGIT = re.compile(r"(:\d\d\.\d{6})\d")


def wanted(check: str) -> Any:
    """What every program must have seen."""
    return _WANTED[check]()


def normal(check: str, got: Any) -> Any:
    """What a program saw, in the form of `wanted`."""
    return _NORMAL[check](got) if check in _NORMAL else got


def in_reach(check: str, got: Any) -> Any:
    """The expectation without what the driver has no way to tell, as expected.json allows."""
    expected = wanted(check)
    if check == "types":
        rows = zip(expected["rows"], got["rows"], strict=True)
        return {**expected, "rows": [list(map(_cut, *pair)) for pair in rows]}
    if check == "errors":
        states = [case["sqlstate"] for case in EXPECTED["errors"]["cases"]]
        whole = [{**one, "sqlstate": s} for one, s in zip(expected, states, strict=True)]
        return [{key: one[key] for key in told} for one, told in zip(whole, got, strict=True)]
    return expected


def _cut(expected: Any, got: Any) -> Any:
    """Python's clocks end at microseconds; the check `text_of_types` sees the seventh digit."""
    if not isinstance(expected, str):
        return expected
    short = _SEVENTH_DIGIT.sub(r"\1", expected)
    return short if got == short else expected


def _login() -> Any:
    # Without the CA the same login must fail: that is the proof that TLS was there and verified.
    return {"rows": [["1"]], "refused_without_the_ca": True}


def _spread(value: Any) -> Any:
    """{prefix, repeat, times} in full."""
    if isinstance(value, dict):
        return str(value["prefix"]) + str(value["repeat"]) * int(value["times"])
    return value


def _number(kind: str, value: Any) -> Any:
    """Floating-point numbers as such: their texts differ from driver to driver."""
    if value is None or kind not in ("real", "float"):
        return value
    exact = float(value)
    return struct.unpack("<f", struct.pack("<f", exact))[0] if kind == "real" else exact


def _is_instant_of(value: str | None, whole: str | None) -> bool:
    """Whether a driver that keeps the instant alone gave that of a datetimeoffset."""
    if value is None or whole is None:
        return False
    clock, fraction, offset = whole[:19], whole[19:-6], whole[-6:]
    shift = timedelta(hours=int(offset[:3]), minutes=int(offset[0] + offset[4:]))
    return value == f"{(datetime.fromisoformat(clock) - shift).isoformat()}{fraction}Z"


def _types() -> Any:
    types = EXPECTED["types"]
    kinds = [column["kind"] for column in types["columns"]]
    rows = [
        [_number(kind, _spread(value)) for kind, value in zip(kinds, row["values"], strict=True)]
        for row in types["rows"]
    ]
    return {"rows": rows, "rowversions_rise": True}


def _normal_types(got: Any) -> Any:
    columns = EXPECTED["types"]["columns"]
    rows = [
        [_number(column["kind"], value) for column, value in zip(columns, row, strict=True)]
        for row in got["rows"]
    ]
    for row, whole in zip(rows, _types()["rows"], strict=True):
        for place, column in enumerate(columns):
            # Equal instants stand for the text with the offset; others are left to be seen.
            if column["kind"] == "datetimeoffset" and _is_instant_of(row[place], whole[place]):
                row[place] = whole[place]
    versions = got["rowversions"]
    rise = versions == sorted(set(versions)) and all(
        len(version) == 2 + ROWVERSION_DIGITS for version in versions
    )
    return {"rows": rows, "rowversions_rise": rise}


def _text_of_types() -> Any:
    types = EXPECTED["types"]
    places = [place for place, column in enumerate(types["columns"]) if "text" in column]
    return [[_spread(row["values"][place]) for place in places] for row in types["rows"]]


def _transaction(end: str) -> Callable[[], Any]:
    case = EXPECTED["transactions"]
    return lambda: {"inside": case["inside"], "after": case[f"after_{end}"]}


def _errors() -> Any:
    case = EXPECTED["errors"]
    keys = ("name", "number", "severity", "text")
    return [{**{k: e[k] for k in keys}, "then": case["then"]["rows"]} for e in case["cases"]]


def _normal_errors(got: Any) -> Any:
    texts = {case["name"]: case["text"] for case in EXPECTED["errors"]["cases"]}
    return [
        {**error, "text": texts[error["name"]]} if texts[error["name"]] in error["text"] else error
        for error in got
    ]


def _cancel() -> Any:
    case = EXPECTED["cancel"]
    one = {"cancelled": True, "in_time": True, "then": case["then"]["rows"]}
    return [one for _ in case["statements"]]


def _normal_cancel(got: Any) -> Any:
    case = EXPECTED["cancel"]
    return [
        {
            "cancelled": one["cancelled"],
            "in_time": case["after_seconds"] <= one["seconds"] <= case["within_seconds"],
            "then": one["then"],
        }
        for one in got
    ]


def _sets() -> Any:
    case = EXPECTED["several_result_sets"]
    return {"sets": case["sets"], "columns": case["columns"]}


def _unicode() -> Any:
    texts = EXPECTED["unicode"]["texts"]
    return [{"read": [one["text"], str(one["units"])], "literal": one["text"]} for one in texts]


def _long_text() -> Any:
    case = EXPECTED["long_text"]
    unit = case["unit"]
    return [[(unit * n)[:n], str(n)] for n in case["characters"]]


_WANTED: dict[str, Callable[[], Any]] = {
    "login_with_verified_tls": _login,
    "login_without_tls": lambda: {"rows": [["1"]]},
    "wrong_password": lambda: {"number": EXPECTED["wrong_password"]["number"]},
    "types": _types,
    "text_of_types": _text_of_types,
    "parameters": lambda: EXPECTED["parameters"]["row"],
    "prepared_twice": lambda: [run["rows"] for run in EXPECTED["prepared_twice"]["runs"]],
    "commit": _transaction("commit"),
    "rollback": _transaction("rollback"),
    "errors": _errors,
    "cancel": _cancel,
    "several_result_sets": _sets,
    "row_counts": lambda: [case["count"] for case in EXPECTED["row_counts"]],
    "unicode": _unicode,
    "long_text": _long_text,
    "nulls": lambda: EXPECTED["nulls"]["row"],
    "types_written": _text_of_types,
    "output_parameters": lambda: EXPECTED["output_parameters"]["out"],
    "savepoint": lambda: EXPECTED["savepoint"]["rows"],
}
_NORMAL: dict[str, Callable[[Any], Any]] = {
    "types": _normal_types,
    "errors": _normal_errors,
    "cancel": _normal_cancel,
}
