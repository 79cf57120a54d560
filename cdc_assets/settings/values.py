"""The types of settings that have a form of their own: durations, keys, names, owners, lakes."""

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
)

from cdc_assets.contract import our_column
from cdc_assets.names import NAME_LENGTH_MAX, ZONE_PATTERN, folded
from cdc_assets.settings.lakes import LAKE_SCHEMES, scheme_of


class SettingsModel(BaseModel):
    """A part of the settings: frozen, no key but those declared; `helps` has its docstrings."""

    model_config = ConfigDict(frozen=True, extra="forbid")


KEY_PATTERN = r"^[A-Za-z0-9_]{1,100}$"
"""Keys become paths, asset keys and transaction ids; all of those allow these letters."""

DURATION_PATTERN = r"(\d+)\s*(s|m|h|d)"
_DURATION = re.compile(DURATION_PATTERN)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def _duration(value: Any) -> Any:
    if isinstance(value, str) and (found := _DURATION.fullmatch(value.strip())):
        return timedelta(**{_UNITS[found.group(2)]: int(found.group(1))})
    if isinstance(value, timedelta):
        return value
    raise ValueError("a duration is a whole number and a unit: 30s, 15m, 2h or 1d")


def duration_text(value: timedelta) -> str:
    """A duration as the settings write it, in the largest unit that is exact."""
    seconds = int(value.total_seconds())
    for unit, count in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds and seconds % count == 0:
            return f"{seconds // count}{unit}"
    return f"{seconds}s"


Duration = Annotated[
    timedelta,
    BeforeValidator(_duration),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": rf"^\s*{DURATION_PATTERN}\s*$",
            "examples": ["30s", "15m", "2h", "1d"],
        }
    ),
]
Key = Annotated[str, Field(pattern=KEY_PATTERN)]


OWNER_PATTERN = r"team:[\w.-]+|[^@\s]+@[^@\s]+\.[^@\s]+"


def _owner(value: str) -> str:
    if re.fullmatch(OWNER_PATTERN, value):
        return value
    raise ValueError("an owner is an e-mail address or team:name")


def _name(value: str) -> str:
    if not value or len(value) > NAME_LENGTH_MAX or any(ord(letter) < 32 for letter in value):
        raise ValueError(f"a name has 1 to {NAME_LENGTH_MAX} characters, none of them a control")
    if our_column(value):
        raise ValueError(f"{value} is the name of one of our own columns")
    return value


def _different(names: dict[str, str]) -> dict[str, str]:
    seen: dict[str, str] = {}
    for source, name in names.items():
        other = seen.setdefault(folded(name), source)
        if other != source:
            raise ValueError(f"{other} and {source} would both be {name}, where case counts not")
    return names


def _lake(value: str) -> str:
    scheme = scheme_of(value)
    if scheme and scheme not in LAKE_SCHEMES:
        raise ValueError(f"{scheme}:// is no lake; a folder, or one of {', '.join(LAKE_SCHEMES)}")
    if not value.strip():
        raise ValueError("a lake is a folder or a URI")
    return value


_NO_SCHEME = "(?![A-Za-z][A-Za-z0-9+.-]*://)"
LakeUri = Annotated[
    str,
    AfterValidator(_lake),
    WithJsonSchema(
        {"type": "string", "pattern": rf"^(?:(?:{'|'.join(LAKE_SCHEMES)})://|{_NO_SCHEME})[^\n]*\S"}
    ),
]
Zone = Annotated[str, Field(pattern=ZONE_PATTERN)]
Owner = Annotated[
    str,
    AfterValidator(_owner),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": f"^(?:{OWNER_PATTERN})$",
            "examples": ["team:sales", "someone@example.com"],
        }
    ),
]
Name = Annotated[
    str,
    AfterValidator(_name),
    WithJsonSchema({"type": "string", "pattern": rf"^[^\u0000-\u001f]{{1,{NAME_LENGTH_MAX}}}$"}),
]
Rename = Annotated[dict[str, Name], AfterValidator(_different)]
TAG_PATTERN = r"^([A-Za-z0-9_.-]{1,63}/)?[A-Za-z0-9_.-]{1,63}$"
"""Names of tags, as Dagster has them: with a name before a slash, or without."""
TAG_VALUE_PATTERN = r"^[A-Za-z0-9_.-]{0,63}$"
Tags = dict[
    Annotated[str, Field(pattern=TAG_PATTERN)], Annotated[str, Field(pattern=TAG_VALUE_PATTERN)]
]
