"""SQL Server tables in a Delta lake, and for each one up to when it is complete."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cdc_assets.orchestration.component import SqlServerCdcComponent
    from cdc_assets.silver.by_name import Applied, apply_changes

__all__ = ["Applied", "SqlServerCdcComponent", "apply_changes"]
__version__ = "0.1.0"

_PUBLIC = {
    "Applied": "cdc_assets.silver.by_name",
    "SqlServerCdcComponent": "cdc_assets.orchestration.component",
    "apply_changes": "cdc_assets.silver.by_name",
}


def __getattr__(name: str) -> Any:
    """What is public here, when it is asked for: importing any room imports this first."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    """What `dg` finds, which asks for each name here: the component, and nothing heavy."""
    return [*globals(), "SqlServerCdcComponent"]
