"""Where local state lives: `.cdc/` beside `tables.yaml`, ignored by git."""

from __future__ import annotations

import os
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

from cdc_assets.settings import DatabaseSettings, find_settings


@dataclass(frozen=True, slots=True)
class Home:
    """The folders of a local run."""

    project: Path

    @classmethod
    def here(cls) -> Home:
        """The home beside the settings file in use."""
        return cls(find_settings().parent)

    @property
    def state(self) -> Path:
        """All local state."""
        return self.project / ".cdc"

    @property
    def sandbox(self) -> Path:
        """The sandbox's data, certificates and connection files."""
        return self.state / "sandbox"

    @property
    def dagster(self) -> Path:
        """Dagster's home."""
        return self.state / "dagster"

    def uses_sandbox(self, database: DatabaseSettings) -> bool:
        """Whether a database of the settings is the sandbox's."""
        return database.connection.startswith(f"file:{self.sandbox}/")

    def use_dagster(self) -> None:
        """Make Dagster's home and point this process and its children at it."""
        self.dagster.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.project / "dagster.yaml", self.dagster / "dagster.yaml")
        os.environ["DAGSTER_HOME"] = str(self.dagster)


def free_port() -> int:
    """A port on loopback that nobody listens on just now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
