"""Statements that are not ASCII travel as a parameter: the driver's locale may be Latin-1."""

import pytest

from cdc_assets.sqlserver.statements import in_parameters, numbered


def test_ascii_goes_as_it_is() -> None:
    assert in_parameters("SELECT ?", ("é",)) == ("SELECT ?", ("é",))


def test_other_texts_are_a_parameter() -> None:
    """B120: names and literals keep their question marks."""
    text, parameters = in_parameters(
        "SELECT [é?]]?] FROM t WHERE a = ? AND b = 'x''?' + ?", ("1", None)
    )
    assert text == "EXEC sys.sp_executesql ?, ?, ?, ?"
    assert parameters == (
        "SELECT [é?]]?] FROM t WHERE a = @P1 AND b = 'x''?' + @P2",
        "@P1 nvarchar(4000), @P2 nvarchar(4000)",
        "1",
        None,
    )
    assert in_parameters("SELECT [é]") == ("EXEC sys.sp_executesql ?", ("SELECT [é]",))


def test_marks_and_parameters_must_agree() -> None:
    with pytest.raises(ValueError, match="2 marks and 1 parameters"):
        in_parameters("SELECT [é] WHERE a = ? AND b = ?", ("1",))


def test_marks_are_numbered() -> None:
    assert numbered("? [?] '?' ?") == ("@P1 [?] '?' @P2", 2)
