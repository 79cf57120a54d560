"""`docs/reference/`: the options of a stream, the settings, and the schema of `tables.yaml`.

Written from the options and settings as they are declared: `python -m cdc_assets_tests.reference`
writes them anew; `hall/test_options.py` and `hall/test_schema.py` hold them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cdc_assets.settings.options import BOOLEANS, OPTIONS, Option
from cdc_assets.settings.schema import SCHEMA_FILE, schema_text, settings_schema

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
PAGE = REFERENCE / "options.md"
SETTINGS_PAGE = REFERENCE / "settings.md"
SCHEMA = REFERENCE / SCHEMA_FILE
_HEAD = f"""# Options of a stream

For `spark.readStream.format("mssql_cdc")` and for `CdcStream(spark, options)`; how they are used
is in [../stream.md](../stream.md). Names ignore case. An unknown option is ignored with a warning,
a value that does not fit is an error before anything connects. Booleans are
{", ".join(BOOLEANS)}, and nothing else. Where a setting is named, that is what the
option is called in `tables.yaml`, with the same default and limits. `apply_changes` takes them,
too; `deletes` and `changeDataFeed` are its alone, and where neither they nor a `table` say so, it
leaves silver as it is.

*This page is written from `cdc_assets/settings/options.py`:* `python -m cdc_assets_tests.reference`

| option | type | default | what it does | setting |
|---|---|---|---|---|
"""

_SETTINGS_HEAD = f"""# Settings

All of `tables.yaml`: it is read from the working folder, or from where `CDC_TABLES` says, and
validated before anything connects. An error names the line, the key and what is allowed. Relative
paths are from the file's folder. `${{NAME}}` and `${{NAME:-default}}` in a value come from the
environment.

```yaml
databases:
  sales:
    connection: env:CDC_SALES_CONNECTION
    lake: s3a://bucket/lake
    defaults: {{on_data_loss: resnapshot}}
    tables:
      dbo_orders:
      dbo_lineitem: {{snapshot: chunked, owner: "team:sales"}}
```

Editors know the keys by [{SCHEMA_FILE}]({SCHEMA_FILE}), which `cdc-assets discover` writes beside
the file and names in its first line; after an upgrade `cdc-assets schema > {SCHEMA_FILE}` writes it
anew.

*This page is written from `cdc_assets/settings/`:* `python -m cdc_assets_tests.reference`
"""

Node = dict[str, Any]


def page() -> str:
    """The page of the options as it has to be."""
    return _HEAD + "".join(f"{_row(option)}\n" for option in OPTIONS)


def _row(option: Option) -> str:
    default = f"`{option.default}`" if option.default else ""
    setting = f"`{option.setting}`" if option.setting else ""
    return f"| `{option.name}` | {option.type} | {default} | {option.help} | {setting} |"


def settings_page() -> str:
    """The page of the settings as it has to be: a section for each part that has keys."""
    return _SETTINGS_HEAD + "".join(_sections())


def places() -> list[tuple[tuple[str, ...], str]]:
    """Where in the file each part of the settings is, by its name in the schema; once each.

    `finality` of a table and of `defaults` are one part, which stands where it comes first.
    """
    parts = settings_schema()["$defs"]
    found = [(("databases", "<database>"), "DatabaseSettings")]
    for path, name in found:
        for key, node in parts[name]["properties"].items():
            below = part_of(node, parts)
            if below is not None and below not in {known for _, known in found}:
                by_key = (f"<{key.removesuffix('s')}>",) if "patternProperties" in node else ()
                found.append(((*path, key, *by_key), below))
    return found


def _sections() -> Iterator[str]:
    parts = settings_schema()["$defs"]
    for path, name in places():
        part = parts[name]
        yield f"\n## `{'.'.join(path)}`\n\n{part['description']}\n"
        yield "\n| key | type | default | allowed | meaning |\n|---|---|---|---|---|\n"
        for key, node in part["properties"].items():
            default = "" if "default" not in node else f"`{_yaml(node['default'])}`"
            if key in part.get("required", ()):
                default = "required"
            elif name == "TableSettings" and key in parts["TableDefaults"]["properties"]:
                default = "that of `defaults`"
            yield _setting(key, node, parts, default)


def part_of(node: Node, parts: Node) -> str | None:
    """The part of the settings that a key holds, or holds several of."""
    return next((ref for ref in _refs(node) if "properties" in parts[ref]), None)


def _refs(node: Any) -> Iterator[str]:
    """The names of the definitions that a part of the schema speaks of."""
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"].rpartition("/")[2]
        for value in node.values():
            yield from _refs(value)
    elif isinstance(node, list):
        for value in node:
            yield from _refs(value)


def _setting(key: str, node: Node, parts: Node, default: str) -> str:
    value, below = value_of(node, parts), part_of(node, parts)
    kind = _kind(value, parts)
    if below is not None:
        heading = ".".join(next(path for path, name in places() if name == below))
        kind = f"[{kind}](#{re.sub(r'[^a-z_]', '', heading)})"
    told = node.get("description", "")
    return f"| `{key}` | {kind} | {default} | {_allowed(value)} | {told} |\n"


def value_of(node: Node, parts: Node) -> Node:
    """What a key holds, without what says that it may be left out or be a variable."""
    for several in ("anyOf", "allOf"):
        for one in node.get(several, ()):
            if one.get("type") != "null" and not one.get("$ref", "").endswith("/Variable"):
                return value_of(one, parts)
    if "$ref" in node:
        part = parts[node["$ref"].rpartition("/")[2]]
        return part if "properties" in part else value_of(part, parts)
    return node


_KINDS = {
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "string": "text",
}


def _kind(value: Node, parts: Node) -> str:
    if "properties" in value:
        return "keys of its own"
    if "patternProperties" in value:
        return "by key"
    if value.get("type") == "array":
        return f"list of {_kind(value_of(value['items'], parts), parts)}"
    if value.get("type") == "object":
        return "text by name"
    if value.get("format") == "date":
        return "day"
    return _KINDS[value["type"]]


def _allowed(value: Node) -> str:
    if "enum" in value:
        return ", ".join(f"`{one}`" for one in value["enum"])
    if "examples" in value:
        return "such as " + ", ".join(f"`{one}`" for one in value["examples"])
    low, high = value.get("minimum"), value.get("maximum")
    if "exclusiveMinimum" in value:
        return f"more than {value['exclusiveMinimum']:,g}"
    if low is not None and high is not None:
        return f"{low:,g} to {high:,g}" if high < 10**6 else f"{low:,} to {high:,}"
    return "" if low is None else f"{low:,g} or more"


def _yaml(default: Any) -> str:
    return str(default).lower() if isinstance(default, bool) else str(default)


if __name__ == "__main__":
    REFERENCE.mkdir(exist_ok=True)
    PAGE.write_text(page())
    SETTINGS_PAGE.write_text(settings_page())
    SCHEMA.write_text(schema_text())
