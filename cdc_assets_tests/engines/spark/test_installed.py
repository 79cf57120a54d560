"""What the engine needs of the machine is looked for before a JVM is started."""

import subprocess
import sys
from pathlib import Path

import pytest

from cdc_assets.engines.spark import installed
from cdc_assets.errors import CdcError, ExtraMissingError, JavaMissingError


def java(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text("")
    (folder / "bin" / "java").chmod(0o755)
    (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any Java."""
    (tmp_path / "jvm").mkdir()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr(installed, "_JAVA_FOLDERS", (str(tmp_path / "jvm"),))
    return tmp_path


def test_without_java_the_error_says_what_to_install(machine: Path) -> None:
    java(machine / "jvm" / "java-11", "11.0.2")
    java(machine / "jvm" / "java-8", "1.8.0_392")
    with pytest.raises(JavaMissingError, match=r"needs Java 17 or newer.*JAVA_HOME"):
        installed.java_home()


def test_the_newest_tested_java_is_found(machine: Path) -> None:
    java(machine / "jvm" / "a-17", "17.0.15")
    newest = java(machine / "jvm" / "b-21", "21.0.1")
    java(machine / "jvm" / "c-25", "25")
    assert installed.java_home() == newest


def test_java_home_wins_where_it_is_new_enough(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = java(machine / "jvm" / "a-17", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(java(machine / "mine", "25.0.1")))
    assert installed.java_home() == machine / "mine"
    monkeypatch.setenv("JAVA_HOME", str(java(machine / "old", "11.0.1")))
    assert installed.java_home() == found


def test_java_on_the_path_counts(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = java(machine / "opt", "21.0.1")
    monkeypatch.setenv("PATH", str(home / "bin"))
    assert installed.java_home() == home


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    installed.require_pyspark()
    monkeypatch.setattr(installed, "find_spec", lambda name: None)
    with pytest.raises(ExtraMissingError, match=r"pip install 'cdc-assets\[spark\]'"):
        installed.require_pyspark()


def test_looking_imports_no_pyspark() -> None:
    code = (
        "import sys; from cdc_assets.engines.spark import installed; installed.require_pyspark();"
        " assert 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.spark
def test_a_jar_that_cannot_be_had_is_one_sentence(tmp_path: Path) -> None:
    settings = tmp_path / "ivy.xml"
    settings.write_text(
        f"""<ivysettings><settings defaultResolver="empty"/><caches defaultCacheDir="{tmp_path}/c"/>
        <resolvers><filesystem name="empty"><artifact pattern="{tmp_path}/[artifact].jar"/>
        </filesystem></resolvers></ivysettings>"""
    )
    code = (
        "from cdc_assets.engines.spark.config import SessionConfig\n"
        "from cdc_assets.engines.spark.session import new_session\n"
        f"conf = (('spark.jars.ivySettings', {str(settings)!r}),"
        f" ('spark.jars.ivy', {str(tmp_path)!r}))\n"
        "try: new_session(SessionConfig('local[1]', conf))\n"
        "except Exception as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=120, capture_output=True, text=True
    )
    assert "Spark could not fetch Delta's jar (io.delta:delta-spark_" in done.stdout
    assert done.stdout.count("\n") == 1
    assert "Is Maven Central reachable?" in done.stdout
    assert done.stderr == ""


@pytest.mark.spark
def test_processes_that_fetch_jars_into_one_folder_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two that fill Ivy's folder at once each says that Maven has no such jar."""
    from pyspark import SparkConf  # noqa: PLC0415 - not every environment of these tests has it

    from cdc_assets.engines.spark import jvm  # noqa: PLC0415 - imports it

    monkeypatch.setattr(jvm, "_FETCH_SECONDS_MAX", 0.1)
    ivy, named = tmp_path / "ivy", SparkConf(loadDefaults=False)
    named.set("spark.jars.ivy", str(ivy))
    fetching = SparkConf(loadDefaults=False).setAll(named.getAll())
    fetching.set("spark.jars.packages", "io.delta:delta-spark_4.2_2.13:4.4.0")
    with jvm.fetching_alone(fetching):
        with (
            pytest.raises(CdcError, match="another process has been starting it"),
            jvm.fetching_alone(fetching),
        ):
            pass
        with jvm.fetching_alone(named):
            pass  # It has its jars.
    with jvm.fetching_alone(fetching):
        pass


@pytest.mark.spark
def test_a_session_that_cannot_start_is_one_sentence_and_another_may() -> None:
    code = (
        "from cdc_assets.engines.spark.config import SessionConfig\n"
        "from cdc_assets.engines.spark.session import new_session\n"
        "for master in ('nonsense', 'spark:nonsense', 'local[1]'):\n"
        "    try: print(new_session(SessionConfig(master)).version)\n"
        "    except Exception as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=120, capture_output=True, text=True
    )
    hint = "Its settings stand under `spark` in tables.yaml. [error]"
    refused, not_parsed, version = done.stdout.splitlines()
    assert refused.startswith("Spark did not start: Master must either be")
    assert (
        not_parsed == f"Spark did not start: Could not parse Master URL: 'spark:nonsense'. {hint}"
    )
    assert version.startswith("4.")
    assert done.stderr == ""
