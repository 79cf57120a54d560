"""tables.yaml: what is wrong, in which line, and what is allowed there."""

from datetime import timedelta
from pathlib import Path

import pytest

from cdc_assets.errors import SettingsError
from cdc_assets.settings import EngineName, load_settings
from cdc_assets.settings.load import connection_text

GOOD = """\
databases:
  sales:
    connection: Server=x;PWD=canary-7f3a
    lake: ./lake
    defaults: {engine: arrow, finality: {granularity: hour, allowed_delay: 15m}}
    tables:
      dbo_orders:
      dbo_lineitem: {engine: spark, finality: {granularity: day, allowed_delay: 2h}}
"""

# name, text, words that the error must have
BROKEN = [
    ("unknown key", "databases:\n  s:\n    tables:\n      t: {engin: arrow}\n",
     ["tables.yaml:4", "engin", "Did you mean engine?", "Allowed:"]),
    ("wrong value", "databases:\n  s:\n    tables:\n      t: {engine: flink}\n",
     ["tables.yaml:4", "databases.s.tables.t.engine", "'arrow'", "'spark'"]),
    ("bad table key", "databases:\n  s:\n    tables:\n      'a b':\n", ["tables.yaml:4", "a b"]),
    ("bad webhook",
     "databases:\n  s:\n    alerts: {webhook: hooks.example/x}\n    tables: {t: }\n",
     ["tables.yaml:3", "alerts.webhook", "https?://|env:|file:"]),
    ("no tables", "databases:\n  s:\n    lake: x\n", ["tables.yaml:2", "tables is missing"]),
    ("empty tables", "databases:\n  s:\n    tables: {}\n", ["tables.yaml:3", "tables"]),
    ("bad duration",
     "databases:\n  s:\n    defaults:\n      finality: {allowed_delay: 3}\n    tables: {t: }\n",
     ["tables.yaml:4", "allowed_delay", "30s, 15m, 2h or 1d"]),
    ("bad owner", "databases:\n  s:\n    tables:\n      t: {owner: bob}\n",
     ["tables.yaml:4", "owner", "team:name"]),
    ("not YAML", "databases:\n  - x: [\n", ["tables.yaml:3"]),
    ("a tab", "databases:\n\ts: 1\n", ["tables.yaml:2"]),
    ("an alias within itself", "databases: &a\n  s: *a\n", ["tables.yaml:1", "below each other"]),
    ("empty", "", ["tables.yaml:1"]),
    ("a list", "- 1\n", ["tables.yaml:1"]),
    ("unset variable", "databases:\n  s:\n    lake: ${CDC_NOT_SET}\n    tables: {t: }\n",
     ["tables.yaml:3", "CDC_NOT_SET", "databases.s.lake"]),
    ("no lake", "databases:\n  s:\n    lake: ftp://a/b\n    tables: {t: }\n",
     ["tables.yaml:3", "ftp://", "abfss"]),
    ("two engines on S3",
     "databases:\n  s:\n    lake: s3://a/b\n    spark: {master: spark://h:1}\n    tables: {t: }\n",
     ["databases.s", "`engine: auto` of t", "`engine: arrow`"]),
    ("no address",
     "databases:\n  s:\n    spark:\n      master: sc:///;token=canary-7f3a\n    tables: {t: }\n",
     ["tables.yaml:4", "databases.s.spark.master", "sc://host:port"]),
    ("a wave of no time",
     "databases:\n  s:\n    tables:\n      t: {wave_seconds: 0}\n",
     ["tables.yaml:4", "databases.s.tables.t.wave_seconds", "greater than or equal to 1"]),
    ("out of range", "databases:\n  s:\n    num_partitions: 0\n    tables: {t: }\n",
     ["tables.yaml:3", "num_partitions"]),
]  # fmt: skip


def write(folder: Path, text: str) -> Path:
    file = folder / "tables.yaml"
    file.write_text(text)
    return file


def test_a_good_file(tmp_path: Path) -> None:
    sales = load_settings(write(tmp_path, GOOD)).databases["sales"]
    assert sales.lake == str(tmp_path / "lake")
    assert sales.engine_of("dbo_orders") is EngineName.ARROW
    assert sales.engine_of("dbo_lineitem") is EngineName.SPARK
    assert sales.finality_of("dbo_lineitem").allowed_delay == timedelta(hours=2)
    assert sales.finality_of("dbo_orders").granularity == "hour"
    assert sales.instance_of("dbo_orders") == "dbo_orders"


def test_rows_of_a_chunk_or_the_time_of_a_wave(tmp_path: Path) -> None:
    """Rows go before time, and what a table says before what the database does."""
    text = """
databases:
  timed: {tables: {t: , own: {wave_seconds: 5}, sized: {wave_seconds: 5, chunk_rows: 7}}}
  sized: {defaults: {chunk_rows: 9}, tables: {t: , own: {wave_seconds: 5}, both: {chunk_rows: 7}}}
"""
    found = load_settings(write(tmp_path, text)).databases
    rows = {f"{d}.{t}": one.chunk_rows_of(t) for d, one in found.items() for t in one.tables}
    assert rows == {
        **{"timed.t": None, "timed.own": None, "timed.sized": 7},
        **{"sized.t": 9, "sized.own": None, "sized.both": 7},
    }
    assert [found["timed"].wave_seconds_of(t) for t in ("t", "own")] == [60, 5]


@pytest.mark.parametrize(("text", "words"), [b[1:] for b in BROKEN], ids=[b[0] for b in BROKEN])
def test_a_broken_file_is_one_clear_sentence(tmp_path: Path, text: str, words: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(write(tmp_path, text))
    message = str(caught.value)
    assert [word for word in words if word not in message] == []
    assert "\n" not in message


def test_no_file_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot read .*tables.yaml.*CDC_TABLES"):
        load_settings(tmp_path / "tables.yaml")


def test_a_file_in_another_encoding_is_told(tmp_path: Path) -> None:
    (tmp_path / "tables.yaml").write_bytes("# Grüße\n".encode("latin-1"))
    with pytest.raises(SettingsError, match="not UTF-8"):
        load_settings(tmp_path / "tables.yaml")


def test_variables_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CDC_X", "s3a://bucket/lake")
    text = (
        "databases:\n  s:\n    lake: ${CDC_X}\n    ca_file: ${CDC_Y:-ca.pem}\n    tables: {t: }\n"
    )
    loaded = load_settings(write(tmp_path, text)).databases["s"]
    assert loaded.lake == "s3a://bucket/lake"
    assert loaded.ca_file == str(tmp_path / "ca.pem")


def test_a_connection_can_stand_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "x.odbc").write_text("Server=y;PWD=canary-7f3a\n")
    text = "databases:\n  s:\n    connection: file:x.odbc\n    tables: {t: }\n"
    loaded = load_settings(write(tmp_path, text)).databases["s"]
    assert connection_text(loaded, where="s") == "Server=y;PWD=canary-7f3a"
    (tmp_path / "x.odbc").unlink()
    with pytest.raises(SettingsError, match="cdc-assets sandbox"):
        connection_text(loaded, where="s")


def test_secrets_are_not_printed(tmp_path: Path) -> None:
    assert "canary-7f3a" not in repr(load_settings(write(tmp_path, GOOD)))
    connect = GOOD + "    spark: {master: 'sc://h/;token=canary-7f3a'}\n"
    assert "canary-7f3a" not in repr(load_settings(write(tmp_path, connect)))
