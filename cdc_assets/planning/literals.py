"""Names and values in texts that Spark SQL and DataFusion read alike."""

from __future__ import annotations

from cdc_assets.lsn import Lsn


def quoted(name: str) -> str:
    """An identifier for both engines; backticks, since Spark reads double quotes as text."""
    return "`" + name.replace("`", "``") + "`"


def lsn_literal(lsn: Lsn) -> str:
    """An LSN as a text literal."""
    return f"'{lsn}'"
