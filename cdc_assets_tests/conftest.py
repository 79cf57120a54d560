"""What tests of several rooms share: the engines, and how many tests ran on each."""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import hypothesis
import pytest

from cdc_assets.engines.arrow.engine import ArrowEngine
from cdc_assets.engines.door import Engine
from cdc_assets.sandbox.handle import Sandbox
from cdc_assets.settings.model import SparkSettings
from cdc_assets.sqlserver.connection import Connections, SourceConnection
from cdc_assets_tests.path.helpers import create_items
from cdc_assets_tests.sandbox.remote import drop_databases, remote_server
from cdc_assets_tests.source import CONNECTION_VARIABLE, SPARK, Project, Server, Source
from cdc_assets_tests.thorough import is_thorough, unknown

ENGINES = [
    pytest.param("arrow", id="arrow"),
    pytest.param("spark", id="spark", marks=pytest.mark.spark),
]
SANDBOX_REFUSAL = 40515
NO_SOURCE = SourceConnection(name="none", text="Server=127.0.0.1,1;UID=x;PWD=x")

IMPORT_PYSPARK = (
    "engines/spark",
    "path/test_own_streams.py",
    "path/test_stream_crashes.py",
    "path/test_streams.py",
)
"""What cannot even be imported without it."""
collect_ignore = [] if find_spec("pyspark") else list(IMPORT_PYSPARK)

# No test is timed: a machine that does other work must not fail an example.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


def make_engine(name: str, source: SourceConnection) -> Engine:
    """An engine by name; Spark's session is one for all tests."""
    if name == "arrow":
        return ArrowEngine(Connections(source), {})
    # Late: the fast tests must run where no PySpark is installed.
    from cdc_assets.engines.spark.engine import SparkEngine  # noqa: PLC0415

    return SparkEngine(source, SparkSettings(**SPARK), {})


def pytest_report_header() -> list[str]:
    """Say what is not even collected."""
    return [f"PySpark is not installed, so left out: {one}" for one in collect_ignore]


@pytest.fixture(params=ENGINES)
def engine_name(request: pytest.FixtureRequest) -> str:
    """Each engine in turn; a test that takes this runs on both."""
    request.node.user_properties.append(("engine", request.param))
    return str(request.param)


@pytest.fixture
def engine(engine_name: str) -> Engine:
    """An engine for work that needs no source."""
    return make_engine(engine_name, NO_SOURCE)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes hours unless it is asked for, and on a real server the sandbox's own.

    Files of long tests come first: one that began last would run alone, beside an idle process.
    Raises `pytest.UsageError` where whole files were collected, and `thorough` names a test that
    is not in them.
    """
    nodeids = [item.nodeid for item in items]
    if not any("::" in argument for argument in config.args) and (lost := unknown(nodeids)):
        raise pytest.UsageError(f"{unknown.__module__} names tests that are not there: {lost}")
    for item in items:
        if is_thorough(item.nodeid):
            item.add_marker(pytest.mark.thorough)
    long_files = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in long_files)
    if "soak" not in config.option.markexpr:
        long = [item for item in items if item.get_closest_marker("soak")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]
    if CONNECTION_VARIABLE not in os.environ:
        return
    left_out = [item for item in items if _is_of_the_sandbox(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not _is_of_the_sandbox(item)]


def _is_of_the_sandbox(item: pytest.Item) -> bool:
    """Whether a test is marked, or expects a refusal that is the sandbox's own."""
    case = getattr(item, "callspec", None)
    values = case.params.values() if case is not None else ()
    refused = any(type(value) is int and value == SANDBOX_REFUSAL for value in values)
    return refused or item.get_closest_marker("sandbox") is not None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests ran on each engine."""
    passed = terminalreporter.stats.get("passed", [])
    for name in ("arrow", "spark"):
        count = sum(("engine", name) in report.user_properties for report in passed)
        if count:
            terminalreporter.write_line(f"engine {name}: {count} tests passed")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server of all tests: a real one where the environment names it, else the sandbox."""
    if text := os.environ.get(CONNECTION_VARIABLE):
        with remote_server(text) as found:
            yield found
        return
    state = tmp_path_factory.mktemp("sandbox")
    with Sandbox(state, capture_interval_seconds=0.0):
        admin = (state / "sales.admin.odbc").read_text().strip()
        reader = (state / "sales.odbc").read_text().strip()
        yield Server(admin, reader, str(state / "ca.pem"), is_sandbox=True)


@pytest.fixture
def source(server: Server) -> Iterator[Source]:
    """A database of the test's own."""
    made = Source.create(server)
    yield made
    if server.is_sandbox:
        # They wait for a whole server: one that did not strike would be the next test's, and so
        # would its clock.
        made.execute(
            "EXEC sandbox.clear_faults; EXEC sandbox.set_clock @zone = N'UTC', @shift_seconds = 0"
        )
    else:
        drop_databases(server, made.name)


@pytest.fixture
def project(source: Source, tmp_path: Path, engine_name: str) -> Project:
    """A project for it, on each engine in turn."""
    return Project(tmp_path, source, engine_name)


@pytest.fixture
def items(project: Project) -> Project:
    """A project with dbo.items captured and five rows in it."""
    create_items(project.source)
    project.tables = {"dbo_items": None}
    return project
