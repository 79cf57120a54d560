"""sys.dm_cdc_log_scan_sessions and sys.dm_cdc_errors."""

from __future__ import annotations

from cdc_assets.sandbox.engine import rows as made
from cdc_assets.sandbox.engine.context import Context
from cdc_assets.sandbox.engine.rows import Described
from cdc_assets.sandbox.engine.scans import Scan
from cdc_assets.sandbox.language.values import TICKS_PER_SECOND
from cdc_assets.sandbox.results import SqlError

_SESSIONS = (
    "session_id int, start_time datetime, end_time datetime, duration bigint, scan_phase "
    "nvarchar(200), error_count int, start_lsn nvarchar(23), current_lsn nvarchar(23), end_lsn "
    "nvarchar(23), tran_count bigint, last_commit_lsn nvarchar(23), last_commit_time datetime, "
    "log_record_count bigint, schema_change_count int, command_count bigint, first_begin_cdc_lsn "
    "nvarchar(23), last_commit_cdc_lsn nvarchar(23), last_commit_cdc_time datetime, latency int, "
    "empty_scan_count int, failed_sessions_count int"
)
_ERRORS = (
    "session_id int, phase_number int, entry_time datetime, error_number int, error_severity int, "
    "error_state int, error_message nvarchar(1024), start_lsn nvarchar(23), begin_lsn "
    "nvarchar(23), sequence_value nvarchar(23)"
)
_NO_LSN = "00000000:00000000:0000"
_CAPTURE_FAILED = 22859


def find(context: Context, key: str) -> tuple[Described, list[tuple[object, ...]]] | None:
    """A view by its lower-case name with schema; raises Msg 262 without VIEW DATABASE STATE."""
    if key not in ("sys.dm_cdc_log_scan_sessions", "sys.dm_cdc_errors"):
        return None
    database = context.current
    if not context.access.owner(database.id):
        raise SqlError(
            262, f"VIEW DATABASE STATE permission denied in database '{database.name}'.", 14
        )
    scans = context.store.scans
    if key == "sys.dm_cdc_errors":
        return made.described(_ERRORS), [
            (e.session, 1, e.time, _CAPTURE_FAILED, 16, 1, e.text[:1024], *[_NO_LSN] * 3)
            for e in scans.errors(database.id)
        ]
    return made.described(_SESSIONS), [_session(scan) for scan in scans.sessions(database.id)]


def _session(scan: Scan) -> tuple[object, ...]:
    first, last = _lsn(scan.start_lsn), _lsn(scan.end_lsn)
    waited = 0 if scan.last_commit is None else max(0, scan.end - scan.last_commit)
    return (
        scan.number,
        scan.start,
        scan.end,
        (scan.end - scan.start) // TICKS_PER_SECOND,
        "Aborted" if scan.failed else "Done",
        scan.failed,
        first,
        last,
        last,
        scan.transactions,
        last,
        scan.last_commit,
        scan.commands,
        0,
        scan.commands,
        first,
        last,
        scan.last_commit,
        waited // TICKS_PER_SECOND,
        scan.empty,
        scan.failed,
    )


def _lsn(raw: bytes) -> str:
    """An LSN as these views write it."""
    digits = raw.hex()
    return f"{digits[:8]}:{digits[8:16]}:{digits[16:]}" if digits else _NO_LSN
