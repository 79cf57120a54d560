"""A small table that its readers keep open: bringing it up to date costs a tenth of opening it."""

from __future__ import annotations

import threading

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from cdc_assets.contract import TableContract
from cdc_assets.lake.failures import lake_failures
from cdc_assets.lake.migrating import check_known
from cdc_assets.lake.opening import open_table
from cdc_assets.lake.tables import StorageOptions


class Kept:
    """A table of one contract, opened by the first reader and kept for those who follow.

    For readers alone: a writer opens the table itself, so that a folder which was replaced is never
    written by what is kept of the one before, nor a commit made on a state that another thread has
    moved on.
    """

    def __init__(self, uri: str, contract: TableContract, options: StorageOptions) -> None:
        self._uri = uri
        self._contract = contract
        self._options = options
        self._lock = threading.Lock()
        self._table: DeltaTable | None = None

    def current(self) -> DeltaTable | None:
        """The table at its newest version, or None; raises as `open_table` does."""
        with self._lock:
            if self._table is None or not self._is_current(self._table):
                self._table = open_table(self._uri, self._contract, self._options)
            return self._table

    def _is_current(self, table: DeltaTable) -> bool:
        """Bring it up to date; False where its log does not go on from the version it is at."""
        with lake_failures(self._uri):
            try:
                table.update_incremental()
            except DeltaError:
                return False
            check_known(table, self._contract, where=self._uri)
            return True
