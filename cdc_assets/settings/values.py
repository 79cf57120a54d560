"""The types of settings that have a form of their own: durations, keys, names, owners, lakes."""

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from cdc_assets.contract import our_column
from cdc_assets.names import NAME_LENGTH_MAX, ZONE_PATTERN, folded
from cdc_assets.settings.lakes import LAKE_SCHEMES, scheme_of


class SettingsModel(BaseModel):
    """A part of the settings: frozen, no key but those declared, its docstrings its help."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


KEY_PATTERN = r"^[A-Za-z0-9_]{1,100}$"
"""Keys become paths, asset keys and transaction ids; all of those allow these letters."""

_DURATION = re.compile(r"(\d+)\s*(s|m|h|d)")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def _duration(value: Any) -> Any:
    if isinstance(value, str) and (found := _DURATION.fullmatch(value.strip())):
        return timedelta(**{_UNITS[found.group(2)]: int(found.group(1))})
    if isinstance(value, timedelta):
        return value
    raise ValueError("a duration is a whole number and a unit: 30s, 15m, 2h or 1d")


Duration = Annotated[timedelta, BeforeValidator(_duration)]
Key = Annotated[str, Field(pattern=KEY_PATTERN)]


def _owner(value: str) -> str:
    if re.fullmatch(r"team:[\w.-]+|[^@\s]+@[^@\s]+\.[^@\s]+", value):
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


LakeUri = Annotated[str, AfterValidator(_lake)]
Zone = Annotated[str, Field(pattern=ZONE_PATTERN)]
Owner = Annotated[str, AfterValidator(_owner)]
Rename = Annotated[dict[str, Annotated[str, AfterValidator(_name)]], AfterValidator(_different)]
