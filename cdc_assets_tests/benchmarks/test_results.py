"""What a run leaves behind: results.json, results.md and the plot."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.machine import Machine
from benchmarks.plot import SVG_NAME, headroom, write_plot
from benchmarks.report import MD_NAME, number, write_report
from benchmarks.results import JSON_NAME, Row, merged, on, read_rows, write_rows

FIELDS = ["name", "value", "unit", "target", "holds", "compared_with", "scale", "details"]
MACHINE = Machine("2 cores of X", "Python 3.11", "2026-01-15 10:00 UTC", load=0.0, cores=2)
ROW = Row("fast", 0.9, "x", 0.85, True, "the limit", 1.0, {"target_is": "at least"})
FAILED = Row("broken", None, "s", 1.0, None, "the peer", 1.0, {"error": "no Java\nat all"})
ORDER = ["fast", "broken", "other"]


def test_results_json_is_a_list_of_rows_with_exactly_these_fields(tmp_path: Path) -> None:
    write_rows(tmp_path, [ROW, FAILED])
    found = json.loads((tmp_path / JSON_NAME).read_text())
    assert [list(row) for row in found] == [FIELDS, FIELDS]
    assert found[0]["value"] == 0.9
    assert found[1]["value"] is None
    assert found[1]["details"]["error"] == "no Java\nat all"


def test_rows_come_back_as_they_were_written(tmp_path: Path) -> None:
    write_rows(tmp_path, [ROW, FAILED])
    assert read_rows(tmp_path) == [ROW, FAILED]


@pytest.mark.parametrize("text", ["", "{", '[{"name": 1}]', "3"])
def test_a_broken_file_of_earlier_results_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / JSON_NAME).write_text(text)
    assert read_rows(tmp_path) == []


def test_other_benchmarks_keep_what_this_machine_measured_before(tmp_path: Path) -> None:
    old = on(MACHINE, [replace(ROW, value=0.1), replace(ROW, name="other")])
    write_rows(tmp_path, old)
    new = on(MACHINE, [ROW])
    assert merged(tmp_path, new, MACHINE, ORDER) == [new[0], old[1]]


def test_rows_of_another_machine_or_of_a_benchmark_that_is_gone_are_dropped(
    tmp_path: Path,
) -> None:
    other = replace(MACHINE, hardware="64 cores of Y")
    write_rows(
        tmp_path,
        [*on(other, [replace(ROW, name="other")]), *on(MACHINE, [replace(ROW, name="gone")])],
    )
    assert merged(tmp_path, [ROW], MACHINE, ORDER) == [ROW]


def test_the_report_has_a_line_a_row_and_says_what_it_was_measured_on(tmp_path: Path) -> None:
    missed = replace(ROW, name="other", value=0.5, holds=False)
    write_report(tmp_path, on(MACHINE, [ROW, FAILED, missed]), MACHINE)
    text = (tmp_path / MD_NAME).read_text()
    assert "| `fast` | the limit | 0.9 x | ≥ 0.85 | yes | 1 | 2026-01-15 10:00 UTC |" in text
    assert "| `broken` | the peer | error | ≤ 1 |  | 1 |" in text
    assert "| `other` | the limit | 0.5 x | ≥ 0.85 | **no** |" in text
    assert "error: no Java at all" in text
    assert "Machine: 2 cores of X." in text
    assert "Noise" not in text


def test_the_report_says_when_others_worked_on_the_machine(tmp_path: Path) -> None:
    busy = replace(MACHINE, load=3.5)
    write_report(tmp_path, [ROW], busy)
    text = (tmp_path / MD_NAME).read_text()
    assert "load average was 3.5 on 2 cores" in text
    assert "noisy" in text


def test_headroom_is_above_one_where_the_target_holds() -> None:
    assert headroom(ROW) == pytest.approx(0.9 / 0.85)
    assert headroom(replace(ROW, value=0.01, target=0.02, details={})) == pytest.approx(2)
    assert headroom(FAILED) is None
    assert headroom(replace(ROW, target=None)) is None


def test_the_plot_is_a_picture_even_of_nothing(tmp_path: Path) -> None:
    for rows in ([], [FAILED], [ROW, replace(ROW, compared_with="a < b & c")]):
        write_plot(tmp_path, rows)
        ElementTree.parse(tmp_path / SVG_NAME)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1234567.0, "1,234,567"), (0.0123456, "0.0123"), (0.00001234, "0.000012"), (12.0, "12")],
)
def test_numbers_are_short_and_plain(value: float, text: str) -> None:
    assert number(value) == text


def test_this_machine_is_described() -> None:
    here = Machine.here()
    assert here.cores >= 1
    assert "cores of" in here.hardware
    assert "Python 3" in here.versions
    assert "deltalake" in here.versions
