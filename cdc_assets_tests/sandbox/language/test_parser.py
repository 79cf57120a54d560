"""The parser: shapes of trees, and texts that mean the same."""

from __future__ import annotations

import pytest

from cdc_assets.sandbox.language import nodes
from cdc_assets.sandbox.language import statements as s
from cdc_assets.sandbox.language.parser import parse_batch, parse_expression
from cdc_assets.sandbox.language.tokens import tokenize

SAME = [
    ("SELECT a FROM t", "select/* x */[a]\nfrom t -- end"),
    ("SELECT a AS b FROM t", "SELECT b = a FROM t AS t"),
    ("SELECT 1; SELECT 2", "SELECT 1 SELECT 2"),
    ("EXEC p 1", "p 1"),
    ("SELECT * FROM a JOIN b ON a.x = b.x", "SELECT * FROM a INNER JOIN b ON (a.x = b.x)"),
    ("SELECT 1 WHERE NOT a <= 1 AND b = 2", "SELECT 1 WHERE (NOT (a <= 1)) AND ((b = 2))"),
    ("IF 1 = 1 SELECT 1 ELSE SELECT 2", "IF 1 = 1 SELECT 1; ELSE SELECT 2;"),
]


@pytest.mark.parametrize(("one", "two"), SAME)
def test_texts_that_mean_the_same(one: str, two: str) -> None:
    first, second = parse_batch(one), parse_batch(two)
    assert repr(first).replace("alias='t'", "alias=None") == repr(second).replace(
        "alias='t'", "alias=None"
    )


def test_precedence() -> None:
    tree = parse_expression("1 + 2 * -3 % x & 4")
    assert isinstance(tree, nodes.Arithmetic)
    assert tree.op == "&"
    assert isinstance(tree.left, nodes.Arithmetic)
    assert tree.left.op == "+"
    (statement,) = parse_batch("SELECT 1 WHERE a = 1 OR b = 2 AND NOT c = 3")
    assert isinstance(statement, s.QueryStatement)
    assert isinstance(statement.query.body, nodes.Select)
    where = statement.query.body.where
    assert isinstance(where, nodes.Logic)
    assert where.op == "OR"


def test_parentheses_of_values_and_of_conditions() -> None:
    for text in (
        "(a + b) * 2 > 3",
        "((a)) = ((b))",
        "(a = 1 OR (b) = 2) AND (c + 1) > 2",
        "(SELECT 1) = 1",
        "((((((((((((((((((((a = 1))))))))))))))))))))",
        "(a) IN (1, 2)",
        "(a) BETWEEN (1) AND (2) AND ((b)) IS NOT NULL",
    ):
        parse_batch(f"SELECT 1 WHERE {text}")


def test_tokens() -> None:
    kinds = [
        (t.kind, t.value) for t in tokenize("N'it''s' [a]]b] 0xAB 1.5e3 .5 @x @@v #t __$op <>")
    ]
    assert kinds[:-1] == [
        ("nstring", "it's"),
        ("quoted", "a]b"),
        ("hex", "0xAB"),
        ("float", "1.5e3"),
        ("decimal", ".5"),
        ("variable", "@x"),
        ("variable", "@@v"),
        ("word", "#t"),
        ("word", "__$op"),
        ("op", "<>"),
    ]


def test_nested_comments() -> None:
    (statement,) = parse_batch("/* a /* b */ c */ SELECT 1")
    assert isinstance(statement, s.QueryStatement)


def test_a_batch_is_parsed_once() -> None:
    assert parse_batch("SELECT 41") is parse_batch("SELECT 41")
