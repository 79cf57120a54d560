"""Which tables can be loaded, and with which settings."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from cdc_assets.planning.discovery import Choice, Discovered, choose_tables, free_name, key_of
from cdc_assets.planning.polls import CaptureInstance
from cdc_assets.planning.records import Identity
from cdc_assets.planning.table_checkup import SourceColumn
from cdc_assets.settings import TableSettings


def column(name: str, kind: str = "int", *, known: bool = True, computed: bool = False) -> Any:
    return SourceColumn(name, kind, known, False, computed)


def found(
    name: str = "dbo_t",
    columns: tuple[SourceColumn, ...] = (column("id"), column("b")),
    index: tuple[str, ...] = ("id",),
    *,
    source: int = 1,
    age: int = 0,
    **more: Any,
) -> Discovered:
    at = datetime(2026, 1, 1) + timedelta(days=age)
    identity = Identity(source, 100 + age, name, at)
    return Discovered(CaptureInstance(identity, "dbo", "t", None, index), columns, **more)


def chosen(*discovered: Discovered, rows: int = 1_000) -> list[Choice]:
    choices = choose_tables(discovered, rows)
    for choice in choices:
        TableSettings.model_validate(choice.settings)
    return choices


def test_a_plain_table_needs_no_setting() -> None:
    (one,) = chosen(found(rows=999))
    assert (one.key, one.settings, one.left_out) == ("dbo_t", {}, "")
    assert one.why == ("key id, of the unique index that it is captured with",)


def test_a_large_one_is_read_in_chunks() -> None:
    (one,) = chosen(found(rows=1_000))
    assert one.settings == {"snapshot": "chunked"}


@pytest.mark.parametrize(
    ("name", "key"),
    [("dbo_t", "dbo_t"), ("dbo_Åre öst", "dbo_Are_ost"), ("表", "table"), ("a" * 128, "a" * 100)],
)
def test_keys_are_slugs(name: str, key: str) -> None:
    assert key_of(name) == key
    (one,) = chosen(found(name))
    assert one.settings.get("capture_instance") == (None if name == key else name)


def test_no_two_tables_have_one_key() -> None:
    choices = chosen(*(found(n, source=i) for i, n in enumerate(("a b", "a.b", "A_B"))))
    assert sorted(c.key.lower() for c in choices) == ["a_b", "a_b_2", "a_b_3"]
    assert len(free_name("x" * 100, {"x" * 100})) == 100


def test_the_newer_of_two_instances() -> None:
    (one,) = chosen(found("old", age=1), found("new", age=2))
    assert one.instance == "new"
    assert "old is not read" in one.why[0]


def test_a_key_from_another_unique_index_or_none() -> None:
    (other,) = chosen(found(index=(), unique=(frozenset({"b", "id"}), frozenset({"b"}))))
    assert other.settings == {"keys": ["b"]}
    (none,) = chosen(found(index=()))
    assert "no unique index" in none.left_out
    computed = (column("id", computed=True), column("b"))
    (left,) = chosen(found(columns=computed, unique=(frozenset({"id"}),)))
    assert "computed" in left.left_out
    (kept,) = chosen(found(columns=computed, unique=(frozenset({"id"}), frozenset({"b"}))))
    assert kept.settings == {"keys": ["b"]}


def test_columns_without_a_counterpart_are_left_out() -> None:
    columns = (column("id"), column("at", "geography", known=False), column("b"))
    (one,) = chosen(found(columns=columns))
    assert one.settings == {"columns": ["id", "b"]}
    assert "at (geography)" in one.why[0]
    (key,) = chosen(found(columns=columns, index=("at",)))
    assert key.left_out


def test_names_that_are_ours_or_differ_in_case_get_others() -> None:
    columns = tuple(column(n) for n in ("id", "ID", "_batch_id", "source_batch_id"))
    (one,) = chosen(found(columns=columns))
    assert one.settings["rename"] == {"ID": "source_ID", "_batch_id": "source_batch_id_2"}
    (keyed,) = chosen(found(columns=columns, index=(), unique=(frozenset({"_batch_id"}),)))
    assert keyed.settings["keys"] == ["source_batch_id_2"]


def test_a_name_that_the_settings_would_fill_in() -> None:
    (one,) = chosen(found("${SECRET}"))
    assert "${" in one.left_out
