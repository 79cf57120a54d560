"""Which columns are loaded under which names; two names are one where case alone differs."""

from __future__ import annotations

import pytest

from cdc_assets.contract import bronze_columns, silver_columns
from cdc_assets.errors import UnsupportedColumnError
from cdc_assets.names import folded
from cdc_assets.planning.columns import (
    Chosen,
    ColumnWish,
    adopt,
    check_keys,
    check_unmapped,
    choose_columns,
    find_name,
    is_refused,
    left_out,
    listed,
)

CAPTURED = ("Id", "Price", "note", "twice")


def chosen(wish: ColumnWish, captured: tuple[str, ...] = CAPTURED) -> tuple[Chosen, ...]:
    return choose_columns(captured, {"twice"}, wish, where="dbo_t")


def refusal(wish: ColumnWish, captured: tuple[str, ...] = CAPTURED) -> str:
    with pytest.raises(UnsupportedColumnError) as caught:
        chosen(wish, captured)
    return str(caught.value)


def test_all_but_the_computed_ones() -> None:
    found = chosen(ColumnWish())
    assert [c.name for c in found] == ["Id", "Price", "note"]
    assert left_out(CAPTURED, {"twice"}, found, ColumnWish()) == ("twice",)


def test_those_that_are_named_in_the_tables_order() -> None:
    wish = ColumnWish(("twice", "id"), {"ID": "key"})
    assert chosen(wish) == (Chosen("Id", "key"), Chosen("twice", "twice", is_computed=True))
    assert left_out(CAPTURED, {"twice"}, chosen(wish), wish) == ()


@pytest.mark.parametrize("wish", [ColumnWish(("prize",)), ColumnWish(rename={"prize": "p"})])
def test_an_unknown_name_lists_the_candidates(wish: ColumnWish) -> None:
    text = refusal(wish)
    assert "column prize in `" in text
    assert "Captured are: Id, Price, note, twice." in text


def test_candidates_have_a_limit() -> None:
    assert listed(str(n) for n in range(45)).endswith("39, and 5 more")


def test_two_columns_that_differ_only_in_case() -> None:
    """B124, in a case-sensitive database: refused with both names, or one of them renamed."""
    both = ("Id", "id")
    assert "columns Id and id would both be id" in refusal(ColumnWish(), both)
    assert "rename: {id: …}" in refusal(ColumnWish(), both)
    assert "ID in `columns` may mean Id and id" in refusal(ColumnWish(("ID",)), both)
    renamed = chosen(ColumnWish(rename={"id": "other"}), both)
    assert [c.name for c in renamed] == ["Id", "other"]
    assert [c.name for c in chosen(ColumnWish(("id",)), both)] == ["id"]


def test_two_columns_renamed_to_one() -> None:
    text = refusal(ColumnWish(rename={"note": "PRICE"}))
    assert "columns Price and note would both be PRICE" in text


@pytest.mark.parametrize(
    "name",
    [
        *(c.name for c in (*bronze_columns(()), *silver_columns(()))),
        *("_OPERATION", "_Batch_Id", "_COMMIT_TS"),
    ],
)
def test_names_that_are_ours(name: str) -> None:
    """B127."""
    text = refusal(ColumnWish(), ("id", name))
    assert f"column {name} has the name of one of ours" in text
    assert f"rename: {{{name}: …}}" in text
    assert "renamed to" in refusal(ColumnWish(rename={"note": name}))


def test_a_computed_key_is_refused() -> None:
    """B043: whatever the case it is named in, and a stored one is not."""
    check_keys(("id",), ("twice",), where="t")
    for keys in (("twice",), ("id", "TWICE")):
        with pytest.raises(UnsupportedColumnError, match="is computed"):
            check_keys(keys, ("twice",), where="t")


def test_computed_columns_alone_are_no_table() -> None:
    assert "computed" in refusal(ColumnWish(("twice",)))


def test_a_changed_case_is_the_same_column() -> None:
    """B146: a column that comes back in another case goes on in the column that is there."""
    assert adopt([Chosen("status", "status")], ["id", "Status"]) == (Chosen("status", "Status"),)


def test_names_are_found_exactly_first() -> None:
    """B125."""
    assert find_name("id", ["Id", "id"]) == "id"
    assert find_name("ID", ["Id"]) == "Id"
    assert find_name("ID", ["Id", "id"]) is None


@pytest.mark.parametrize(
    ("one", "other"), [("Straße", "STRAßE"), ("K", "\N{KELVIN SIGN}"), ("ı", "I"), ("é", "É")]
)
def test_names_that_java_takes_for_one(one: str, other: str) -> None:
    assert folded(one) == folded(other)


@pytest.mark.parametrize(("one", "other"), [("ß", "ss"), ("e", "é"), ("a b", "a  b")])
def test_names_that_differ(one: str, other: str) -> None:
    assert folded(one) != folded(other)


@pytest.mark.parametrize("name", ["Unit Price", "a,b", "a;b", "(x)", "a=b", "a\tb", "a\nb", "{x}"])
def test_new_names_that_a_table_without_mapping_cannot_hold(name: str) -> None:
    """B123."""
    assert is_refused(name)
    with pytest.raises(UnsupportedColumnError, match="rename"):
        check_unmapped(["id", name], ["id"], where="t")
    check_unmapped(["id", name], ["id", name], where="t")


@pytest.mark.parametrize("name", ["a.b", "ü", "a'b", 'a"b', "`", "[x]", "a-b", "$", "#"])
def test_names_that_any_table_can_hold(name: str) -> None:
    assert not is_refused(name)
