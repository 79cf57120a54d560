"""No command shows a secret, whatever is wrong with what it was given (B188).

The commands run in this process: what they print is all there is to search. What runs leave behind
in files, events and tables is searched in `orchestration/test_secrets.py`.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import yaml

from cdc_assets.cli import main
from cdc_assets.sqlserver import connection
from cdc_assets_tests.source import Project

pytestmark = [
    pytest.mark.sqlserver,
    pytest.mark.parametrize("engine_name", ["arrow"], indirect=True),
]

CANARY = "C4nary;}x"
BRACED = "{C4nary;}}x}"
TRACE = "C4nary"
"""What all forms of it begin with."""
COMMANDS = (
    ("sync", "sales"),
    ("snapshot", "sales", "dbo_items"),
    ("doctor", "sales"),
    ("acknowledge", "sales", "dbo_items"),
    ("reset", "--yes", "sales", "dbo_items"),
)
CLOSED = "Server=tcp:127.0.0.1,9;Database=d;UID=reader;"


class Spoken:
    """A project with something wrong in it, and all that its commands say."""

    def __init__(
        self, project: Project, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        self.project, self._capfd, self._caplog = project, capfd, caplog
        self.folder = project.folder

    def database(self, **changes: Any) -> None:
        """Write the settings with these in place of what is there."""
        self.project.write()
        found = yaml.safe_load(self.project.settings_file.read_text())
        found["databases"]["sales"].update(changes)
        self.project.settings_file.write_text(yaml.safe_dump(found))

    def says(self, *words: str, monkeypatch: pytest.MonkeyPatch) -> str:
        """What a command that must fail says, on both streams and in the log."""
        monkeypatch.setattr("sys.argv", ["cdc-assets", *words])
        self._capfd.readouterr()
        self._caplog.clear()
        with self._caplog.at_level(logging.DEBUG), pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code
        out, err = self._capfd.readouterr()
        return out + err + self._caplog.text


@pytest.fixture
def spoken(
    items: Project,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> Spoken:
    monkeypatch.setenv("CDC_TABLES", str(items.settings_file))
    monkeypatch.setattr(connection, "retry_wait_seconds", lambda _: 0.0)
    return Spoken(items, capfd, caplog)


def text_of(items: Project, **changes: str) -> str:
    """The source's connection string with the canary for a password, and other changes."""
    pairs = items.source.server.text(items.source.name).split(";")
    wanted = {"pwd": BRACED, **changes}
    kept = [p for p in pairs if p.split("=")[0].lower() not in wanted]
    return ";".join([*kept, *(f"{key}={value}" for key, value in wanted.items() if value)])


def texts(items: Project) -> dict[str, str]:
    """Connection strings that cannot work."""
    return {
        "wrong password": text_of(items),
        "no such database": text_of(items, database="nothing"),
        "no such user": text_of(items, uid="nobody"),
        "no such driver": text_of(items, driver="/nowhere/driver.so"),
        "no such encryption": text_of(items, encrypt="perhaps"),
        "a brace that is never closed": text_of(items, pwd="{C4nary"),
        "a brace inside": text_of(items, pwd="{C4nary}x;y}"),
        "nobody listens": f"{CLOSED}PWD={BRACED}",
        "a secret where a word belongs": f"{CLOSED}PWD={BRACED};{CANARY}",
        "no string at all": f"{TRACE}",
        "two lines": f"{CLOSED}\nPWD={BRACED}",
    }


def test_a_connection_string_that_cannot_work(
    spoken: Spoken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its file, and in the settings through the environment."""
    file = spoken.folder / "source.odbc"
    for case, text in texts(spoken.project).items():
        spoken.database(connect_timeout_seconds=1)
        file.write_text(text)
        said = spoken.says("sync", "sales", monkeypatch=monkeypatch)
        assert TRACE not in said, case
        assert "Traceback" not in said, case
        spoken.database(connect_timeout_seconds=1, connection="${CDC_CONN}")
        monkeypatch.setenv("CDC_CONN", text)
        said = spoken.says("sync", "sales", monkeypatch=monkeypatch)
        assert TRACE not in said, case


def test_every_command(spoken: Spoken, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in COMMANDS:
        spoken.database(connection=f"{CLOSED}PWD={BRACED}", connect_timeout_seconds=1)
        if words[0] != "reset":
            assert TRACE not in spoken.says(*words, monkeypatch=monkeypatch), words
    (spoken.folder / "lake").write_text("a file where a folder belongs")
    for words in COMMANDS:
        assert TRACE not in spoken.says(*words, monkeypatch=monkeypatch), words


def test_a_file_that_holds_no_text(spoken: Spoken, monkeypatch: pytest.MonkeyPatch) -> None:
    spoken.database()
    for content in (b"PWD=C4nary\xff\xfe", b"", b" \n", "PWD=C4nary".encode("utf-16")):
        (spoken.folder / "source.odbc").write_bytes(content)
        said = spoken.says("sync", "sales", monkeypatch=monkeypatch)
        assert "source.odbc" in said
        assert "[settings]" in said
        assert TRACE not in said, content


WRONG = (
    'connection: "PWD=C4nary',
    "connection: {PWD: C4nary}",
    "connection: [C4nary]",
    "connection: PWD=C4nary: x",
    "connection: PWD=C4nary${NOT_SET_ANYWHERE}",
    "storage_options: C4nary",
    "storage_options: {key: [C4nary]}",
    "storage_options: {key: C4nary",
    "storage_option: {key: C4nary}",
    "password: C4nary",
    "spark: {conf: {spark.hadoop.secret: [C4nary]}}",
    "storage_options: {key: !C4nary}",
    "storage_options: {key: !!C4nary x}",
    "storage_options: {key: *C4nary}",
    "storage_options: {key: '&C4nary', other: *C4nary}",
)
"""Lines of the settings that are wrong where a secret stands."""


def test_settings_that_are_wrong_where_a_secret_stands(
    spoken: Spoken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Said with line and key, never with the value."""
    file: Path = spoken.project.settings_file
    for line in WRONG:
        file.write_text(f"databases:\n  sales:\n    {line}\n    tables:\n      dbo_items:\n")
        said = spoken.says("sync", "sales", monkeypatch=monkeypatch)
        assert "tables.yaml:" in said, line
        assert TRACE not in said, line


STORES = {
    "s3://bucket/x": {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "C4naryId",
        "AWS_SECRET_ACCESS_KEY": CANARY,
        "AWS_SESSION_TOKEN": CANARY,
        "max_retries": "0",
    },
    "abfss://c@account.dfs.core.windows.net/x": {
        "azure_storage_account_name": "account",
        "azure_storage_endpoint": "http://127.0.0.1:9/account",
        "allow_http": "true",
        "azure_storage_sas_key": "sv=2020&sig=C4nary%3D",
        "max_retries": "0",
    },
    "abfss://c@other.dfs.core.windows.net/x": {
        "azure_storage_account_name": "other",
        "azure_storage_account_key": "C4nary is not base64",
        "max_retries": "0",
    },
    "gs://bucket/x": {"google_service_account_key": '{"C4nary": '},
}


def test_a_store_out_of_reach(spoken: Spoken, monkeypatch: pytest.MonkeyPatch) -> None:
    for lake, options in STORES.items():
        spoken.database(lake=lake, storage_options=options)
        for words in COMMANDS:
            said = spoken.says(*words, monkeypatch=monkeypatch)
            assert TRACE not in said, (lake, words)
            assert "[lake_unavailable]" in said, (lake, words)
            assert "Traceback" not in said, (lake, words)
