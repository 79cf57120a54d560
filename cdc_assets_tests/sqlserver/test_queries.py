"""T-SQL texts: names quoted, values as parameters, nothing inlined unchecked."""

import pytest

from cdc_assets.lsn import Lsn
from cdc_assets.sqlserver import queries


@pytest.mark.parametrize(
    ("name", "expected"),
    [("t", "[t]"), ("a]b", "[a]]b]"), ("[x] --", "[[x]] --]"), ("ü 'q' \"d\"", "[ü 'q' \"d\"]")],
)
def test_quoted(name: str, expected: str) -> None:
    """B120."""
    assert queries.quoted(name) == expected


@pytest.mark.parametrize("name", ["", "x" * 129, "a\0b"])
def test_what_cannot_be_a_name(name: str) -> None:
    with pytest.raises(ValueError, match="not a SQL Server identifier"):
        queries.quoted(name)


def test_an_instance_cannot_leave_its_brackets() -> None:
    text = queries.has_changes(["a]; DROP TABLE t; --"])
    assert "cdc.[a]]; DROP TABLE t; --_CT]" in text


def test_marks_and_parameters_agree() -> None:
    assert queries.has_changes(["a", "b"]).count("?") == 6
    assert queries.watermarks(3).count("?") == 6
    assert queries.read_changes("a", [("x", "x")]).count("?") == 2
    assert queries.integer_range("k", "int", first=True, last=False).count("?") == 1
    assert queries.integer_range("k", "int", first=False, last=False).count("?") == 2
    assert queries.integer_range("k", "int", first=True, last=True) == ""


def test_changes_come_in_the_order_they_happened() -> None:
    text = queries.read_changes("a", [("x", "x")])
    order = "ct.[__$start_lsn], ct.[__$command_id], ct.[__$seqval], ct.[__$operation]"
    assert text.endswith(f"ORDER BY {order}")


def test_an_empty_range_is_never_read() -> None:
    with pytest.raises(ValueError, match="empty range"):
        queries.closed_range(Lsn.of_int(2), Lsn.of_int(1))


def test_only_integer_types_are_inlined() -> None:
    with pytest.raises(ValueError, match="not an integer"):
        queries.integer_range("k", "int) OR (1=1", first=True, last=False)


def test_never_nolock() -> None:
    text = " ".join(
        [
            queries.read_table("s", "t", [("c", "c")]),
            queries.read_changes("i", [("c", "c")]),
            queries.MAX_LSN,
        ]
    ).upper()
    assert "NOLOCK" not in text
    assert "READ UNCOMMITTED" not in text
