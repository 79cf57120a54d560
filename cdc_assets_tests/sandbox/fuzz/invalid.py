"""Statements that SQL Server refuses, with the numbers Microsoft's error reference gives them.

`{t}` is a table, `{c}` and `{d}` two of its columns, `{w}` a number, `{v}` a column of text.
"""

from __future__ import annotations

from random import Random

from cdc_assets_tests.sandbox.fuzz.mistakes import CHANGES, TYPES, VALUES
from cdc_assets_tests.sandbox.fuzz.queries import Statement
from cdc_assets_tests.sandbox.fuzz.tables import COLUMNS
from cdc_assets_tests.sandbox.fuzz.unsupported import REFUSED

SETUP = (
    "CREATE TABLE keyed (id int IDENTITY(1, 1) PRIMARY KEY, a int NOT NULL, s varchar(3) NULL, "
    "u int NOT NULL CONSTRAINT keyed_u UNIQUE, twice AS a * 2, h smallint NULL, rv rowversion)",
    "CREATE UNIQUE INDEX keyed_a ON keyed (a)",
    "INSERT INTO keyed (a, u) VALUES (1, 1), (2, 2)",
)

SYNTAX = {
    102: [
        "SELECT {w} +",
        "SELECT ({w}",
        "SELECT {w})",
        "SELECT * FROM",
        "SELECT {c} x y FROM {t}",
        "SELECT {c} FROM {t} WHERE {c} =",
        "SELECT {c} FROM {t} WHERE",
        "SELECT {c}, FROM_ {t} {t} {t}",
        "INSERT INTO {t} VALUES (1",
        "UPDATE {t} SET",
        "UPDATE {t} {c} = 1 x",
        "SELECT {w} ,",
        "SELECT {c} FROM {t} GROUP BY",
        "SELECT LEN('a' FROM_ x",
        "SELECT {w} ~ {w}",
        "SELECT {c} FROM {t} WHERE {c} IN ()",
        "DECLARE x int",
        "SELECT CAST({c} int) FROM {t}",
        "SELECT * FROM {t} JOIN {t} AS o",
        "MERGE {t} USING {t} AS s ON 1 = 1 WHEN MATCHED THEN DELETE",
    ],
    156: [
        "SELECT FROM {t}",
        "SELECT {c} FROM WHERE {c} = 1",
        "SELECT {c} FROM {t} WHERE AND {c} = 1",
        "SELECT {c} FROM FROM {t}",
        "SELECT SELECT {w}",
        "DELETE FROM WHERE {c} = 1",
        "SELECT ORDER BY 1",
        "SELECT {c} FROM {t} WHERE {c} = 1 WHERE {c} = 2",
        "SELECT CASE END FROM {t}",
        "SELECT {c} FROM {t} HAVING WHERE {c} = 1",
        "SELECT {w} AS FROM {t}",
        "UPDATE SET {c} = 1",
        "SELECT * FROM {t} AS ORDER BY 1",
        "INSERT INTO {t} (id VALUES (1)",
    ],
    105: [
        "SELECT 'open",
        "SELECT N'open FROM {t}",
        "SELECT [open FROM {t}",
        "SELECT {c} FROM {t} WHERE {v} = 'x",
    ],
    113: ["SELECT {w} /* open", "SELECT {c} FROM {t} /* a /* b */"],
    103: ["SELECT {w} AS " + "x" * 129],
    173: ["CREATE TABLE z (a)", "CREATE TABLE z (a int, b)"],
    4145: [
        "SELECT {c} FROM {t} WHERE {c}",
        "SELECT {w} WHERE {w}",
        "SELECT CASE WHEN {w} THEN 2 END",
        "SELECT {w} WHERE 1 = 1 AND {w}",
        "SELECT {c} FROM {t} WHERE NOT {c}",
        "IF {w} SELECT 1",
        "SELECT COUNT(*) FROM {t} HAVING COUNT(*)",
    ],
}

NAMES = {
    207: [
        "SELECT nope FROM {t}",
        "SELECT {t}.nope FROM {t}",
        "SELECT {c} FROM {t} WHERE nope = {w}",
        "SELECT {c} FROM {t} ORDER BY nope",
        "SELECT COUNT(*) FROM {t} GROUP BY nope",
        "UPDATE {t} SET nope = 1",
        "UPDATE {t} SET {c} = nope",
        "INSERT INTO {t} (nope) VALUES (1)",
        "DELETE {t} WHERE nope = 1",
        "SELECT {c} FROM {t} WHERE id IN (SELECT nope FROM {t})",
        "SELECT {w} AS one WHERE one = 1",
    ],
    208: [
        "SELECT * FROM nope",
        "SELECT * FROM nope.{t}",
        "INSERT INTO nope VALUES (1)",
        "UPDATE nope SET a = 1",
        "DELETE nope",
        "SELECT * FROM #nope",
        "SELECT {c} FROM {t} WHERE EXISTS (SELECT * FROM nope)",
        "WITH x AS (SELECT 1 AS a) SELECT * FROM y",
        "MERGE nope USING {t} AS s ON 1 = 0 WHEN NOT MATCHED THEN INSERT (a) VALUES (1);",
    ],
    209: [
        "SELECT {c} FROM p, q",
        "SELECT p.id FROM p JOIN q ON {c} = 1",
        "SELECT p.id FROM p CROSS JOIN q WHERE {c} IS NULL",
        "SELECT a.id FROM p AS a, q AS b ORDER BY {c}",
    ],
    4104: [
        "SELECT zz.id FROM {t}",
        "SELECT {t}.id FROM {t} AS other",
        "SELECT {c} FROM {t} WHERE zz.{c} = 1",
        "SELECT a.id FROM p AS a JOIN q AS b ON c.id = a.id JOIN r AS c ON 1 = 1",
        "SELECT id FROM {t} ORDER BY zz.id",
    ],
    107: ["SELECT zz.* FROM {t}", "SELECT {t}.* FROM {t} AS other"],
    263: ["SELECT *"],
    911: ["SELECT * FROM nobase.dbo.{t}", "USE nobase"],
    137: ["SELECT @nope", "SELECT {c} FROM {t} WHERE {c} = @nope", "SET @nope = 1"],
    1087: ["SELECT * FROM @nope", "INSERT INTO @nope VALUES (1)"],
    134: ["DECLARE @a int, @a int", "DECLARE @a int; DECLARE @A int"],
    195: ["SELECT nofunction({w})", "SELECT nofunction({c}) FROM {t}"],
    4121: ["SELECT dbo.nofunction({w})"],
    2812: ["EXEC nope", "EXEC dbo.nope {w}", "EXEC sys.sp_nope"],
    1011: ["SELECT 1 FROM p AS a, q AS a", "SELECT 1 FROM p x JOIN q x ON 1 = 1"],
    1013: ["SELECT 1 FROM {t}, {t}", "SELECT 1 FROM {t} CROSS JOIN {t}"],
    1012: ["SELECT 1 FROM p, q AS p"],
}

QUERIES = {
    205: ["SELECT {c} FROM {t} UNION SELECT {c}, {d} FROM {t}", "SELECT 1, 2 EXCEPT SELECT 1"],
    104: ["SELECT {c} FROM {t} UNION ALL SELECT {c} FROM {t} ORDER BY {d}"],
    145: ["SELECT DISTINCT {c} FROM {t} ORDER BY {d}"],
    108: [
        "SELECT {c} FROM {t} ORDER BY 2",
        "SELECT {c}, {d} FROM {t} ORDER BY 1, 3",
        "SELECT {c} FROM {t} ORDER BY 0",
    ],
    169: ["SELECT {c} FROM {t} ORDER BY {c}, {c}"],
    408: ["SELECT {c} FROM {t} ORDER BY 'a'", "SELECT {c} FROM {t} ORDER BY {c}, NULL"],
    8120: [
        "SELECT {c}, COUNT(*) FROM {t}",
        "SELECT {c}, {d} FROM {t} GROUP BY {c}",
        "SELECT {c} FROM {t} GROUP BY {d}",
        "SELECT COUNT(*), {d} FROM {t} GROUP BY {c}",
        "SELECT * FROM {t} GROUP BY {c}",
        "SELECT CASE WHEN {c} IS NULL THEN 1 END, SUM(id) FROM {t}",
    ],
    8121: [
        "SELECT COUNT(*) FROM {t} HAVING {c} IS NULL",
        "SELECT {c} FROM {t} GROUP BY {c} HAVING {d} IS NULL",
    ],
    8127: [
        "SELECT COUNT(*) FROM {t} GROUP BY {c} ORDER BY {d}",
        "SELECT {c} FROM {t} GROUP BY {c} ORDER BY {d}",
    ],
    147: ["SELECT {c} FROM {t} WHERE COUNT(*) > 1", "SELECT {c} FROM {t} WHERE MAX(id) = id"],
    130: [
        "SELECT SUM(COUNT(*)) FROM {t}",
        "SELECT MAX(MIN(id)) FROM {t}",
        "SELECT SUM((SELECT 1)) FROM {t}",
    ],
    144: ["SELECT COUNT(*) FROM {t} GROUP BY COUNT(*)", "SELECT 1 FROM {t} GROUP BY (SELECT 1)"],
    164: ["SELECT COUNT(*) FROM {t} GROUP BY 1", "SELECT COUNT(*) FROM {t} GROUP BY 'a'"],
    157: ["UPDATE {t} SET id = MAX(id)"],
    1033: [
        "SELECT * FROM (SELECT {c} FROM {t} ORDER BY {c}) AS x",
        "WITH x AS (SELECT {c} FROM {t} ORDER BY 1) SELECT * FROM x",
        "SELECT {c} FROM {t} WHERE id IN (SELECT id FROM {t} ORDER BY id)",
        "SELECT (SELECT {c} FROM {t} ORDER BY {c})",
    ],
    116: [
        "SELECT (SELECT 1, 2)",
        "SELECT {c} FROM {t} WHERE id IN (SELECT 1, 2)",
        "SELECT {c} FROM {t} WHERE id = (SELECT 1, 2)",
    ],
    512: ["SELECT (SELECT id FROM {t})", "SELECT {c} FROM {t} WHERE id = (SELECT id FROM p)"],
    8155: ["SELECT * FROM (SELECT 1) AS x", "WITH x AS (SELECT COUNT(*) FROM {t}) SELECT * FROM x"],
    8156: [
        "SELECT * FROM (SELECT {c}, {c} FROM {t}) AS x",
        "WITH x (a, a) AS (SELECT 1, 2) SELECT * FROM x",
        "SELECT 1 FROM (SELECT p.id, q.id FROM p, q) AS x",
    ],
    8158: ["SELECT * FROM (SELECT 1, 2) AS x (a)", "WITH x (a) AS (SELECT 1, 2) SELECT * FROM x"],
    8159: [
        "SELECT * FROM (SELECT 1 AS a) AS x (a, b)",
        "WITH x (a, b) AS (SELECT 1) SELECT * FROM x",
    ],
    4108: [
        "SELECT {c} FROM {t} WHERE ROW_NUMBER() OVER (ORDER BY id) = 1",
        "SELECT {c} FROM {t} GROUP BY {c}, RANK() OVER (ORDER BY id)",
    ],
    4109: [
        "SELECT SUM(ROW_NUMBER() OVER (ORDER BY id)) FROM {t}",
        "SELECT SUM(SUM(id) OVER ()) OVER () FROM {t}",
    ],
    4112: [
        "SELECT ROW_NUMBER() OVER () FROM {t}",
        "SELECT RANK() OVER (PARTITION BY {c}) FROM {t}",
    ],
    10753: ["SELECT ROW_NUMBER() FROM {t}", "SELECT LAG(id) FROM {t}"],
    4113: ["SELECT LEN({v}) OVER (ORDER BY id) FROM {t}"],
    5308: ["SELECT ROW_NUMBER() OVER (ORDER BY 1) FROM {t}"],
    5309: ["SELECT ROW_NUMBER() OVER (ORDER BY 'a') FROM {t}"],
    4127: ["SELECT COALESCE(NULL, NULL)"],
    8133: [
        "SELECT CASE WHEN 1 = 1 THEN NULL END",
        "SELECT CASE {w} WHEN 1 THEN NULL ELSE NULL END",
    ],
    4151: ["SELECT NULLIF(NULL, {w})"],
    127: ["SELECT TOP (-1) {c} FROM {t}"],
    10742: ["SELECT {c} FROM {t} ORDER BY id OFFSET -1 ROWS"],
    10744: ["SELECT {c} FROM {t} ORDER BY id OFFSET 1 ROWS FETCH NEXT 0 ROWS ONLY"],
    10741: ["SELECT TOP (1) {c} FROM {t} ORDER BY id OFFSET 1 ROWS"],
    1062: ["SELECT TOP (1) WITH TIES {c} FROM {t}"],
    10709: ["SELECT * FROM (VALUES (1, 2), (3)) AS x (a, b)"],
    252: ["WITH x AS (SELECT id FROM x) SELECT * FROM x"],
    239: ["WITH x AS (SELECT 1 AS a), x AS (SELECT 2 AS a) SELECT * FROM x"],
}

ALSO = {
    402: {8117},
    8117: {402},
    206: {402},
    131: {2717},
    536: {537},
    537: {536},
    120: {213},
    1779: {8110},
    10753: {4112},
    1011: set(),
    5074: set(),
}
"""Numbers that a reader may also expect where two of them describe the same mistake."""

_GROUPS = (SYNTAX, NAMES, QUERIES, TYPES, VALUES, CHANGES)
_PLAIN = [c.name for c in COLUMNS if c.name not in ("id", "k", "x")]


def all_statements() -> list[tuple[int, str]]:
    """Every template with its number; 0 for what must only be refused."""
    found = [(n, text) for group in _GROUPS for n, texts in group.items() for text in texts]
    return found + [(0, text) for text in REFUSED]


def filled(random: Random, number: int, text: str) -> Statement:
    """A template with names chosen."""
    first, second = random.sample(_PLAIN, 2)
    shown = text.format(
        t=random.choice("pqr"),
        c=first,
        d=second if "DISTINCT" in text or "GROUP" in text or "{d}" in text else first,
        w=random.choice([1, 2, 7, 10]),
        v=random.choice(["v", "n", "c"]),
    )
    if random.random() < 0.3:
        shown = random.choice(["", " ", "\n\t"]) + shown
    return Statement(shown, errors=frozenset({number, *ALSO.get(number, set())} - {0}))


def statement(random: Random) -> Statement:
    """A statement that must be refused."""
    return filled(random, *random.choice(all_statements()))
