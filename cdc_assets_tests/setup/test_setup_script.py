"""What scripts/setup.sh decides, on machines made of stub commands.

Each machine is a folder that is the whole PATH: real text tools, and stubs for everything that
could change a machine. The stubs write each call into one file.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = (
    *("sh", "dirname", "sort", "sed", "tr", "grep", "mktemp", "date", "tail"),
    *("rm", "env", "cat", "mkdir", "cp", "chmod", "touch"),
)

PYTHON = f"""#!/bin/sh
case "$*" in
    *"sys.exit(not"*) exit "${{UNFIT:-0}}" ;;
    *ctypes*) for name in $LACKING; do echo "$name"; done ;;
    *"import ensurepip"*) exit "${{NO_ENSUREPIP:-0}}" ;;
    *"-m venv"*) echo "python -m venv" >>"$CALLS"; mkdir -p .venv/bin; cp "$0" .venv/bin/python ;;
    *"-m pip install"*) echo "pip install uv" >>"$CALLS"; cp "$STUBS/uv" .venv/bin/uv ;;
    *"-m pip"*) ;;
    *) exec {sys.executable} "$@" ;;
esac
"""
RECORD = """#!/bin/sh
echo "${0##*/} $*" >>"$CALLS"
"""
APT_GET = (
    RECORD
    + """case "$*" in *openjdk-*)
    version=$(echo "$*" | sed 's/.*openjdk-\\([0-9]*\\).*/\\1/')
    mkdir -p "$JAVA_FOLDER/java-$version/bin"
    cp "$STUBS/java-$version" "$JAVA_FOLDER/java-$version/bin/java" ;;
esac
"""
)
APT_CACHE = """#!/bin/sh
case " $OFFERED " in
    *" $2 "*) echo "  Candidate: 1.0" ;;
    *) echo "  Candidate: (none)" ;;
esac
"""
DISTRIBUTION = "python3-venv unixodbc libltdl7 libgssapi-krb5-2 openjdk-17-jre-headless"


class Machine:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stubs = folder / "stubs"
        self.calls_file = folder / "calls"
        self.stubs.mkdir()
        (folder / "scripts").mkdir()
        shutil.copy(ROOT / "scripts" / "setup.sh", folder / "scripts")
        for tool in TOOLS:
            (self.stubs / tool).symlink_to(str(shutil.which(tool)))
        self.has("python3", PYTHON)
        self.has("uv", RECORD)
        self.has("apt-get", APT_GET)
        self.has("apt-cache", APT_CACHE)
        self.has("sudo", "#!/bin/sh\nexit 1\n")
        self.java("17.0.15", "java-17")
        self.java("21.0.7", "java-21")
        self.user(0)

    def has(self, name: str, text: str) -> None:
        path = self.stubs / name
        path.write_text(text)
        path.chmod(0o755)

    def java(self, version: str, name: str = "java") -> None:
        self.has(name, f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025' >&2\n")

    def user(self, number: int) -> None:
        self.has("id", f"#!/bin/sh\necho {number}\n")

    def run(self, *parts: str, **variables: str) -> subprocess.CompletedProcess[str]:
        known = {
            "PATH": str(self.stubs),
            "STUBS": str(self.stubs),
            "CALLS": str(self.calls_file),
            "JAVA_FOLDER": str(self.folder / "jvm"),
            "LACKING": "",
            "OFFERED": DISTRIBUTION,
        }
        self.calls_file.write_text("")
        return subprocess.run(
            [self.folder / "scripts" / "setup.sh", *parts],
            env=known | variables,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    @property
    def calls(self) -> list[str]:
        return self.calls_file.read_text().splitlines()

    @property
    def installed(self) -> set[str]:
        line = next((call for call in self.calls if call.startswith("apt-get install")), "")
        return {word for word in line.split()[2:] if not word.startswith(("-", "DPkg"))}

    @property
    def untouched(self) -> bool:
        return self.calls == [] and not (self.folder / ".venv").exists()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def only_line(ended: subprocess.CompletedProcess[str]) -> str:
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr.count("\n") == 1, ended.stderr
    return ended.stderr


def test_no_python_is_one_line(machine: Machine) -> None:
    (machine.stubs / "python3").unlink()
    assert "no Python 3.11, 3.12 or 3.13" in only_line(machine.run("sandbox"))
    assert machine.untouched


def test_a_python_too_old_or_too_new_does_not_count(machine: Machine) -> None:
    assert "no Python 3.11, 3.12 or 3.13" in only_line(machine.run("sandbox", UNFIT="1"))
    assert machine.untouched


def test_another_python_can_be_named(machine: Machine) -> None:
    (machine.stubs / "python3").rename(machine.folder / "mine")
    ended = machine.run("sandbox", PYTHON=str(machine.folder / "mine"))
    assert ended.returncode == 0, ended.stderr


def test_not_root_and_much_missing_is_one_line_that_names_it_all(machine: Machine) -> None:
    machine.user(1000)
    ended = machine.run(
        "sandbox", "spark", LACKING="unixodbc libltdl7 libgssapi-krb5-2", NO_ENSUREPIP="1"
    )
    line = only_line(ended)
    for package in (
        "unixodbc",
        "libltdl7",
        "libgssapi-krb5-2",
        "openjdk-17-jre-headless",
    ):
        assert line.count(package) == 2, "once as missing, once in the command to run"
    assert len(re.findall(r"python3(?:\.\d+)?-venv", line)) == 2
    assert "sudo apt-get update && sudo apt-get install -y" in line
    assert machine.untouched


def test_sudo_is_used_where_it_asks_for_no_password(machine: Machine) -> None:
    machine.user(1000)
    machine.has(
        "sudo", '#!/bin/sh\necho "sudo $*" >>"$CALLS"\nshift\n[ "$1" = true ] || exec "$@"\n'
    )
    assert machine.run("sandbox", LACKING="unixodbc").returncode == 0
    assert machine.installed == {"unixodbc"}
    assert all(call.startswith("sudo -n") for call in machine.calls if "sudo" in call)


def test_a_machine_without_apt_is_one_line(machine: Machine) -> None:
    (machine.stubs / "apt-get").unlink()
    assert "missing: unixodbc" in only_line(machine.run("sandbox", LACKING="unixodbc"))
    assert machine.untouched


def test_root_installs_what_is_missing_and_nothing_else(machine: Machine) -> None:
    ended = machine.run("sandbox", LACKING="libltdl7 unixodbc")
    assert ended.returncode == 0, ended.stderr
    assert machine.calls[0].startswith("apt-get update")
    assert machine.installed == {"libltdl7", "unixodbc"}


def test_nothing_missing_never_calls_apt(machine: Machine) -> None:
    machine.java("17.0.15")
    assert machine.run("sandbox", "spark", "dev").returncode == 0
    assert [call.split()[0] for call in machine.calls] == ["python", "pip", "uv"]


def test_names_follow_the_release(machine: Machine) -> None:
    ended = machine.run("sandbox", LACKING="libltdl7 unixodbc", OFFERED="unixodbc libltdl7t64")
    assert ended.returncode == 0, ended.stderr
    assert machine.installed == {"libltdl7t64", "unixodbc"}


@pytest.mark.parametrize("offered", ["17", "21", "17 21", "11 17 21 25"])
def test_the_newest_java_on_offer_is_installed_for_spark(machine: Machine, offered: str) -> None:
    names = {version: f"openjdk-{version}-jre-headless" for version in offered.split()}
    ended = machine.run("sandbox", "spark", OFFERED=" ".join(names.values()))
    assert ended.returncode == 0, ended.stderr
    assert machine.installed == {names["21" if "21" in names else "17"]}


@pytest.mark.parametrize(
    ("there", "enough"), [("1.8.0_402", False), ("11.0.2", False), ("21", True)]
)
def test_java_is_replaced_only_where_spark_cannot_use_it(
    machine: Machine, there: str, enough: bool
) -> None:
    machine.java(there)
    assert machine.run("sandbox", "spark").returncode == 0
    assert machine.installed == (set() if enough else {"openjdk-17-jre-headless"})


def test_without_spark_no_java_is_asked_for(machine: Machine) -> None:
    assert machine.run("sandbox", "dev").returncode == 0
    assert machine.installed == set()


def test_java_home_counts_and_one_that_is_of_no_use_does_no_harm(machine: Machine) -> None:
    home = machine.folder / "mine"
    (home / "bin").mkdir(parents=True)
    shutil.copy(machine.stubs / "java-21", home / "bin" / "java")
    assert machine.run("sandbox", "spark", JAVA_HOME=str(home)).returncode == 0
    assert machine.installed == set()
    assert machine.run("sandbox", "spark", JAVA_HOME="/nowhere").returncode == 0
    assert machine.installed == {"openjdk-17-jre-headless"}


def test_a_java_beside_an_older_one_on_the_path_is_found(machine: Machine) -> None:
    machine.java("11.0.2")
    machine.run("sandbox", "spark")
    assert machine.installed == {"openjdk-17-jre-headless"}
    machine.run("sandbox", "spark")
    assert machine.installed == set()


def test_no_java_on_offer_is_said(machine: Machine) -> None:
    ended = machine.run("sandbox", "spark", OFFERED="unixodbc")
    assert ended.returncode == 1
    assert "Java 17 or newer" in ended.stderr
    assert not (machine.folder / ".venv").exists()


def test_a_failed_install_ends_it_before_the_environment(machine: Machine) -> None:
    machine.has("apt-get", "#!/bin/sh\necho 'E: no such thing'\nexit 100\n")
    ended = machine.run("sandbox", LACKING="unixodbc")
    assert ended.returncode == 1
    assert "E: no such thing" in ended.stderr
    assert "could not install: unixodbc" in ended.stderr
    assert not (machine.folder / ".venv").exists()


def test_a_second_call_only_looks_at_the_lock_file(machine: Machine) -> None:
    machine.run("sandbox")
    machine.run("sandbox")
    assert [call.split()[0] for call in machine.calls] == ["uv", "uv"]
    assert machine.calls[0] == "uv --version"


def test_extras_come_as_asked_and_nothing_is_taken_away(machine: Machine) -> None:
    machine.java("21")
    for parts in (["sandbox"], ["sandbox", "spark"], ["sandbox", "dev"]):
        machine.run(*parts)
        sync = machine.calls[-1]
        assert sync.startswith("uv sync")
        assert {"--frozen", "--inexact"} <= set(sync.split())
        assert ("--extra spark" in sync) == ("spark" in parts)
        assert ("--group dev" in sync) == ("dev" in parts)


PROGRAMS = {
    "chromium": {"chromium"},
    "pg_ctlcluster": {"postgresql"},
    "tsql": {"freetds-bin", "tdsodbc"},
}


@pytest.mark.parametrize("there", [(), ("chromium", "tsql"), tuple(PROGRAMS)])
def test_programs_that_tests_start_are_installed_where_they_lack(
    machine: Machine, there: tuple[str, ...]
) -> None:
    for name in there:
        machine.has(name, RECORD)
    every = " ".join(sorted(set().union(*PROGRAMS.values())))
    ended = machine.run("sandbox", "dev", "clients", OFFERED=every)
    assert ended.returncode == 0, ended.stderr
    lacking = [packages for name, packages in PROGRAMS.items() if name not in there]
    assert machine.installed == set().union(*lacking)
    assert "--group dev" in machine.calls[-1]
    assert "clients" not in machine.calls[-1]


def test_without_that_part_none_of_them_is_installed(machine: Machine) -> None:
    assert machine.run("sandbox", "dev", OFFERED="chromium postgresql").returncode == 0
    assert machine.installed == set()


def test_a_program_that_cannot_be_had_keeps_nobody_from_the_others(machine: Machine) -> None:
    """Ubuntu has its browser elsewhere; and not everybody may install."""
    ended = machine.run("dev", "clients", OFFERED="postgresql freetds-bin tdsodbc")
    assert ended.returncode == 0, ended.stderr
    assert "apt offers no chromium here; tests that need it are skipped" in ended.stdout
    assert machine.installed == {"postgresql", "freetds-bin", "tdsodbc"}
    machine.user(1000)
    ended = machine.run("dev", "clients", OFFERED="postgresql freetds-bin tdsodbc")
    assert ended.returncode == 0, ended.stderr
    assert "not installed: chromium postgresql freetds-bin tdsodbc; tests" in ended.stdout
    assert machine.installed == set()


def test_an_unknown_part_is_refused(machine: Machine) -> None:
    assert "unknown part: sprak" in only_line(machine.run("sprak"))
    assert machine.untouched


def test_the_script_is_executable() -> None:
    assert os.access(ROOT / "scripts" / "setup.sh", os.X_OK)
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
