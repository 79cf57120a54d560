"""T-SQL texts: names quoted, values as parameters, nothing inlined unchecked."""

import pytest

from cdc_assets.lsn import Lsn
from cdc_assets.planning.ranges import Seek
from cdc_assets.sqlserver import change_queries as changes
from cdc_assets.sqlserver import queries
from cdc_assets.sqlserver.change_queries import ChangeTable

LSN = "0x0000002A000000830001"
WHOLE = Seek((), LSN, "0x0000002A000000990001", 100)
PIECES = [
    Seek((), LSN, LSN, 7),
    Seek((LSN,), None, None, 4),
    Seek((LSN,), "1", "3", 6),
    Seek((LSN, None), LSN, "0x0000002A000000830009", 3),
    Seek((LSN, "4"), LSN, LSN, 2),
]


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
    assert queries.has_changes(["a", "b"]).count("?") == 4
    assert queries.watermarks(3).count("?") == 3
    assert queries.integer_range("k", "int", first=True, last=False).count("?") == 1
    assert queries.integer_range("k", "int", first=False, last=False).count("?") == 2
    assert queries.integer_range("k", "int", first=True, last=True) == ""


def test_changes_come_in_the_order_they_happened() -> None:
    """B032: neither without the command, whose statement it is, nor without the row."""
    for seeks in ([WHOLE], PIECES):
        text = changes.read_changes(ChangeTable("a"), [("x", "x")], seeks)
        order = "ct.[__$start_lsn], ct.[__$command_id], ct.[__$seqval], ct.[__$operation]"
        assert text.endswith(f"ORDER BY {order}")


def test_an_old_change_table_is_not_asked_for_the_command() -> None:
    """Some builds of 2016 lack `__$command_id`."""
    old = ChangeTable("a", has_command_id=False)
    commit = Seek((), LSN, LSN, 9)
    row = Seek((LSN,), LSN, LSN, 2)
    for text in (
        changes.read_changes(old, [("x", "x")], [WHOLE, row]),
        changes.tile_changes(old, commit, 3),
    ):
        assert "__$command_id" not in text
    text = changes.read_changes(old, [("x", "x")], [WHOLE])
    assert "CAST(NULL AS int) AS [_command_id]" in text
    assert text.endswith("ORDER BY ct.[__$start_lsn], ct.[__$seqval], ct.[__$operation]")
    assert "NTILE(3) OVER (ORDER BY [__$seqval])" in changes.tile_changes(old, commit, 3)


@pytest.mark.parametrize("seeks", [[seek] for seek in PIECES] + [PIECES], ids=str)
def test_every_mark_of_a_piece_has_its_value(seeks: list[Seek]) -> None:
    table = ChangeTable("a")
    for text in (
        changes.read_changes(table, [("x", "x")], seeks),
        changes.read_changes(table, [("x", "x")], seeks, ordered=False),
    ):
        assert text.count("?") == len(changes.parameters(seeks))


def test_null_is_never_in_a_range() -> None:
    with pytest.raises(ValueError, match="NULL is a range of its own"):
        changes.read_changes(ChangeTable("a"), [], [Seek((LSN,), None, "3", 9)])


def test_an_empty_range_is_never_read() -> None:
    with pytest.raises(ValueError, match="empty range"):
        changes.closed_range(Lsn.of_int(2), Lsn.of_int(1))


def test_only_integer_types_are_inlined() -> None:
    with pytest.raises(ValueError, match="not an integer"):
        queries.integer_range("k", "int) OR (1=1", first=True, last=False)


def test_never_nolock() -> None:
    text = " ".join(
        [
            queries.read_table("s", "t", [("c", "c")]),
            changes.read_changes(ChangeTable("i"), [("c", "c")], PIECES),
            queries.MAX_LSN,
        ]
    ).upper()
    assert "NOLOCK" not in text
    assert "READ UNCOMMITTED" not in text
