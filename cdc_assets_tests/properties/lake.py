"""The lake of a history as its readers see it: Delta tables, and nothing of the product's code."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from cdc_assets_tests.properties.keys import Key
from cdc_assets_tests.properties.logs import Log
from cdc_assets_tests.properties.model import Table, Values, View

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Taken:
    """A snapshot as its events tell it: at S, `time` (UTC) is that LSN's.

    `moves`: the changes of the table start at it. `closes`: it was taken for a loss.
    """

    lsn: str
    time: datetime
    chunked: bool
    complete: bool
    moves: bool
    closes: bool


@dataclass(frozen=True)
class Chunk:
    """A chunk that was read: its number, wave and stamp, and its bounds as texts."""

    snapshot: str
    number: int
    wave: int
    stamp: str
    lower: str | None
    upper: str | None


class Lake:
    """Reads the tables below a folder; what has not changed is not read again.

    It follows their logs by itself, since a history is looked at dozens of times; that a Delta
    reader sees the same is looked at in the end (`assert_readers_agree`).
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._logs: dict[str, Log] = {}
        self._seen: dict[str, tuple[int, list[Record]]] = {}

    def version(self, name: str) -> int | None:
        """A table's newest version; None where it is not there."""
        log = self._logs.setdefault(name, Log(self._folder / name))
        return log.newest()

    def rows(self, name: str) -> list[Record]:
        """All rows of a table as it is now; none where it is not there."""
        version = self.version(name)
        if version is None:
            return []
        seen = self._seen.get(name)
        if seen is None or seen[0] != version:
            seen = self._seen[name] = (version, self.rows_at(name, version))
        return seen[1]

    def rows_at(self, name: str, version: int) -> list[Record]:
        """The same at a version."""
        rows = self._logs[name].rows(version)
        return self._queried(name, version) if rows is None else rows

    def _queried(self, name: str, version: int | None) -> list[Record]:
        found = DeltaTable(self._folder / name, version=version)
        batches = QueryBuilder().register("t", found).execute("SELECT * FROM t").read_all()
        rows: list[Record] = pa.table(batches).to_pylist()
        return rows

    def assert_readers_agree(self) -> None:
        """A Delta reader sees what has been looked at, in every table."""
        for name in list(self._logs):
            if (version := self.version(name)) is not None:
                theirs = Counter(map(_values, self._queried(name, None)))
                assert Counter(map(_values, self.rows(name))) == theirs, f"{name}, {version}"

    def bronze(self, table: Table) -> list[Record]:
        """Bronze's rows, in no order."""
        return self.rows(f"bronze/{table.key}")

    def silver(self, table: Table, version: int | None = None) -> View:
        """Silver's rows by key, without those that are deleted."""
        rows = self.silver_rows(table, version)
        return {key: values_of(row) for key, row in rows.items() if row.get("_deleted_at") is None}

    def silver_rows(self, table: Table, version: int | None = None) -> dict[Key, Record]:
        """All of them; raises `AssertionError` where one key has two."""
        name = f"silver/{table.key}"
        rows = self.rows(name) if version is None else self.rows_at(name, version)
        found = {key_of(table, row): row for row in rows}
        assert len(found) == len(rows), f"silver of {table.name} has a key twice"
        return found

    def history(self, table: Table) -> list[Record]:
        """The states of its keys."""
        return self.rows(f"history/{table.key}")

    def control(self, layer: str, table: Table) -> Record:
        """A table's control row; empty where there is none."""
        wanted = f"{layer}/{table.key}"
        return next((r for r in self.rows("_cdc/control") if r["table_name"] == wanted), {})

    def events(self, table: Table) -> list[Record]:
        """The events of a table, in the order of their writing."""
        target = f"bronze/{table.key}"
        rows = [r for r in self.rows("_cdc/facts") if r["target"] == target and r["event"]]
        return sorted(rows, key=lambda row: row["written_at"])

    def snapshots(self, table: Table) -> list[Taken]:
        """Its snapshots by S, those that are open too."""
        found: dict[str, Taken] = {}
        events = self.events(table)
        done = {r["max_lsn"] for r in events if r["event"] in ("bootstrap", "resnapshot")}
        for row in events:
            if row["event"] != "snapshot_open":
                continue
            detail, lsn = json.loads(row["detail"]), row["max_lsn"]
            chunked, closes = detail.get("mode") == "chunked", row["lost_from_ts"] is not None
            starts = closes or detail.get("kind", "bootstrap") == "bootstrap"
            found[lsn] = Taken(
                lsn,
                row["max_commit_ts"],
                chunked,
                lsn in done,
                starts and (chunked or lsn in done),
                closes,
            )
        return [found[lsn] for lsn in sorted(found)]

    def stamps(self, table: Table) -> set[str]:
        """The LSNs that rows of its snapshots have."""
        kinds = ("snapshot_open", "snapshot_chunk")
        return {row["min_lsn"] for row in self.events(table) if row["event"] in kinds}

    def chunks(self, table: Table, snapshot: str) -> list[Chunk]:
        """The chunks of a snapshot that are told of."""
        target = f"bronze/{table.key}"
        planned = {
            row["chunk"]: row
            for row in self.rows("_cdc/plans")
            if (row["target"], row["snapshot"]) == (target, snapshot) and row["chunk"] is not None
        }
        found = []
        for row in self.events(table):
            detail = json.loads(row["detail"]) if row["event"] == "snapshot_chunk" else {}
            if detail.get("snapshot") == snapshot:
                plan = planned[detail["chunk"]]
                bounds = [json.loads(plan[b])[0] if plan[b] else None for b in ("lower", "upper")]
                place = (snapshot, detail["chunk"], detail["wave"], row["min_lsn"])
                found.append(Chunk(*place, *bounds))
        return found


def key_of(table: Table, row: Record) -> Key:
    """A row's key."""
    return tuple(row[name] for name in table.kind.columns)


def values_of(row: Record) -> Values:
    """A row's other captured columns; one that the table has not got yet is NULL."""
    return row["n"], row["note"], row.get("extra")


def _values(row: Record) -> tuple[tuple[str, Any], ...]:
    """A row's values that are not NULL, whatever other columns its file has."""
    return tuple(sorted((name, value) for name, value in row.items() if value is not None))


def place_of(row: Record) -> tuple[str, int, str, int]:
    """A row's place in the order that is the latest image's."""
    command, sequence = row["_command_id"], row["_seqval"]
    return (
        row["_start_lsn"],
        -1 if command is None else command,
        sequence or "",
        row["_operation"],
    )


def reduced(table: Table, rows: list[Record]) -> View:
    """The latest image of each key; keys whose latest one is a delete, or left behind, are gone."""
    latest: dict[Key, Record] = {}
    for row in sorted(rows, key=place_of):
        latest[key_of(table, row)] = row
    return {key: values_of(r) for key, r in latest.items() if r["_operation"] not in (1, 3)}
