"""Errors: one sentence with a code, picklable, and each code once."""

import pickle

import pyarrow as pa
import pytest
from deltalake.exceptions import DeltaError

from cdc_assets import errors
from cdc_assets.errors import CdcError, LakeDamagedError, UnexpectedError, expected
from cdc_assets.lake.failures import lake_error

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
        "spark_unavailable",
    }


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (pa.ArrowInvalid("Failed to parse string: 'hunter2' as int32"), "ArrowInvalid"),
        (pa.ArrowTypeError("Expected bytes, got a 'hunter2'"), "ArrowTypeError"),
        (ValueError("invalid literal: hunter2"), "ValueError"),
        (DeltaError("Cast error: no 12345 in Int32, nor 'hun'ter2'"), "DeltaError: Cast error: no"),
        (KeyError("hunter2"), "KeyError: …"),
        (RuntimeError("nobody foresaw this"), "RuntimeError: nobody foresaw this"),
    ],
)
def test_an_unforeseen_error_shows_no_value(error: Exception, what: str) -> None:
    """A value of the data may stand in any text; the log has it, with the traceback."""
    assert lake_error(error, "/lake/sales/bronze/items") is None
    ours = expected(error)
    assert isinstance(ours, UnexpectedError)
    assert ours.what.startswith(what)
    assert not any(value in str(ours) for value in ("hunter2", "12345", "ter2"))


def test_only_what_a_lake_raises_tells_of_a_lake() -> None:
    text = "Failed to parse: invalid json"
    assert isinstance(lake_error(DeltaError(text), "/lake/bronze/items"), LakeDamagedError)
    assert isinstance(lake_error(OSError(text), "/lake/bronze/items"), LakeDamagedError)
    assert lake_error(pa.ArrowInvalid(text), "/lake/bronze/items") is None
    assert lake_error(RuntimeError(text), "/lake/bronze/items") is None
