"""What `cdc-assets doctor` makes of what it read: one finding a line, each with its next step."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from cdc_assets.errors import CdcError
from cdc_assets.planning.offsets import Offset

IDLE_SECONDS_MAX = 900.0
"""Capture that has processed nothing for longer is said: since SQL Server 2022 (16) it notes an
idle database about every 305 s, and older ones need a heartbeat for that."""
SKEW_SECONDS_MAX = 30.0
"""Difference of the server's clock and ours from which lags and lateness are off."""
ZONE_VERSION_MIN = 16
"""The major version from which a server tells its zone, and notes that it is idle."""


class Level(StrEnum):
    """How a finding is to be taken; only a failure ends the command with 1."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    HIDDEN = "not visible"
    """This login may not see it, and need not."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was looked at, of what, what was found, and the one next step."""

    check: str
    about: str
    level: Level
    text: str
    next_step: str = ""


def failed(check: str, about: str, error: CdcError) -> Finding:
    """An error as a finding; its code stands in brackets, as everywhere."""
    return Finding(check, about, Level.FAIL, f"{error.what} [{error.code}]", error.hint)


def judge_packages(pinned: Mapping[str, str], installed: Mapping[str, str | None]) -> list[Finding]:
    """The installed versions of the packages that are pinned; None is not installed."""
    wrong = [
        Finding(
            "packages",
            name,
            Level.FAIL,
            f"version {installed[name]} is installed, and {wanted} is what this was tested with",
            f"pip install '{name}=={wanted}'",
        )
        for name, wanted in pinned.items()
        if installed.get(name) not in (None, wanted)
    ]
    there = ", ".join(f"{n} {v}" for n, v in pinned.items() if installed.get(n) == v)
    return wrong or [Finding("packages", "here", Level.OK, there)]


def judge_tls(about: str, pairs: Mapping[str, str], driver: str) -> Finding:
    """Whether the connection string has traffic encrypted and the certificate checked.

    What it leaves out is as Microsoft's driver 18 has it; FreeTDS has a file of its own for that.
    """
    if any(name in driver.lower() for name in ("freetds", "tdsodbc")):
        text = "FreeTDS decides by freetds.conf whether it encrypts and checks"
        return Finding("tls", about, Level.HIDDEN, text)
    encrypt = pairs.get("encrypt", "yes").lower()
    if encrypt in ("no", "optional", "false"):
        return Finding(
            "tls",
            about,
            Level.WARN,
            "password and rows may travel unencrypted: the connection string has"
            f" Encrypt={encrypt}",
            "Set Encrypt=yes; `ca_file` names an authority of your own.",
        )
    if pairs.get("trustservercertificate", "no").lower() in ("yes", "true"):
        return Finding(
            "tls",
            about,
            Level.WARN,
            "any certificate is taken for the server's: TrustServerCertificate=yes",
            "Leave it out, and let `ca_file` name the authority that signed the certificate.",
        )
    return Finding("tls", about, Level.OK, "encrypted, and the certificate was verified")


@dataclass(frozen=True, slots=True)
class ServerRead:
    """What the server says of itself, of the database and of the login.

    `retention_minutes` and `largest_value_bytes` are None where the login may not see them.
    """

    version: str
    edition: str
    database: str
    user: str
    has_too_much: str
    is_captured: bool
    allows_snapshot: bool
    sees_times: bool
    retention_minutes: int | None = None
    largest_value_bytes: int | None = None

    @property
    def major(self) -> int:
        """The major version: 16 is SQL Server 2022."""
        number = self.version.partition(".")[0]
        return int(number) if number.isdigit() else 0


def judge_server(about: str, read: ServerRead, isolation: str) -> list[Finding]:
    """The login, the database's CDC, and what only an owner sees."""
    found = [
        Finding(
            "login",
            about,
            Level.OK,
            f"user {read.user} in {read.database}, SQL Server {read.version} {read.edition}",
        )
    ]
    if read.has_too_much:
        found.append(
            Finding(
                "grants",
                about,
                Level.WARN,
                f"the login is in {read.has_too_much}: two grants a table are enough",
                "Use a login of its own; `cdc-assets sql` prints its grants.",
            )
        )
    if not read.is_captured:
        return [
            *found,
            Finding(
                "cdc",
                about,
                Level.FAIL,
                f"change data capture is not on in {read.database} [capture_not_enabled]",
                "`cdc-assets sql` prints what to run there.",
            ),
        ]
    found.append(Finding("cdc", about, Level.OK, f"change data capture is on in {read.database}"))
    if isolation == "snapshot" and not read.allows_snapshot:
        found.append(
            Finding(
                "isolation",
                about,
                Level.FAIL,
                f"{read.database} does not allow snapshot isolation [isolation_refused]",
                "ALTER DATABASE … SET ALLOW_SNAPSHOT_ISOLATION ON, or leave `isolation` out.",
            )
        )
    return [*found, _retention(about, read)]


def judge_times(about: str, read: ServerRead) -> Finding:
    """That the commits' times may not be read, though nothing lacks of any table."""
    return Finding(
        "grants",
        about,
        Level.FAIL,
        "the login may not read cdc.lsn_time_mapping, which has the commits' times",
        f"GRANT SELECT ON cdc.lsn_time_mapping TO {read.user}",
    )


def _retention(about: str, read: ServerRead) -> Finding:
    if read.retention_minutes is None:
        return Finding(
            "cleanup job",
            about,
            Level.HIDDEN,
            "its retention is shown to db_owner alone; each table's headroom says what is left",
        )
    hours = read.retention_minutes / 60
    return Finding("cleanup job", about, Level.OK, f"changes are kept for {hours:,.1f} h")


def judge_capture(about: str, newest: Offset | None, now: datetime, major: int) -> Finding:
    """Whether capture goes on: by what it has processed, as its job is not to be seen."""
    if newest is None:
        return Finding(
            "capture",
            about,
            Level.FAIL,
            "capture has never processed anything [capture_not_ready]",
            "Start SQL Server Agent, then EXEC sys.sp_cdc_start_job @job_type = N'capture'.",
        )
    lag = (now - newest.commit_ts).total_seconds()
    if lag <= IDLE_SECONDS_MAX:
        return Finding(
            "capture", about, Level.OK, f"{max(lag, 0):,.0f} s behind the server's clock"
        )
    notes_idle = major >= ZONE_VERSION_MIN
    return Finding(
        "capture",
        about,
        Level.FAIL if notes_idle else Level.WARN,
        f"nothing was processed since {newest.commit_ts} UTC, {lag / 60:,.0f} minutes ago:"
        + (" it has stopped" if notes_idle else " it has stopped, or the database is quiet"),
        "EXEC sys.sp_cdc_start_job @job_type = N'capture'; sys.dm_cdc_errors says why it stopped."
        + ("" if notes_idle else " A quiet database needs a heartbeat: `cdc-assets sql`."),
    )


def judge_clock(
    about: str, skew_seconds: float, zone: str | None, wanted: str | None
) -> list[Finding]:
    """The server's clock against ours, and whether its zone is known."""
    found = [Finding("clock", about, Level.OK, f"{abs(skew_seconds):,.1f} s from ours")]
    if abs(skew_seconds) > SKEW_SECONDS_MAX:
        ahead = "ahead of" if skew_seconds > 0 else "behind"
        text = f"the server's clock is {abs(skew_seconds):,.0f} s {ahead} ours: lags are off by it"
        step = "Let both follow the same time server."
        found = [Finding("clock", about, Level.WARN, text, step)]
    if zone is None and wanted is None:
        found.append(
            Finding(
                "clock",
                about,
                Level.WARN,
                "the server does not tell its time zone, so today's offset stands for all times",
                "Set `source_time_zone` to its Windows name, as in sys.time_zone_info.",
            )
        )
    return found


def is_sick(findings: Collection[Finding]) -> bool:
    """Whether something fails."""
    return any(one.level is Level.FAIL for one in findings)
