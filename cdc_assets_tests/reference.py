"""`docs/reference/options.md`, written from the options as they are declared.

`python -m cdc_assets_tests.reference` writes it anew; `setup/test_reference.py` holds it.
"""

from __future__ import annotations

from pathlib import Path

from cdc_assets.settings.options import BOOLEANS, OPTIONS, Option

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "options.md"
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


def page() -> str:
    """The page as it has to be."""
    return _HEAD + "".join(f"{_row(option)}\n" for option in OPTIONS)


def _row(option: Option) -> str:
    default = f"`{option.default}`" if option.default else ""
    setting = f"`{option.setting}`" if option.setting else ""
    return f"| `{option.name}` | {option.type} | {default} | {option.help} | {setting} |"


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page())
