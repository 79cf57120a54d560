"""A reader who follows a page: its blocks one after the other, in a folder of his own.

| block | what is done with it |
|---|---|
| `sh` | it is run; `# exit status 1` at the end of a line says that it ends with that |
| `tsql` | an administrator of the source runs it |
| `yaml` that begins with `# tables.yaml` | its settings take the place of those in the file |
| `python` | it is run, with what the page's earlier ones have defined |

What runs until Ctrl-C is running already, or has a test of its own; `make` is what `.ci/run` calls.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from cdc_assets_tests.cli.conftest import Commands
from cdc_assets_tests.setup.pages import ROOT, Block
from cdc_assets_tests.source import Source

READER = "cdc_reader"
"""The login that reads, as the pages call it."""
SETTINGS_MARK = "# tables.yaml"
UNTIL_CTRL_C = ("cdc-assets sandbox", "cdc-assets up", "make dev")
"""`cli/test_demo.py` runs the second, which is the third, and the first runs below all tests."""
OPTIONAL = ("pandas", "polars")
"""What a reader of the lake may have, and this environment may lack."""
COMMAND_SECONDS_MAX = 120.0
_FAILS = re.compile(r"\s+# exit status 1\b.*$")
_SIMPLE = re.compile(r"cdc-assets( [\w./:=-]+| '[^']*')*")


@dataclass
class Follower:
    """His folder, the source that he administers, and what he has found missing."""

    folder: Path
    source: Source
    commands: Commands
    in_shell: bool = False
    """Whether each of our commands is a process of its own, too."""
    names: dict[str, Any] = field(default_factory=dict)
    lacking: list[str] = field(default_factory=list)

    def follow(self, blocks: Iterable[Block]) -> None:
        """Do what the blocks say, in order; the first that goes wrong is named."""
        for block in blocks:
            try:
                self._do(block)
            except Exception as error:
                error.add_note(f"at {block}")
                raise

    def _do(self, block: Block) -> None:
        if block.kind == "sh":
            self._shell(block.text)
        elif block.kind == "tsql":
            self.source.execute(*self._batches(block.text))
            self.source.captured()
        elif block.kind == "python":
            self._python(block)
        elif block.text.startswith(SETTINGS_MARK):
            self._settings(yaml.safe_load(block.text))

    def _batches(self, text: str) -> list[str]:
        text = text.replace(READER, self.source.server.reader_login)
        return [batch for batch in re.split(r"(?m)^GO$", text) if batch.strip()]

    def _shell(self, text: str) -> None:
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
        lines = [line for line in lines if not line.startswith(("make ", *UNTIL_CTRL_C))]
        bare = [(_FAILS.sub("", line), bool(_FAILS.search(line))) for line in lines]
        words = [(shlex.split(line, comments=True), fails) for line, fails in bare]
        if not self.in_shell and all(
            _SIMPLE.fullmatch(shlex.join(one).replace('"', "'")) for one, _ in words
        ):
            for one, fails in words:
                self._command(one, fails=fails)
            return
        script = "\n".join(f"if {line}\nthen exit 99\nfi" if f else line for line, f in bare)
        self._bash(script)

    def _command(self, words: list[str], *, fails: bool) -> None:
        """A command of ours in this process: a start of its own would be most of its time."""
        ended = self.commands.run(*words[1:])
        assert ended.code == int(fails), f"{shlex.join(words)}\n{ended.out}{ended.err}"

    def _bash(self, script: str) -> None:
        ended = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.folder,
            env={
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT),
            },
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS_MAX,
            check=False,
        )
        assert ended.returncode == 0, f"{script}\n{ended.stdout}{ended.stderr}"

    def _python(self, block: Block) -> None:
        code = compile("\n" * (block.line - 1) + block.text, str(block.page), "exec")
        try:
            exec(code, self.names)
        except ModuleNotFoundError as error:
            if error.name not in OPTIONAL:
                raise
            self.lacking.append(str(error.name))

    def _settings(self, given: dict[str, Any]) -> None:
        """What a database of the block says takes the place of what the file says of it."""
        file = self.folder / "tables.yaml"
        known = yaml.safe_load(file.read_text())
        for key, said in given["databases"].items():
            known["databases"][key] |= said
        file.write_text(yaml.safe_dump(known))
