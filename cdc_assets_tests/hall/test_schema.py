"""The schema of tables.yaml and the page of the settings: of one mind with the loader."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from cdc_assets.errors import SettingsError
from cdc_assets.settings import load_settings
from cdc_assets.settings.schema import first_line, schema_text, settings_schema
from cdc_assets_tests.hall.test_settings import BROKEN, GOOD
from cdc_assets_tests.reference import (
    SCHEMA,
    SETTINGS_PAGE,
    part_of,
    places,
    settings_page,
    value_of,
)

PROJECT = Path(__file__).parents[2]
SCHEMA_OF = settings_schema()
VALIDATOR = jsonschema.Draft7Validator(SCHEMA_OF)
LOADERS_ALONE = {"not YAML", "a tab", "unset variable", "two engines on S3", "no address"}
"""What is wrong with these is no single key's."""


def test_page_and_schema_say_what_is_declared() -> None:
    again = "python -m cdc_assets_tests.reference writes it anew"
    assert SCHEMA.read_text() == schema_text(), again
    assert SETTINGS_PAGE.read_text() == settings_page(), again
    jsonschema.Draft7Validator.check_schema(SCHEMA_OF)


def test_each_setting_says_what_it_means() -> None:
    parts = SCHEMA_OF["$defs"]
    lacking = [
        f"{name}.{key}"
        for _, name in places()
        for key, node in parts[name]["properties"].items()
        if not node.get("description")
    ]
    assert lacking == []


def test_the_project_s_own_file_names_it() -> None:
    file = PROJECT / "tables.yaml"
    assert file.read_text().splitlines()[0] == first_line(str(SCHEMA.relative_to(PROJECT)))
    assert fits(yaml.safe_load(file.read_text()))


@pytest.mark.parametrize(("name", "text"), [b[:2] for b in BROKEN], ids=[b[0] for b in BROKEN])
def test_what_the_loader_refuses(name: str, text: str) -> None:
    if name not in LOADERS_ALONE:
        assert not fits(yaml.safe_load(text))


def test_what_the_loader_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables stand for any value."""
    assert fits(yaml.safe_load(GOOD))
    monkeypatch.setenv("CDC_MANY", "7")
    text = "databases: {s: {num_partitions: '${CDC_MANY}', defaults: {engine: '${CDC_E:-arrow}',"
    text += " snapshot_on_switch: '${CDC_B:-true}'}, tables: {t: }}}"
    assert fits(yaml.safe_load(text))
    assert loads(tmp_path, text)


def test_both_take_and_refuse_the_same_of_each_setting(tmp_path: Path) -> None:
    """Its default and its bounds, what lies beyond them, and what is no value of its type."""
    disagree, seen = [], 0
    for path, name in places():
        for key, node in SCHEMA_OF["$defs"][name]["properties"].items():
            for value, is_fine in samples(node):
                document = document_with((*path, key), value)
                told = fits(document), loads(tmp_path, json.dumps(document))
                seen += 1
                if told != (is_fine, is_fine):
                    disagree.append((".".join(path), key, value, told))
    assert disagree == []
    assert seen > 200


def samples(node: dict[str, Any]) -> Iterator[tuple[Any, bool]]:
    """Values of a setting, and whether they may be."""
    parts = SCHEMA_OF["$defs"]
    value = value_of(node, parts)
    if "default" in node:
        yield node["default"], True
    if part_of(node, parts) is not None:
        yield "text", False
        yield {"no such key": 1}, False
        return
    yield {"a": {}}, False
    for one in (*value.get("enum", ()), *value.get("examples", ())):
        yield one, True
    if "enum" in value:
        yield "none of them", False
    if value["type"] in ("integer", "number", "boolean"):
        yield "no number", False
    if value["type"] == "integer":
        yield 1.5, False
    if value["type"] in ("array", "object"):
        yield "text", False
    for bound, step in (("minimum", -1), ("maximum", 1)):
        if bound in value:
            yield value[bound], True
            yield value[bound] + step, False
    if "exclusiveMinimum" in value:
        yield value["exclusiveMinimum"], False


def document_with(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """The smallest file with one setting."""
    names = [{"<database>": "s", "<table>": "t"}.get(name, name) for name in path]
    document: dict[str, Any] = {"databases": {"s": {"tables": {"t": None}}}}
    at = document
    for name in names[:-1]:
        at[name] = at.get(name) or {}
        at = at[name]
    at[names[-1]] = value
    return document


def fits(document: Any) -> bool:
    return bool(VALIDATOR.is_valid(document))


def loads(folder: Path, text: str) -> bool:
    file = folder / "tables.yaml"
    file.write_text(text)
    try:
        load_settings(file)
    except SettingsError:
        return False
    return True
