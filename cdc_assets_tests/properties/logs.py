"""A Delta table's log and files, each read once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq


class Log:
    """What the commits of a table have added and removed, followed as they come.

    Commits are looked for one after the other, so their files must stay: no history cleans up logs.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: list[frozenset[str]] = []
        """The files of each version."""
        self._inode = 0
        self._is_plain = True
        self._rows: dict[str, list[dict[str, Any]]] = {}

    def newest(self) -> int | None:
        """The newest version; None where there is no table."""
        if not self._commit(0).exists():
            return None
        if (inode := self._commit(0).stat().st_ino) != self._inode:
            # Another table is in its place.
            self._inode, self._files, self._is_plain, self._rows = inode, [], True, {}
        for commit in self._new():
            self._follow(commit)
        return len(self._files) - 1

    def rows(self, version: int) -> list[dict[str, Any]] | None:
        """The rows of a version; None where its files alone do not say them."""
        if not self._is_plain:
            return None
        return [row for file in sorted(self._files[version]) for row in self._read(file)]

    def _commit(self, version: int) -> Path:
        return self._folder / "_delta_log" / f"{version:020}.json"

    def _new(self) -> Iterator[Path]:
        while (commit := self._commit(len(self._files))).exists():
            yield commit

    def _follow(self, commit: Path) -> None:
        files = set(self._files[-1]) if self._files else set[str]()
        added = []
        for line in commit.read_text().splitlines():
            action = json.loads(line)
            if "remove" in action:
                files.discard(action["remove"]["path"])
            if "add" in action:
                added.append(action["add"])
        for file in added:
            files.add(file["path"])
            # Rows that are marked as deleted, and values that stand in the log alone.
            self._is_plain &= not file.get("deletionVector") and not file.get("partitionValues")
        self._files.append(frozenset(files))

    def _read(self, file: str) -> list[dict[str, Any]]:
        if file not in self._rows:
            table = pq.ParquetFile(self._folder / unquote(file)).read()
            self._rows[file] = table.to_pylist()
        return self._rows[file]
