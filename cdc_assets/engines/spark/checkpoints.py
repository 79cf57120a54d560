"""A stream's checkpoint as Spark keeps it, read and extended through Spark's own file manager.

Spark's log of offsets (format v1): one file for each planned micro-batch, whose third line is the
source's offset; and one in `commits` for each that is done. Ours are the generations beside them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError

from cdc_assets.engines.spark.storage import location
from cdc_assets.errors import CheckpointError, SettingsError, first_line
from cdc_assets.planning.generations import Generation, Progress
from cdc_assets.planning.offsets import Offset

_GENERATIONS = "_generations"
_LOG_VERSION = "v1"


class Checkpoints:
    """The generations of one stream below `uri`; the first one is that folder itself."""

    def __init__(self, spark: Any, uri: str) -> None:
        jvm = getattr(spark, "_jvm", None)
        if jvm is None:
            raise SettingsError(
                "a stream into Delta needs a session with a JVM of its own, not Spark Connect",
                hint="Start it where Spark's driver runs.",
            )
        self._uri = location(uri)
        self._jvm = jvm
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()
        package = jvm.org.apache.spark.sql.execution.streaming.checkpointing
        managers = getattr(getattr(package, "CheckpointFileManager$"), "MODULE$")
        with self._failures():
            self._files = managers.create(self._path(""), self._conf)

    def place(self, number: int) -> str:
        """The folder of a generation's checkpoint."""
        return f"{self._uri}/{_GENERATIONS}/{number}" if number else self._uri

    def newest(self) -> Generation | None:
        """The newest generation; raises `CheckpointError` for the folder of another program."""
        names = [name.removesuffix(".json") for name in self._names(_GENERATIONS)]
        numbers = [int(name) for name in names if name.isdigit()]
        if not numbers:
            if self._names("offsets"):
                raise CheckpointError(
                    "it holds offsets, and nothing that says whose",
                    where=self._uri,
                    hint="Give the stream a folder of its own.",
                )
            return None
        file = f"{_GENERATIONS}/{max(numbers)}.json"
        return Generation.from_json(self._read(file), where=f"{self._uri}/{file}")

    def begin(self, generation: Generation) -> None:
        """Write a generation's file, at once and whole; raises `CheckpointError` for a second."""
        path = self._path(f"{_GENERATIONS}/{generation.number}.json")
        with self._failures():
            self._files.mkdirs(self._path(_GENERATIONS))
            if not self._files.exists(path):
                # Of two at once, one is refused: the file is never written over.
                stream = self._files.createAtomic(path, False)
                stream.write(bytearray(generation.to_json().encode()))
                stream.close()
                return
        raise CheckpointError(
            f"generation {generation.number} has begun already",
            where=self._uri,
            hint="Two streams start on one checkpoint: start one.",
        )

    def progress(self, number: int) -> Progress:
        """How far a generation is."""
        folder = self._folder(number)
        planned = self._numbers(f"{folder}offsets")
        done = self._numbers(f"{folder}commits")
        newest = max(planned, default=None)
        planned_end = None if newest is None else self.offset(number, newest)
        end = self.offset(number, max(done)) if done else None
        return Progress(newest, end, planned_end)

    def offset(self, number: int, micro_batch: int) -> Offset:
        """Where a micro-batch ends; raises `CheckpointError` for what is no offset of ours."""
        file = f"{self._folder(number)}offsets/{micro_batch}"
        try:
            version, _, offset = self._read(file).splitlines()
            if version != _LOG_VERSION:
                raise ValueError(version)
            return Offset.from_dict(json.loads(offset))
        except (ValueError, KeyError, TypeError):
            raise CheckpointError(
                f"{file} is no offset of ours in Spark's log format {_LOG_VERSION}",
                where=self._uri,
                hint="Another version of Spark, or another program, wrote the checkpoint.",
            ) from None

    def _folder(self, number: int) -> str:
        return f"{_GENERATIONS}/{number}/" if number else ""

    def _numbers(self, folder: str) -> list[int]:
        return [int(name) for name in self._names(folder) if name.isdigit()]

    def _names(self, folder: str) -> list[str]:
        path = self._path(folder)
        with self._failures():
            if not self._files.exists(path):
                return []
            return [str(status.getPath().getName()) for status in self._files.list(path)]

    def _read(self, file: str) -> str:
        with self._failures():
            stream = self._files.open(self._path(file))
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """What the file system says, as one of our errors."""
        try:
            yield
        except Py4JError as failure:
            raise CheckpointError(
                f"it cannot be read or written ({first_line(str(failure))})",
                where=self._uri,
                hint="Is the place there, and may this process write it?",
            ) from failure

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._uri}/{name}" if name else self._uri)
