"""T-SQL text as tokens, and a cursor over them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from cdc_assets.sandbox.language import errors
from cdc_assets.sandbox.results import SqlError

WORD, QUOTED, STRING, NSTRING, INTEGER, DECIMAL, FLOAT, HEX, VARIABLE, OP, END = (
    "word",
    "quoted",
    "string",
    "nstring",
    "integer",
    "decimal",
    "float",
    "hex",
    "variable",
    "op",
    "end",
)

_RESERVED_WORDS = """
ADD ALL ALTER AND ANY AS ASC AUTHORIZATION BACKUP BEGIN BETWEEN BREAK BROWSE BULK BY CASCADE
CASE CHECK CHECKPOINT CLOSE CLUSTERED COALESCE COLLATE COLUMN COMMIT COMPUTE CONSTRAINT CONTAINS
CONTINUE CONVERT CREATE CROSS CURRENT CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER
CURSOR DATABASE DBCC DEALLOCATE DECLARE DEFAULT DELETE DENY DESC DISTINCT DISTRIBUTED DOUBLE DROP
ELSE END ESCAPE EXCEPT EXEC EXECUTE EXISTS EXIT EXTERNAL FETCH FILE FOR FOREIGN FREETEXT FROM FULL
FUNCTION GOTO GRANT GROUP HAVING HOLDLOCK IDENTITY IDENTITY_INSERT IF IN INDEX INNER INSERT
INTERSECT INTO IS JOIN KEY KILL LEFT LIKE MERGE NATIONAL NOCHECK NONCLUSTERED NOT NULL NULLIF OF
OFF ON OPEN OPTION OR ORDER OUTER OVER PERCENT PIVOT PLAN PRIMARY PRINT PROC PROCEDURE PUBLIC
RAISERROR READ RECONFIGURE REFERENCES REPLICATION RESTORE RESTRICT RETURN REVERT REVOKE RIGHT
ROLLBACK ROWCOUNT RULE SAVE SCHEMA SELECT SESSION_USER SET SETUSER SHUTDOWN SOME STATISTICS
SYSTEM_USER TABLE TABLESAMPLE THEN TO TOP TRAN TRANSACTION TRIGGER TRUNCATE TRY_CONVERT UNION
UNIQUE UNPIVOT UPDATE USE USER VALUES VIEW WAITFOR WHEN WHERE WHILE WITH
"""
RESERVED = frozenset(_RESERVED_WORDS.split())
"""Words that cannot be bare identifiers."""

_TOKEN = re.compile(
    r"""(?P<space>(?:\s|--[^\n]*(?:\n|$))+)
    |(?P<comment>/\*)
    |(?P<nstring>[nN]'(?:[^']|'')*')
    |(?P<string>'(?:[^']|'')*')
    |(?P<bracket>\[(?:[^\]]|\]\])*\])
    |(?P<quoted>"(?:[^"]|"")*")
    |(?P<hex>0[xX][0-9a-fA-F]*)
    |(?P<float>(?:\d+\.?\d*|\.\d+)[eE][+-]?\d+)
    |(?P<decimal>\d+\.\d*|\.\d+)
    |(?P<integer>\d+)
    |(?P<variable>@@?[\w@$\#]+)
    |(?P<word>[^\W\d]|[\#_])(?P<rest>[\w@$\#]*)
    |(?P<op><>|<=|>=|!=|!<|!>|\+=|-=|\*=|/=|%=|&=|\|=|\^=|::|[-+*/%=<>(),.;&|^~:?])
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """One token: `text` as written, `value` what it means, `upper` for keyword tests."""

    kind: str
    text: str
    value: str
    upper: str
    start: int
    end: int

    @property
    def is_reserved(self) -> bool:
        """Whether it is a word that cannot be a bare identifier."""
        return self.kind == WORD and self.upper in RESERVED


def tokenize(text: str) -> list[Token]:
    """Split T-SQL text; raises Msg 102, 105 or 113 for what is no token."""
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _unreadable(text, position)
        kind = match.lastgroup
        if kind == "comment":
            position = _comment_end(text, position)
            continue
        if kind != "space":
            tokens.append(_token(match, kind or ""))
        position = match.end()
    tokens.append(Token(END, "", "", "", len(text), len(text)))
    return tokens


def _token(match: re.Match[str], kind: str) -> Token:
    text = match.group()
    value, upper = text, ""
    if kind == "rest":
        kind, upper = WORD, text.upper()
    elif kind == "bracket":
        kind, value = QUOTED, text[1:-1].replace("]]", "]")
    elif kind == "quoted":
        value = text[1:-1].replace('""', '"')
    elif kind == "string":
        value = text[1:-1].replace("''", "'")
    elif kind == "nstring":
        value = text[2:-1].replace("''", "'")
    elif kind == "op":
        upper = text
    return Token(kind, text, value, upper, match.start(), match.end())


def _comment_end(text: str, start: int) -> int:
    """The end of a block comment, which T-SQL lets nest."""
    depth, position = 1, start + 2
    while depth:
        match = re.compile(r"/\*|\*/").search(text, position)
        if match is None:
            raise SqlError(113, "Missing end comment mark '*/'.", 15)
        depth += 1 if match.group() == "/*" else -1
        position = match.end()
    return position


def _unreadable(text: str, position: int) -> SqlError:
    rest = text[position:]
    if rest[0] in "'\"[" or rest[:2].upper() == "N'":
        shown = rest.lstrip("nN")[1:][:128]
        return SqlError(105, f"Unclosed quotation mark after the character string '{shown}'.", 15)
    return errors.syntax(rest[0])


class TokenStream:
    """A cursor over the tokens of one batch."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.index = 0

    @property
    def token(self) -> Token:
        """The token under the cursor."""
        return self.tokens[self.index]

    def ahead(self, count: int = 1) -> Token:
        """The token `count` places further, or the end."""
        return self.tokens[min(self.index + count, len(self.tokens) - 1)]

    def advance(self) -> Token:
        """The token under the cursor, moving past it."""
        token = self.tokens[self.index]
        if token.kind != END:
            self.index += 1
        return token

    def at(self, *words: str) -> bool:
        """Whether the cursor is on one of these keywords or operators."""
        token = self.token
        return token.upper in words and token.kind in (WORD, OP)

    def at_phrase(self, *words: str) -> bool:
        """Whether these keywords follow each other from the cursor on."""
        return all(
            self.ahead(i).upper == word and self.ahead(i).kind in (WORD, OP)
            for i, word in enumerate(words)
        )

    def accept(self, *words: str) -> str | None:
        """The keyword or operator under the cursor if it is one of these, moving past it."""
        if self.at(*words):
            return self.advance().upper
        return None

    def accept_phrase(self, *words: str) -> bool:
        """Move past these keywords if all of them follow."""
        if self.at_phrase(*words):
            self.index += len(words)
            return True
        return False

    def expect(self, *words: str) -> str:
        """Like `accept`, but anything else is Msg 102."""
        found = self.accept(*words)
        if found is None:
            self.fail()
        return found

    def expect_phrase(self, *words: str) -> None:
        """Move past these keywords, each of which must be there."""
        for word in words:
            self.expect(word)

    def fail(self) -> NoReturn:
        """Raise Msg 102 (or 156 for a keyword) at the cursor."""
        token = self.token
        if token.kind == END:
            raise errors.syntax(self.tokens[self.index - 1].text if self.index else "")
        raise errors.syntax(token.text, keyword=token.is_reserved)

    def identifier(self) -> str:
        """A name: bare and not reserved, or quoted."""
        token = self.token
        if token.kind == QUOTED or (token.kind == WORD and not token.is_reserved):
            self.index += 1
            if len(token.value) > 128:
                raise SqlError(
                    103,
                    f"The identifier that starts with '{token.value[:128]}' is too long. "
                    "Maximum length is 128.",
                    15,
                )
            return token.value
        return self.fail()

    def at_identifier(self) -> bool:
        """Whether a name can start here."""
        token = self.token
        return token.kind == QUOTED or (token.kind == WORD and not token.is_reserved)

    def object_name(self) -> tuple[str, ...]:
        """A name of one to four parts; an omitted part (`db..table`) is the empty string."""
        parts = [self.identifier()]
        while self.accept("."):
            parts.append("" if self.at(".") else self.identifier())
        if len(parts) > 4:
            raise SqlError(
                117,
                f"The object name '{'.'.join(parts)}' contains more than the maximum number of "
                "prefixes. The maximum is 3.",
                15,
            )
        return tuple(parts)

    def variable(self) -> str:
        """A local variable, `@x`."""
        token = self.token
        if token.kind != VARIABLE or token.value.startswith("@@"):
            self.fail()
        self.index += 1
        return token.value
