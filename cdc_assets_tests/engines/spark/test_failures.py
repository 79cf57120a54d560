"""A typed error survives the way from a task through Java's text."""

import pytest

from cdc_assets import errors
from cdc_assets.engines.spark.failures import (
    TaskError,
    is_conflict,
    typed_error,
    typed_in_text,
    worker_error,
)
from cdc_assets.sqlserver.odbc_errors import ValueTooLargeError


def kinds(kind: type[errors.CdcError]) -> list[type[errors.CdcError]]:
    return [kind, *(k for below in kind.__subclasses__() for k in kinds(below))]


@pytest.mark.parametrize("kind", kinds(errors.CdcError), ids=lambda kind: kind.code)
def test_every_error_comes_back(kind: type[errors.CdcError]) -> None:
    error = kind("it's <b>gone</b>\nby 5 %", where="dbo.täble", hint='Say "hello".')
    with pytest.raises(TaskError) as caught, typed_in_text():
        raise error
    back = typed_error(RuntimeError(f"java.lang.X: 'Traceback…\n    {caught.value}\n\tat org.y'"))
    assert type(back) is kind
    assert str(back) == str(error)


def test_a_value_too_large_comes_back() -> None:
    with pytest.raises(TaskError) as caught, typed_in_text():
        raise ValueTooLargeError("too large")
    assert isinstance(typed_error(caught.value), ValueTooLargeError)


def test_what_a_task_did_not_foresee_comes_back_as_that_and_without_its_value() -> None:
    with pytest.raises(TaskError) as caught, typed_in_text():
        raise ValueError("failed to parse: 'hunter2'")
    back = typed_error(caught.value)
    assert isinstance(back, errors.UnexpectedError)
    assert back.what == "ValueError"
    assert isinstance(caught.value.__cause__, ValueError), "the log has the traceback"


def test_other_failures_pass() -> None:
    assert typed_error(RuntimeError("Job aborted")) is None


def test_what_workers_lack_is_told_by_name() -> None:
    text = "[PYTHON_EXCEPTION] …\nModuleNotFoundError: No module named 'cdc_assets.lake'\n\tat x"
    found = worker_error(RuntimeError(text))
    assert isinstance(found, errors.ExtraMissingError)
    assert found.what == "Spark's workers have no Python module cdc_assets.lake"
    found = worker_error(RuntimeError("[PYTHON_VERSION_MISMATCH] Python in worker has 3.12"))
    assert found is not None
    assert found.what == "Spark's workers have another minor version of Python"
    assert worker_error(RuntimeError("Job aborted")) is None


def test_the_task_says_in_words_what_happened() -> None:
    assert "it is gone. [data_loss]" in str(TaskError(errors.DataLossError("it is gone")))


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("[DELTA_CONCURRENT_APPEND.WITHOUT_HINT] Transaction conflict", True),
        ("[DELTA_CONCURRENT_TRANSACTION] ConcurrentTransactionException", True),
        ("[DELTA_METADATA_CHANGED] MetadataChangedException", True),
        ("io.delta.exceptions.ConcurrentDeleteReadException: x", True),
        ("[DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE] x", False),
        ("java.util.ConcurrentModificationException", False),
    ],
)
def test_lost_conflicts_are_told_from_other_failures(text: str, lost: bool) -> None:
    assert is_conflict(RuntimeError(text)) is lost
