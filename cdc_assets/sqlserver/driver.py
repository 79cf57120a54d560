"""Which ODBC driver to use: the first that is there, in a fixed order."""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
from configparser import ConfigParser, Error
from pathlib import Path

from cdc_assets.errors import DriverMissingError

DRIVER_VARIABLE = "CDC_ODBC_DRIVER"
REGISTERED = "ODBC Driver 18 for SQL Server"
_WHEEL = "mssql_python_odbc"


@functools.cache
def find_driver() -> str:
    """The driver's path or registered name, for a connection string that names none.

    In this order: `CDC_ODBC_DRIVER`, a registered "ODBC Driver 18 for SQL Server", the one in the
    wheel `mssql-python-odbc`, a registered FreeTDS. Raises `DriverMissingError`.
    """
    registered = _registered_drivers()
    found = (
        os.environ.get(DRIVER_VARIABLE)
        or (REGISTERED if REGISTERED in registered else None)
        or _from_wheel()
        or ("FreeTDS" if "FreeTDS" in registered else None)
    )
    if found is None:
        raise DriverMissingError(
            "no ODBC driver for SQL Server is installed",
            hint=f"Run `pip install mssql-python-odbc`, or set {DRIVER_VARIABLE} to its .so file.",
        )
    return found


def _from_wheel() -> str | None:
    spec = importlib.util.find_spec(_WHEEL)
    if spec is None or not spec.submodule_search_locations:
        return None
    libs = Path(next(iter(spec.submodule_search_locations))) / "libs" / "linux"
    machine = {"aarch64": "arm64"}.get(platform.machine(), platform.machine())
    release = platform.freedesktop_os_release()
    family = f"{release.get('ID', '')} {release.get('ID_LIKE', '')}"
    distro = next(
        (d for d, words in _DISTROS.items() if any(w in family.split() for w in words)),
        "debian_ubuntu",
    )
    found = sorted((libs / distro / machine / "lib").glob("libmsodbcsql-18*.so*"))
    return str(found[-1]) if found else None


_DISTROS = {
    "debian_ubuntu": ("debian", "ubuntu"),
    "rhel": ("rhel", "fedora", "centos"),
    "suse": ("suse", "sles", "opensuse"),
    "alpine": ("alpine",),
}


def _registered_drivers() -> frozenset[str]:
    folder = os.environ.get("ODBCSYSINI", "/etc")
    parser = ConfigParser(strict=False, interpolation=None)
    try:
        parser.read(Path(folder) / "odbcinst.ini")
    except Error:
        return frozenset()
    return frozenset(parser.sections())
