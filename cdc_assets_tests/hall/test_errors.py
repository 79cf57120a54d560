"""Errors: one sentence with a code, picklable, and each code once."""

import pickle

import pytest

from cdc_assets import errors
from cdc_assets.errors import CdcError

ALL = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, CdcError) and kind is not CdcError
]


def test_prints_place_what_and_hint() -> None:
    error = errors.DataLossError("rows are gone", where="sales.t", hint="Take a snapshot.")
    assert str(error) == "sales.t: rows are gone. Take a snapshot. [data_loss]"
    assert str(CdcError("it broke")) == "it broke. [error]"


@pytest.mark.parametrize("kind", ALL)
def test_pickles_with_all_it_says(kind: type[CdcError]) -> None:
    error = kind("what", where="where", hint="Hint.")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert (copy.what, copy.where, copy.hint) == ("what", "where", "Hint.")


def test_codes_are_distinct() -> None:
    codes = [kind.code for kind in ALL]
    assert len(set(codes)) == len(codes)


def test_only_these_pass_by_themselves() -> None:
    assert {kind.code for kind in ALL if kind.transient} == {
        "source_unavailable",
        "source_busy",
        "commit_conflict",
    }
