"""The JSON schema of `tables.yaml`, for editors: made of the settings as they are declared.

It says what the models say, so that an editor shows each key's help and underlines what the loader
would refuse. Two things it leaves to the loader: what several keys say together, and numbers in
quotes, which the loader takes.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from cdc_assets.settings.helps import helps_of
from cdc_assets.settings.load import VARIABLE_PATTERN
from cdc_assets.settings.model import Settings
from cdc_assets.settings.values import duration_text

SCHEMA_FILE = "tables.schema.json"
"""What it is called beside a `tables.yaml`."""

_DRAFT = "http://json-schema.org/draft-07/schema#"
"""What editors of YAML understand."""

_VARIABLE = "Variable"
_SCALARS = ("integer", "number", "boolean")
_FORMS = {"enum", "const", "pattern"}
_DATE = r"^\d{4}-\d{2}-\d{2}$"

Schema = dict[str, Any]


class _Generator(GenerateJsonSchema):
    """With the settings' help, and durations as the settings write them."""

    def model_schema(self, schema: core_schema.ModelSchema) -> Schema:
        """A model's own part, each of its settings with its help."""
        made: Schema = super().model_schema(schema)
        model: type[BaseModel] = schema["cls"]
        for name, text in helps_of(model).items():
            made["properties"][name]["description"] = text
        return made

    def encode_default(self, dft: Any) -> Any:
        """A default as it would stand in the file."""
        return duration_text(dft) if isinstance(dft, timedelta) else super().encode_default(dft)


def settings_schema() -> Schema:
    """The schema as a document; every call makes a new one."""
    schema = Settings.model_json_schema(schema_generator=_Generator)
    definitions = {name: _node(part) for name, part in schema.pop("$defs").items()}
    tables = definitions["DatabaseSettings"]["properties"]["tables"]["patternProperties"]
    for pattern, table in tables.items():
        # `dbo_orders:` alone means: everything by default.
        tables[pattern] = {"anyOf": [table, {"type": "null"}]}
    definitions[_VARIABLE] = {
        "description": "A variable of the environment: ${NAME}, or ${NAME:-default}.",
        "pattern": VARIABLE_PATTERN,
        "type": "string",
    }
    return {"$schema": _DRAFT, "title": "tables.yaml", **_node(schema), "$defs": definitions}


def schema_text() -> str:
    """The schema as the text of its file."""
    return json.dumps(settings_schema(), indent=2, ensure_ascii=False) + "\n"


def first_line(place: str = SCHEMA_FILE) -> str:
    """The line of a `tables.yaml` that tells editors where the schema is, from the file's folder.

    The language server for YAML reads it, which VS Code, Neovim and others run.
    """
    return f"# yaml-language-server: $schema={place}"


def _node(part: Schema) -> Schema:
    """A part of pydantic's schema as an editor takes it best.

    Without titles, which repeat the names, and defaults of whole parts; with a variable in the
    place of a value; and no `$ref` beside anything else, which draft 07 does not know.
    """
    found: Schema = {}
    for key, value in part.items():
        if key in ("properties", "patternProperties"):
            found[key] = {name: _node(one) for name, one in value.items()}
        elif key in ("anyOf", "allOf"):
            found[key] = [_node(one) for one in value]
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            found[key] = _node(value)
        elif key == "description":
            found[key] = " ".join(value.split())
        elif key == "title" or (key == "default" and (value is None or isinstance(value, dict))):
            continue
        else:
            found[key] = value
    if "patternProperties" in found:
        found["additionalProperties"] = False
    if found.get("format") == "date":
        found["pattern"] = _DATE
    if "$ref" in found and len(found) > 1:
        found = {"allOf": [{"$ref": found.pop("$ref")}], **found}
    return _or_variable(found)


def _or_variable(node: Schema) -> Schema:
    """A value's node that takes a variable as well; a text without a form of its own is one."""
    is_value = node.get("type") in _SCALARS or bool(_FORMS & node.keys())
    if not is_value:
        return node
    told: Schema = {key: node.pop(key) for key in ("description", "default") if key in node}
    return {"anyOf": [node, {"$ref": f"#/$defs/{_VARIABLE}"}], **told}
