"""RAISERROR and THROW: the messages and errors that a batch makes itself."""

from __future__ import annotations

from collections.abc import Sequence

from cdc_assets.sandbox.language import errors
from cdc_assets.sandbox.results import Message, SqlError

_OWN_NUMBER = 50_000
_LOWEST_THROWN = 50_000
_LAST_MESSAGE_SEVERITY = 10
_HIGHEST_RAISED_SEVERITY = 18
_ARGUMENTS = 3


def raised(kind: str, arguments: Sequence[object], caught: Sequence[SqlError]) -> Message:
    """What RAISERROR prints; raises the error that either statement makes."""
    if kind == "THROW":
        raise _thrown(arguments, caught)
    if len(arguments) < _ARGUMENTS:
        raise errors.argument_count("raiserror", "3")
    text, severity, state = str(arguments[0]), int(str(arguments[1])), int(str(arguments[2]))
    if text.isdecimal():
        raise errors.unsupported("RAISERROR of a number out of sys.messages")
    shown = _formatted(text, arguments[_ARGUMENTS:])
    if severity <= _LAST_MESSAGE_SEVERITY:
        return Message(_OWN_NUMBER, shown, max(severity, 0), state)
    if severity > _HIGHEST_RAISED_SEVERITY:
        raise SqlError(
            2754,
            "Error severity levels greater than 18 can only be specified by members of the "
            "sysadmin role, using the WITH LOG option.",
        )
    raise SqlError(_OWN_NUMBER, shown, severity, state)


def _thrown(arguments: Sequence[object], caught: Sequence[SqlError]) -> SqlError:
    if not arguments:
        if not caught:
            return SqlError(
                10704,
                "To rethrow an error, a THROW statement must be used inside a CATCH block.",
                15,
            )
        return caught[-1]
    if len(arguments) != _ARGUMENTS:
        return errors.syntax("THROW")
    number, text, state = int(str(arguments[0])), str(arguments[1]), int(str(arguments[2]))
    if number < _LOWEST_THROWN:
        return SqlError(
            35100,
            f"Error number {number} in the THROW statement is outside the valid range. Specify an "
            "error number in the valid range of 50000 to 2147483647.",
        )
    return SqlError(number, text, 16, state)


def _formatted(text: str, arguments: Sequence[object]) -> str:
    """RAISERROR's %s and %d."""
    rest = list(arguments)
    parts = text.split("%")
    shown = parts[0]
    for part in parts[1:]:
        if part[:1] in ("s", "d", "i", "u") and rest:
            shown += str(rest.pop(0)) + part[1:]
        else:
            shown += "%" + part
    return shown
