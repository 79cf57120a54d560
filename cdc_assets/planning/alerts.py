"""What an alert says: what turned red or green again since the last one that was delivered. Pure.

It compares two states, what is wrong and what was told, so a message that did not arrive is part
of the next one, and what began and ended in between is told by neither.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from cdc_assets.planning.verdict import Reason

TEXT_LENGTH_MAX = 500
"""Characters of a trouble's text that are kept and sent."""

TABLES_NAMED_MAX = 5
"""Tables that a line of the text names; the document names all."""


_EXPECTED = (Reason.NEVER_LOADED, Reason.PAUSED)
"""Reasons of checks that are red as somebody meant them to be."""


class Kind(StrEnum):
    """What turned red or green."""

    CHECK = "check"
    JOB = "job"


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """A check of a table, or what a job does for one; `table` is "" where a run names none."""

    kind: Kind
    name: str
    table: str


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why something is red: its code, and a sentence that says what to do."""

    reason: str
    text: str

    def cut(self) -> Trouble:
        """With no more text than is sent."""
        return replace(self, text=self.text[:TEXT_LENGTH_MAX])


@dataclass(frozen=True, slots=True)
class Change:
    """A subject that turned red, or for another reason than was told; green without a `trouble`.

    `was` is the reason that was told last, None where none was.
    """

    subject: Subject
    trouble: Trouble | None
    was: str | None


def changes(
    wrong: Mapping[Subject, Trouble],
    told: Mapping[Subject, str],
    tables: Collection[str],
) -> Iterator[Change]:
    """What is to be told: red first, then green; `tables` are those that the settings have.

    A red check that is so for another reason has not changed, and a failing run has. A table that
    was never loaded, or that a person has paused, has not turned red; where its load fails, that is
    told.
    """
    for subject, trouble in sorted(wrong.items(), key=lambda item: item[0]):
        was = told.get(subject)
        if was is None and trouble.reason in _EXPECTED:
            continue
        if was is None or (subject.kind is Kind.JOB and was != trouble.reason):
            yield Change(subject, trouble, was)
    for subject, was in sorted(told.items()):
        if subject not in wrong and not is_gone(subject, tables):
            yield Change(subject, None, was)


def told_after(
    told: Mapping[Subject, str], sent: Sequence[Change], tables: Collection[str]
) -> dict[Subject, str]:
    """What is known to the receiver once these changes were delivered."""
    found = {subject: reason for subject, reason in told.items() if not is_gone(subject, tables)}
    for change in sent:
        if change.trouble is None:
            found.pop(change.subject, None)
        else:
            found[change.subject] = change.trouble.reason
    return found


def is_gone(subject: Subject, tables: Collection[str]) -> bool:
    """Whether it is a check of a table that the settings have no more."""
    return subject.kind is Kind.CHECK and subject.table not in tables


def document(database: str, sent: Sequence[Change], runbook: str) -> dict[str, Any]:
    """The message: `text` for people, as chats show it, and `changes` for programs.

    Tables that share a change are told together: a server that is down is one line.
    """
    groups: dict[tuple[Kind, str, str | None], list[Change]] = defaultdict(list)
    for change in sent:
        reason = change.trouble.reason if change.trouble else None
        groups[change.subject.kind, change.subject.name, reason].append(change)
    found = [_group(database, of, runbook) for of in groups.values()]
    return {"text": "\n".join(map(_line, found)), "database": database, "changes": found}


def _group(database: str, of: Sequence[Change], runbook: str) -> dict[str, Any]:
    first = of[0]
    told: dict[str, Any] = {
        "database": database,
        "state": "green" if first.trouble is None else "red",
        "kind": str(first.subject.kind),
        "name": first.subject.name,
        "tables": [change.subject.table for change in of if change.subject.table],
    }
    if first.trouble is not None:
        told["reason"] = first.trouble.reason
        told["text"] = first.trouble.text[:TEXT_LENGTH_MAX]
        told["runbook"] = f"{runbook}#{first.trouble.reason}"
    return told


def _line(told: Mapping[str, Any]) -> str:
    named, more = told["tables"][:TABLES_NAMED_MAX], len(told["tables"]) - TABLES_NAMED_MAX
    tables = ", ".join(named) + (f" and {more} more" if more > 0 else "")
    what = f"{told['kind']} {told['name']}" + (f" of {tables}" if tables else "")
    if told["state"] == "green":
        return f"GREEN {told['database']}: {what} is well again."
    return f"RED {told['database']}: {what} [{told['reason']}]: {told['text']}"
