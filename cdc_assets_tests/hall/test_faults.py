"""Fault points: each is reached somewhere in the code, and costs nothing unarmed."""

import ast
import time
from pathlib import Path

import pytest

import cdc_assets
from cdc_assets import faults
from cdc_assets.faults import FaultPoint

ROOT = Path(cdc_assets.__file__).parent


def reached() -> list[str]:
    nodes = (
        node
        for file in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    )
    return [node.attr for node in nodes if ast.unparse(node.value) == "FaultPoint"]


def test_every_point_is_reached_once() -> None:
    assert sorted(reached()) == sorted(point.name for point in FaultPoint)


def test_an_unarmed_point_does_nothing() -> None:
    started = time.monotonic()
    faults.reach(FaultPoint.BRONZE_APPENDED)
    assert time.monotonic() - started < 0.1


def test_an_armed_point_says_so_and_stops(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(faults, "STOP_SECONDS_MAX", 0.01)
    monkeypatch.setenv(faults.POINT_VARIABLE, FaultPoint.BRONZE_APPENDED)
    monkeypatch.setenv(faults.FILE_VARIABLE, str(tmp_path / "reached"))
    faults.reach(FaultPoint.FACTS_WRITTEN)
    assert not (tmp_path / "reached").exists()
    faults.reach(FaultPoint.BRONZE_APPENDED)
    assert (tmp_path / "reached").exists()
