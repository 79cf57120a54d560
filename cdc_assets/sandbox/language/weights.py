"""Macros that make comparison keys: what strings must share to be equal, and what orders them.

Two families of rules: Windows' (every collation for nvarchar, Windows' collations for varchar too)
and sort order 52's (varchar in SQL_Latin1_General_CP1). A key is refused, with Msg 40515 and the
value in its text, where a character is none that `alphabets` knows the weight of.
"""

from __future__ import annotations

from functools import cache

from cdc_assets.sandbox.language import alphabets as a
from cdc_assets.sandbox.language.values import quote, raising_with

SEPARATOR = " || chr(1) || "
"""Between the parts of a key: a character that has no weight."""

_PAIRS = "\\x{10000}-\\x{10ffff}"


def refusal(sql: str, what: str) -> str:
    """DuckDB text of the error that names a value which cannot be compared here."""
    return raising_with(
        40515,
        f"{what} a character of '",
        sql,
        "' under this collation is not supported by the sandbox; BIN2 would be.",
    )


@cache
def macros() -> dict[str, str]:
    """All of them, by name and parameters; each uses its parameter as seldom as it can."""
    return {**_classes(), **_windows(), **_sql(), **_binary()}


def _translated(before: str, after: str, inner: str = "x") -> str:
    before, after = (text.replace("'", "''") for text in (before, after))
    return f"translate({inner}, '{before}', '{after}')"


def _has(inside: str) -> str:
    return f"regexp_matches(x, '[{inside}]')"


def _classes() -> dict[str, str]:
    """Whether a value has a character that a rule does not cover."""
    found = {
        "plain(x)": "regexp_full_match(x, '[ -~]*')",
        "simple(x)": f"regexp_full_match(x, '[{a.simple()}]*')",
        "has_pairs(x)": _has(_PAIRS),
        "has_doubtful(x)": _has(a.doubtful()),
        "has_dots(x)": _has("İı"),
        "has_unclear_accents(x)": _has(a.doubtful_accents()),
        "has_sql_doubtful(x)": _has(a.SQL_DOUBTFUL),
        "has_sql_letters(x)": _has("øðßæþØÐÆÞ"),
        "has_sql_unordered(x)": _has(f"^{a.sql_ordered()}"),
        "has_other_than_ascii(x)": _has("^\\x{0}-\\x{7f}"),
        "has_other_than_latin1(x)": _has("^\\x{0}-\\x{ff}"),
        "has_spaced_controls(x)": "regexp_matches(x, ' [\\x{0}-\\x{1f}]')",
    }
    for name, family in a.ALPHABETS.items():
        found[f"has_unordered_{name}(x)"] = _has(f"^{a.ordered(family)}")
    return found


def _windows() -> dict[str, str]:
    expanded = "x"
    for letter, letters in a.EXPANSIONS:
        expanded = f"replace({expanded}, '{letter}', '{letters}')"
    weights = (a.PUNCTUATION + a.IGNORED, a.PUNCTUATION_WEIGHTS)
    marks = [(m, w) for m, w in zip(*a.accent_weights(), strict=True) if m.islower()]
    accents = "".join(m for m, _ in marks) + a.IGNORED
    steps = "".join(chr(0x61 + i) for i in range(len(a.TURKISH_ALPHABET)))
    held = "".join(chr(0xE010 + i) for i in range(len(a.TURKISH_LETTERS)))
    turkish = a.TURKISH_ALPHABET.translate(str.maketrans(a.TURKISH_LETTERS, held))
    spelled = f"strip_accents(translate(x, '{a.TURKISH_LETTERS}', '{held}'))"
    return {
        "weighted(x)": f"translate(x, chr(0) || {quote(a.CONTROLS)}, '')",
        "one_unit(x)": f"regexp_replace(x, '[{_PAIRS}]', '', 'g')",
        "usual_width(x)": _translated(*a.narrowed()),
        "one_kana(x)": _translated(*a.katakana()),
        "expanded(x)": expanded,
        "small(x)": "replace(lower(x), 'ς', 'σ')",
        "small_turkish(x)": "lower(translate(x, 'Iİ', 'ıi'))",
        # й is a letter of its own, no и with an accent; ё is an е with one.
        "bare(x)": "translate(strip_accents(translate(x, 'йЙ', chr(57344) || chr(57345))), "
        "chr(57344) || chr(57345), 'йЙ')",
        "primary_of(x)": _translated(*weights, "bare(x)"),
        "primary_turkish(x)": _translated(
            *weights, f"translate({spelled}, '{turkish}', '{steps}')"
        ),
        "plain_primary(x)": _translated(*weights),
        "plain_accents(x)": _translated(a.IGNORED, ""),
        "accents_of(x)": _translated(accents, "".join(w for _, w in marks)),
        # The hyphens and apostrophes by where they stand, one after the other: the earlier place
        # comes first, and a string that has no more of them. So Windows' sort keys end.
        "specials_of(x)": "CASE WHEN regexp_matches(x, '[-'']') "
        "THEN rtrim(regexp_replace(x, '[^-'']', '1', 'gs'), '1') ELSE '' END",
        "capitals_of(x)": "regexp_replace(regexp_replace(x, '[^\\p{Lu}]', '0', 'gs'), "
        "'\\p{Lu}', '1', 'g')",
    }


def _sql() -> dict[str, str]:
    marks = a.SQL_PUNCTUATION[:33]
    to = "".join(chr(0x0D + i) for i in range(len(marks)))
    inner = _translated(marks, to, "strip_accents(x)")
    return {
        "sql_plain_primary(x)": _translated(marks, to),
        "sql_primary(x)": f"regexp_replace({inner}, '([¡-¿×÷])', chr(47) || '\\1', 'g')",
    }


def _binary() -> dict[str, str]:
    return {
        # Shorter strings count as padded with spaces: a control character is less than nothing.
        "padded(x)": "rtrim(x, ' ') || ' '",
        # By UTF-16 code units: surrogates come before U+E000.
        "units(x)": "regexp_replace(x, '([\\x{e000}-\\x{ffff}])', chr(1114111) || '\\1', 'g')",
    }
