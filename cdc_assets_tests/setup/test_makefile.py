"""The Makefile: what it says, what it installs once, and that the README's commands are there."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cdc_assets_tests.setup.pages import ci_steps

ROOT = Path(__file__).parents[2]
PROMISED = {
    "setup",
    "setup-spark",
    "demo",
    "dev",
    "test",
    "test-thorough",
    "soak",
    "test-clients",
    "test-sqlserver",
    "check",
    "bench",
    "clean",
}
PROGRAMS = ("cdc-assets", "pytest", "ruff", "mypy", "uv", "lint-imports", "python")
NOT_HERE = "not spark and not cluster and not clients and not soak"
SIDE_BY_SIDE = "-n 2 --dist loadfile --no-loadscope-reorder"
SPARK_HERE = "spark and not soak"
OF_SPARK = "cdc_assets_tests/engines/spark"
RECORD = '#!/bin/sh\necho "${0##*/} $*" >>calls\n'


class Checkout:
    """The Makefile among stubs: each program it calls writes a line into one file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copy(ROOT / "Makefile", folder)
        for name in ("pyproject.toml", "uv.lock"):
            (folder / name).touch()
        bin_folder = folder / ".venv" / "bin"
        bin_folder.mkdir(parents=True)
        (folder / "scripts").mkdir()
        for path in (folder / "scripts" / "setup.sh", *(bin_folder / name for name in PROGRAMS)):
            path.write_text(RECORD)
            path.chmod(0o755)

    def make(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "calls").write_text("")
        return subprocess.run(
            ["make", *words],
            cwd=self.folder,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    @property
    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_make_alone_lists_every_target_with_a_line(checkout: Checkout) -> None:
    listed = dict(re.findall(r"^  make (\S+) +(\S.*)$", checkout.make().stdout, re.MULTILINE))
    assert set(listed) >= PROMISED
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    assert set(listed) == set(phony.group(1).split())


def test_a_second_demo_installs_nothing(checkout: Checkout) -> None:
    checkout.make("demo")
    assert checkout.calls == ["setup.sh sandbox", "cdc-assets demo --engine arrow"]
    checkout.make("demo")
    assert checkout.calls == ["cdc-assets demo --engine arrow"]


def test_spark_is_installed_when_it_is_asked_for_and_serves_the_arrow_demo_too(
    checkout: Checkout,
) -> None:
    checkout.make("demo", "ENGINE=spark")
    assert checkout.calls == ["setup.sh sandbox spark", "cdc-assets demo --engine spark"]
    checkout.make("demo")
    assert checkout.calls == ["cdc-assets demo --engine arrow"]


def test_a_new_lock_file_is_looked_at(checkout: Checkout) -> None:
    checkout.make("demo")
    ready = checkout.folder / ".venv" / ".ready-sandbox"
    lock = checkout.folder / "uv.lock"
    later = ready.stat().st_mtime + 10
    subprocess.run(["touch", "-d", f"@{later}", lock], check=True)
    checkout.make("demo")
    assert checkout.calls[0] == "setup.sh sandbox"


def test_an_unknown_engine_is_one_line(checkout: Checkout) -> None:
    ended = checkout.make("demo", "ENGINE=flink")
    assert ended.returncode != 0
    assert ended.stderr.count("\n") == 1
    assert "ENGINE=flink is unknown: arrow or spark" in ended.stderr
    assert checkout.calls == []


def test_all_tests_install_once_check_first_and_run_fast_before_spark(checkout: Checkout) -> None:
    assert checkout.make("test").returncode == 0
    assert [call.split()[0] for call in checkout.calls] == [
        "setup.sh",
        "ruff",
        "ruff",
        "mypy",
        "uv",
        "lint-imports",
        "pytest",
        "pytest",
        "pytest",
    ]
    assert checkout.calls[0] == "setup.sh sandbox spark dev"
    left_out = " and not thorough"
    assert checkout.calls[-3:] == [
        f"pytest {SIDE_BY_SIDE} -m {NOT_HERE}{left_out}",
        f"pytest {SIDE_BY_SIDE} -m {SPARK_HERE}{left_out}",
        f"pytest -m cluster{left_out}",
    ]


def test_thorough_tests_are_those_that_are_left_out(checkout: Checkout) -> None:
    assert checkout.make("test-thorough").returncode == 0
    assert checkout.calls == [
        "setup.sh sandbox spark dev",
        f"pytest {SIDE_BY_SIDE} -m {NOT_HERE} and thorough",
        f"pytest {SIDE_BY_SIDE} -m {SPARK_HERE} and thorough",
        "pytest -m cluster and thorough",
    ]
    checkout.make("test-thorough", "ONLY=fast")
    assert checkout.calls == [f"pytest {SIDE_BY_SIDE} -m {NOT_HERE} and thorough"]


def test_fast_tests_need_no_spark_and_say_what_they_leave_out(checkout: Checkout) -> None:
    ended = checkout.make("test", "ONLY=fast")
    assert checkout.calls[0] == "setup.sh sandbox dev"
    called, _, places = checkout.calls[-1].partition(f"--ignore={OF_SPARK} ")
    assert called == f"pytest {SIDE_BY_SIDE} -m {NOT_HERE} and not thorough and not slow "
    assert "without what needs PySpark or a JVM" in ended.stdout
    for place in (OF_SPARK, *places.split()):
        assert (ROOT / place).exists(), f"the Makefile names {place}"


def test_the_programs_of_others_need_no_spark(checkout: Checkout) -> None:
    assert checkout.make("test-clients").returncode == 0
    assert checkout.calls == ["setup.sh sandbox dev clients", f"pytest {SIDE_BY_SIDE} -m clients"]


def test_the_long_tests_have_a_target_of_their_own(checkout: Checkout) -> None:
    checkout.make("soak")
    assert checkout.calls == ["setup.sh sandbox spark dev", "pytest -m soak --timeout 0"]
    checkout.make("soak", "ONLY=fast")
    assert checkout.calls == ["pytest -m soak and not spark --timeout 0"]


def test_a_real_server_has_to_be_named(checkout: Checkout) -> None:
    ended = checkout.make("test-sqlserver")
    assert ended.returncode != 0
    assert "set CDC_TEST_CONNECTION_STRING to" in ended.stderr
    assert checkout.calls == []
    named = {"CDC_TEST_CONNECTION_STRING": "Server=db;UID=sa;PWD={$x}"}
    assert checkout.make("test-sqlserver", **named).returncode == 0
    assert checkout.calls == ["setup.sh sandbox spark dev", "pytest -m sqlserver"]
    assert checkout.make("test-sqlserver", "ONLY=fast", **named).returncode == 0
    assert checkout.calls[-1] == "pytest -m sqlserver and not spark"


def test_a_failing_check_ends_it_before_the_tests(checkout: Checkout) -> None:
    (checkout.folder / ".venv" / "bin" / "mypy").write_text("#!/bin/sh\nexit 1\n")
    assert checkout.make("test").returncode != 0
    assert not any(call.startswith("pytest") for call in checkout.calls)


def test_clean_keeps_the_environment(checkout: Checkout) -> None:
    (checkout.folder / ".cdc" / "lake").mkdir(parents=True)
    assert checkout.make("clean").returncode == 0
    assert not (checkout.folder / ".cdc").exists()
    assert (checkout.folder / ".venv" / "bin" / "uv").exists()


def test_the_commands_of_the_readme_are_targets() -> None:
    named = set()
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        code = re.findall(r"```.*?```|`[^`\n]+`", page.read_text(), re.DOTALL)
        named |= set(re.findall(r"\bmake ([a-z][a-z-]*)", "\n".join(code)))
    assert named <= PROMISED | {"help"}


def test_ci_calls_the_commands_of_the_readme() -> None:
    assert ci_steps() == [
        "make test",
        "make test-clients",
        "make demo",
        "make demo ENGINE=spark",
        "make test-thorough",
    ]


def test_ci_leaves_out_what_its_hour_has_no_room_for_and_says_so(tmp_path: Path) -> None:
    """Bash counts `SECONDS` on from the environment's; each step would pass at once."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci")
    make = tmp_path / "make"
    make.write_text("#!/bin/sh\n")
    make.chmod(0o755)
    late = {60: 0, 35 * 60: 1, 49 * 60: 2, 56 * 60: 3, 58 * 60: 4}
    for seconds, left_out in late.items():
        ended = subprocess.run(
            [tmp_path / ".ci" / "run"],
            env={"PATH": f"{tmp_path}:/usr/local/bin:/usr/bin:/bin", "SECONDS": str(seconds)},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert ended.stdout.count("exit status 0") == len(ci_steps()) - left_out
        assert ended.stdout.count("LEFT OUT") == left_out
