"""Debezium's connector as a process: its configuration, its events, and what they reduce to."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from cdc_assets.sandbox.handle import Sandbox
from cdc_assets_tests.clients.java import TRUST_PASSWORD, java_program, trust_store

Event = dict[str, Any]
PREFIX = "db"
ENDING_SECONDS_MAX = 60.0
_LAST_LINES = 40


@dataclass(frozen=True)
class Connector:
    """One connector's configuration and the folder of its offsets and schema history."""

    sandbox: Sandbox
    folder: Path
    options: dict[str, str] = field(default_factory=dict)

    def configuration(self) -> dict[str, str]:
        """Its properties: TLS with the server's name verified, one batch at a time committed."""
        trust = self.folder / "trust.p12"
        if not trust.exists():
            trust_store(self.sandbox.ca_file, trust)
        return {
            "name": "sandbox",
            "connector.class": "io.debezium.connector.sqlserver.SqlServerConnector",
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": str(self.folder / "offsets"),
            "offset.flush.interval.ms": "0",
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": str(self.folder / "history"),
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "database.hostname": "127.0.0.1",
            "database.port": str(self.sandbox.port),
            "database.user": "sa",
            "database.password": self.sandbox.admin_password,
            "database.names": "sales",
            "driver.encrypt": "true",
            "driver.hostNameInCertificate": "localhost",
            "driver.trustStore": str(trust),
            "driver.trustStorePassword": TRUST_PASSWORD,
            "topic.prefix": PREFIX,
            "decimal.handling.mode": "string",
            "tombstones.on.delete": "false",
            "include.schema.changes": "false",
            "poll.interval.ms": "100",
            "errors.max.retries": "0",
            **self.options,
        }

    @contextmanager
    def events(self, table: str, key: int) -> Iterator[Iterator[Event]]:
        """Its events up to the batch that brings a row of a table; it has then ended well."""
        file = self.folder / "connector.properties"
        file.touch(mode=0o600)
        text = "".join(f"{name}={value}\n" for name, value in self.configuration().items())
        file.write_text(text, encoding="utf-8")
        program = [*java_program("debezium", "Stream"), str(file), f"{PREFIX}.sales.{table}"]
        log = self.folder / "connector.log"
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [*program, str(key)], stdout=subprocess.PIPE, stderr=errors, encoding="utf-8"
            )
        try:
            assert process.stdout is not None
            yield (json.loads(line) for line in process.stdout)
            assert process.wait(timeout=ENDING_SECONDS_MAX) == 0, "the connector failed"
        except Exception as error:
            lines = log.read_text(encoding="utf-8").splitlines()
            error.add_note("\n".join(["the connector's log ends with", *lines[-_LAST_LINES:]]))
            raise
        finally:
            process.kill()
            process.wait()


def reduced(events: list[Event]) -> dict[str, dict[str, dict[str, Any]]]:
    """The rows of each table after its events, by the text of the key."""
    tables: dict[str, dict[str, dict[str, Any]]] = {}
    for event in events:
        rows = tables.setdefault(event["topic"].removeprefix(f"{PREFIX}.sales."), {})
        key, value = json.dumps(event["key"]), event["value"]
        if value["op"] == "d":
            assert key in rows, f"deletes {key}, which is not there"
            del rows[key]
        else:
            assert value["op"] != "c" or key not in rows, f"creates {key}, which is there"
            rows[key] = value["after"]
    return tables


def day(number: int) -> date:
    """io.debezium.time.Date: days since 1970."""
    return date(1970, 1, 1) + timedelta(days=number)


def moment(count: int, digits: int) -> str:
    """A datetime2 of this scale: NanoTimestamp counts nanoseconds since 1970, Timestamp ms."""
    seconds, rest = divmod(count // 100 if digits == 7 else count, 10**digits)
    return f"{datetime(1970, 1, 1) + timedelta(seconds=seconds)}.{rest:0{digits}d}"
