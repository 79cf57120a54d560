"""Maven projects of this folder, built under .cdc/ and run as processes."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from cdc_assets_tests.clients.stacks import CLIENTS, build, build_folder

TRUST_PASSWORD = "changeit"


def missing() -> str:
    """What building and running would lack; empty if nothing."""
    lacking = [tool for tool in ("java", "javac", "mvn") if shutil.which(tool) is None]
    return f"a JDK of 17 or newer and Maven are needed: no `{lacking[0]}`" if lacking else ""


def java_program(project: str, main: str) -> list[str]:
    """The command that runs a class of a project, built anew where a source is newer."""
    source, target = CLIENTS / "java" / project, build_folder(project)
    classpath = target / "classpath"
    if not classpath.exists() or classpath.stat().st_mtime < _newest(source):
        classpath.unlink(missing_ok=True)
        options = [f"-Dclients.build={target}", f"-Dmdep.outputFile={classpath}"]
        build(["mvn", "-q", "-B", *options, "compile", "dependency:build-classpath"], source)
    path = f"{target / 'classes'}{os.pathsep}{classpath.read_text()}"
    # Short work: no optimising compiler, one thread for garbage.
    return ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", "-cp", path, main]


def _newest(folder: Path) -> float:
    return max(path.stat().st_mtime for path in folder.rglob("*") if path.is_file())


def trust_store(ca_file: Path, store: Path) -> None:
    """The CA as a Java trust store with `TRUST_PASSWORD`."""
    subprocess.run(
        [
            *("keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", str(ca_file)),
            *("-keystore", str(store), "-storetype", "PKCS12", "-storepass", TRUST_PASSWORD),
        ],
        check=True,
        capture_output=True,
    )
