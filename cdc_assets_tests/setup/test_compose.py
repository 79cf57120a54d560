"""docker/: as far as it can be looked at without Docker."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from dagster._core.instance.config import dagster_instance_config

from cdc_assets.cli.wire import wire
from cdc_assets.settings import load_settings
from cdc_assets_tests.source import Server

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
OF_THE_STACK = {"storage", "compute_logs"}
"""What docker/dagster.yaml has, and the project's own lacks."""


@pytest.fixture
def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    return found


def test_services_wait_for_what_is_there_and_mount_what_is_there(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for name, service in services.items():
        assert "image" in service, name
        for other, wait in service.get("depends_on", {}).items():
            has_check = "healthcheck" in services[other]
            ends = wait["condition"] == "service_completed_successfully"
            assert ends or (wait["condition"] == "service_healthy" and has_check), name
        for mount in service.get("volumes", ()):
            place = mount.partition(":")[0]
            known = (
                (DOCKER / place).is_file() if place.startswith(".") else place in compose["volumes"]
            )
            assert known, f"{name}: {mount}"


def test_what_the_stack_asks_of_the_environment_is_in_the_example(compose: dict[str, Any]) -> None:
    asked = set(re.findall(r"\$\{(\w+)", (DOCKER / "compose.yaml").read_text()))
    listed = re.findall(r"(?m)^(\w+)=", (DOCKER / "example.env").read_text())
    assert asked == set(listed)
    assert compose["services"]["webserver"]["ports"] == ["127.0.0.1:3000:3000"]


def test_the_image_copies_what_is_there_and_is_of_one_dagster() -> None:
    text = (DOCKER / "Dockerfile").read_text()
    for line in re.findall(r"(?m)^COPY (.+)$", text):
        *sources, _ = line.split()
        for source in sources:
            assert (ROOT / source).exists(), source
    (library,) = re.findall(r"dagster-postgres==([\d.]+)", text)
    assert f'"dagster-pyspark=={library}"' in (ROOT / "pyproject.toml").read_text()
    (uv,) = re.findall(r"uv==([\d.]+)", text)
    assert f"UV_VERSION={uv}\n" in (ROOT / "scripts" / "setup.sh").read_text()


def test_dagster_takes_the_instance_which_is_the_projects_but_for_storage() -> None:
    config, _ = dagster_instance_config(str(DOCKER))
    assert set(config["storage"]) == {"postgres"}
    ours, theirs = (yaml.safe_load((f / "dagster.yaml").read_text()) for f in (ROOT, DOCKER))
    assert {key: value for key, value in theirs.items() if key not in OF_THE_STACK} == ours


def test_the_code_location_is_where_the_others_look(compose: dict[str, Any]) -> None:
    (place,) = yaml.safe_load((DOCKER / "workspace.yaml").read_text())["load_from"]
    server = place["grpc_server"]
    command = compose["services"][server["host"]]["command"]
    assert command[command.index("-p") + 1] == str(server["port"])
    assert command[-1] == "cdc_assets.definitions"
    (ours,) = yaml.safe_load((ROOT / "workspace.yaml").read_text())["load_from"]
    assert server["location_name"] == ours["python_module"]["location_name"]


def test_the_settings_load_with_the_stacks_environment(
    compose: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in compose["services"]["code"]["environment"].items():
        monkeypatch.setenv(name, re.sub(r"\$\{[^}]*\}", "given", value))
    settings = load_settings(DOCKER / "tables.yaml").databases["sales"]
    assert settings.storage_options["AWS_SECRET_ACCESS_KEY"] == "given"
    assert list(settings.tables) == ["dbo_orders"]


@pytest.mark.sandbox
def test_the_script_runs_twice(server: Server) -> None:
    """On the sandbox, in a database of another name, and for a login of another name."""
    text = (DOCKER / "sales.sql").read_text().replace("$(READER_PASSWORD)", "Given-1234")
    text = re.sub(r"\bsales\b", "compose_sales", text).replace("cdc_reader", "compose_reader")
    batches = [batch for batch in re.split(r"(?m)^GO$", text) if batch.strip()]
    for _ in range(2):
        with wire(server.admin, database="master") as cursor:
            for batch in batches:
                cursor.execute(batch)
    with wire(server.admin, database="compose_sales") as cursor:
        cursor.execute("SELECT count(*) FROM cdc.change_tables")
        assert cursor.fetchone()[0] == 1
