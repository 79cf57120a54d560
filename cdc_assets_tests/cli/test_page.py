"""The page of the commands is what the commands are."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from cdc_assets.cli import app
from cdc_assets_tests import commands

NAMES = [command.name or command.callback.__name__ for command in app.registered_commands]  # type: ignore[union-attr]


def test_the_page_is_written_from_the_commands() -> None:
    assert commands.PAGE.read_text() == commands.page(), "python -m cdc_assets_tests.commands"


@pytest.mark.parametrize("name", NAMES)
def test_every_command_helps_and_refuses_an_option_it_has_not(name: str) -> None:
    runner = CliRunner()
    helped = runner.invoke(app, [name, "--help"])
    assert helped.exit_code == 0
    assert f"{name} " in helped.output
    told = commands.page().partition(f"## {name}\n")[2].partition("## ")[0]
    options = re.findall(r"^\| `(--[\w-]+)", told, re.MULTILINE)
    assert [option for option in options if option not in helped.output] == []
    assert runner.invoke(app, [name, "--no-such-option"]).exit_code == 2
