"""The commands in this process: what they print, and what they end with."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from cdc_assets.cli import main
from cdc_assets_tests.source import Project


@dataclass(frozen=True)
class Ended:
    """What a command printed, and its exit status."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Its standard output, which is one JSON document and nothing else."""
        return json.loads(self.out)


@dataclass
class Commands:
    """Runs commands."""

    monkeypatch: pytest.MonkeyPatch
    capfd: pytest.CaptureFixture[str]

    def run(self, *words: str) -> Ended:
        """One command, as `cdc-assets` would run it."""
        self.monkeypatch.setattr("sys.argv", ["cdc-assets", *words])
        self.capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = self.capfd.readouterr()
        return Ended(int(ended.value.code or 0), out, err)

    def of(self, project: Project) -> Commands:
        """The same, on the settings of a project, as they are now."""
        self.monkeypatch.setenv("CDC_TABLES", str(project.write()))
        return self


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Commands:
    monkeypatch.setenv("COLUMNS", "200")
    return Commands(monkeypatch, capfd)
