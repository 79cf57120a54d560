"""Tables that the lake holds and `tables.yaml` names no more: retired ones, and renamed ones."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from cdc_assets.errors import TableRenamedError
from cdc_assets.names import TableName
from cdc_assets.planning.polls import CaptureInstance
from cdc_assets.planning.records import ControlRow

_BRONZE = re.compile(r"bronze/([^/]+)")


def retired_tables(control: Mapping[str, ControlRow], named: Collection[str]) -> list[str]:
    """The keys of tables that were loaded, and that are not among `named`; sorted."""
    return sorted(table for table in _loaded(control) if table not in named)


def retired_sources(control: Mapping[str, ControlRow], named: Collection[str]) -> Mapping[int, str]:
    """The retired tables by the object id of their source table, as far as control has it."""
    loaded = _loaded(control)
    sources = {table: loaded[table].source_object_id for table in retired_tables(control, named)}
    return {source: table for table, source in sources.items() if source is not None}


def check_not_renamed(
    table: TableName, instance: CaptureInstance, retired: Mapping[int, str]
) -> None:
    """Raise `TableRenamedError` for a new table whose source a retired one was loaded from.

    Loading it again would be right, but hours for nothing where only its name was changed; and
    whoever reads the old tables would never learn that they stand still.
    """
    before = retired.get(instance.identity.source_object_id)
    if before is None:
        return
    raise TableRenamedError(
        f"it is new, and its source table {instance.schema}.{instance.table} is in the lake already"
        f" as {before}, which tables.yaml does not name any more; nothing was read",
        where=str(table),
        hint=f"To go on with what is there, call it {before} again. To load it anew as {table.key},"
        f" name both until that is done, {before} with `paused: true`.",
    )


def _loaded(control: Mapping[str, ControlRow]) -> dict[str, ControlRow]:
    found = {_BRONZE.fullmatch(name): row for name, row in control.items() if row.end_lsn}
    return {match.group(1): row for match, row in found.items() if match is not None}
