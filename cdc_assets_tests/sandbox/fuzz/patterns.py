"""LIKE, matched character by character as its page describes it."""

from __future__ import annotations

from random import Random

from cdc_assets_tests.sandbox.fuzz.model import Expr, Row, Test, UnsureError

_PATTERNS = [
    "a%", "%b", "%b%", "_", "__", "a_c", "[ab]%", "[^ab]%", "%[0-9]%", "[a-b][^c]%", "%", "",
    "Ab c", "%é", "[%]", "a[b", "%[_]%", "E_", "ab%", "% %", "_b%c", "[^a-c]%",
]  # fmt: skip
_ESCAPED = [("a!%", "!"), ("%!_%", "!"), ("!!%", "!"), ("a~[b]%", "~"), ("!a%", "!")]


def like_test(random: Random, operand: Expr) -> Test:
    """`operand [NOT] LIKE pattern [ESCAPE …]`; under CI case is ignored."""
    escape = ""
    if random.random() < 0.25:
        pattern, escape = random.choice(_ESCAPED)
    else:
        pattern = random.choice(_PATTERNS)
    word = random.choice(["LIKE", "NOT LIKE"])
    mark = random.choice(["", "N"])
    tail = f" ESCAPE '{escape}'" if escape else ""

    def run(row: Row) -> bool | None:
        value = operand.run(row)
        if value is None:
            return None
        found = matches(value.lower(), pattern.lower(), escape)
        # Trailing blanks of a non-Unicode value may be left over, not those of the pattern.
        if not found and not mark and operand.type.name in ("varchar", "char"):
            blanks = len(value) - len(value.rstrip(" "))
            found = any(
                matches(value[: len(value) - n].lower(), pattern.lower(), escape)
                for n in range(1, blanks + 1)
            )
        return found == (word == "LIKE")

    return Test(f"{operand.sql} {word} {mark}'{pattern}'{tail}", run)


def matches(text: str, pattern: str, escape: str) -> bool:
    """Whether the whole text fits the pattern."""
    if not pattern:
        return not text
    head = pattern[0]
    if escape and head == escape and len(pattern) > 1:
        return text[:1] == pattern[1] and matches(text[1:], pattern[2:], escape)
    if head == "%":
        return any(matches(text[i:], pattern[1:], escape) for i in range(len(text) + 1))
    if head == "[":
        end = pattern.find("]", 2)
        if end < 0:
            return False
        inside = pattern[1:end]
        return (
            bool(text) and in_set(text[0], inside) and matches(text[1:], pattern[end + 1 :], escape)
        )
    return bool(text) and head in ("_", text[0]) and matches(text[1:], pattern[1:], escape)


def in_set(char: str, inside: str) -> bool:
    if "-" in inside and not char.isascii():
        raise UnsureError  # what a range holds is the collation's affair
    if inside.startswith("^"):
        return not in_set(char, inside[1:])
    position = 0
    while position < len(inside):
        if inside[position + 1 : position + 2] == "-" and position + 2 < len(inside):
            if inside[position] <= char <= inside[position + 2]:
                return True
            position += 3
            continue
        if inside[position] == char:
            return True
        position += 1
    return False
