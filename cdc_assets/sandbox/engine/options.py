"""SET: the options that change something, those that change nothing, and refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdc_assets.sandbox.engine.metadata import named_object
from cdc_assets.sandbox.language import errors
from cdc_assets.sandbox.language import statements as s
from cdc_assets.sandbox.results import SqlError

if TYPE_CHECKING:
    from cdc_assets.sandbox.engine.session import EngineSession

# What these ask for with this value is how the sandbox behaves anyway.
_AS_IS = {
    "ANSI_NULLS": {"ON"},
    "ANSI_PADDING": {"ON"},
    "ANSI_WARNINGS": {"ON", "OFF"},
    "ANSI_NULL_DFLT_ON": {"ON"},
    "ANSI_DEFAULTS": {"ON"},
    "ARITHABORT": {"ON", "OFF"},
    "ARITHIGNORE": {"OFF"},
    "CONCAT_NULL_YIELDS_NULL": {"ON"},
    "CURSOR_CLOSE_ON_COMMIT": {"OFF"},
    "FMTONLY": {"OFF"},
    "FORCEPLAN": {"OFF"},
    "NO_BROWSETABLE": {"ON", "OFF"},
    "NOEXEC": {"OFF"},
    "NUMERIC_ROUNDABORT": {"OFF"},
    "PARSEONLY": {"OFF"},
    "QUOTED_IDENTIFIER": {"ON"},
    "REMOTE_PROC_TRANSACTIONS": {"OFF"},
    "ROWCOUNT": {"0"},
    "SHOWPLAN_TEXT": {"OFF"},
    "STATISTICS IO": {"ON", "OFF"},
    "STATISTICS TIME": {"ON", "OFF"},
}
_LEVELS = frozenset(
    {"READ COMMITTED", "READ UNCOMMITTED", "REPEATABLE READ", "SERIALIZABLE", "SNAPSHOT"}
)


def apply(session: EngineSession, statement: s.SetOption) -> None:
    """Set an option; raises Msg 195 for an unknown one."""
    option, value = statement.option, statement.value
    options = session.context.options
    switch = value.upper() == "ON"
    if option == "NOCOUNT":
        options.nocount = switch
    elif option == "XACT_ABORT":
        options.xact_abort = switch
    elif option == "IMPLICIT_TRANSACTIONS":
        options.implicit_transactions = switch
    elif option == "TRANSACTION ISOLATION LEVEL":
        if value not in _LEVELS:
            raise errors.syntax(value)
        options.isolation = value
    elif option.startswith("IDENTITY_INSERT "):
        _identity_insert(session, option.partition(" ")[2], on=switch)
    elif option in (
        "LOCK_TIMEOUT",
        "TEXTSIZE",
        "DATEFIRST",
        "DATEFORMAT",
        "LANGUAGE",
        "DEADLOCK_PRIORITY",
        "CONTEXT_INFO",
    ):
        _valued(session, option, value)
    elif option in _AS_IS:
        if value.upper() not in _AS_IS[option]:
            raise errors.unsupported(f"SET {option} {value}")
    else:
        raise SqlError(195, f"'{option}' is not a recognized SET option.", 15)


def _valued(session: EngineSession, option: str, value: str) -> None:
    options = session.context.options
    if value.startswith("@"):
        found = session.binder().environment.variable(value)
        value = str(found.constant)
    if option == "LOCK_TIMEOUT":
        options.lock_timeout = int(value)
    elif option == "TEXTSIZE":
        options.text_size = 2_147_483_647 if int(value) <= 0 else int(value)
    elif option == "DATEFIRST" and value != "7":
        raise errors.unsupported(f"SET DATEFIRST {value}")
    elif option == "DATEFORMAT" and value.lower() not in ("mdy", "ymd"):
        raise errors.unsupported(f"SET DATEFORMAT {value}")
    elif option == "LANGUAGE" and value.lower() not in ("us_english", "english"):
        raise errors.unsupported(f"SET LANGUAGE {value}")


def _identity_insert(session: EngineSession, name: str, *, on: bool) -> None:
    table = named_object(session.context, name)
    if table is None:
        raise SqlError(
            1088,
            f'Cannot find the object "{name}" because it does not exist or you '
            "do not have permissions.",
        )
    if not any(column.identity for column in table.columns):
        raise SqlError(
            8106,
            f"Table '{name}' does not have the identity property. Cannot perform SET operation.",
        )
    held = session.context.options.identity_insert
    if on and held not in (None, table.id):
        raise SqlError(
            8107, "IDENTITY_INSERT is already ON for another table. Cannot perform SET operation."
        )
    session.context.options.identity_insert = table.id if on else None
