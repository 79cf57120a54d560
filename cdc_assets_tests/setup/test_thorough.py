"""What `make test` leaves out is what `thorough` names, and it names nothing else."""

from cdc_assets_tests.thorough import ROOT, THOROUGH, is_thorough, unknown

FILE = next(entry for entry in THOROUGH if entry.endswith(".py"))
CASES = next(entry for entry in THOROUGH if "[" in entry)


def test_a_file_and_some_cases_are_left_out() -> None:
    assert is_thorough(f"{FILE}::test_one")
    assert is_thorough(f"{CASES}-more]")
    assert not is_thorough(f"{CASES.partition('[')[0]}[another")
    assert not is_thorough(f"{ROOT}path/test_path.py::test_snapshot_then_changes[arrow]")


def test_a_name_that_is_nobodys_is_found() -> None:
    assert unknown([f"{FILE}::test_one"]) == []
    (one,) = {entry for entry in unknown([CASES.partition("[")[0]]) if entry == CASES}
    assert one == CASES


def test_no_name_is_said_twice() -> None:
    assert len(set(THOROUGH)) == len(THOROUGH)
    for entry in THOROUGH:
        assert not any(entry.startswith(other) for other in THOROUGH if other != entry), entry
