"""What tells the commits of two calls apart."""

from cdc_assets.silver.plan import call_tag


def test_no_two_calls_have_one_tag() -> None:
    """Spark skips the second one's MERGE without a word, and looks who made the first."""
    first, second = (call_tag("orders#apply", 1, {"applied_lsn": "0x01"}) for _ in range(2))
    assert (first.app_id, first.version) == (second.app_id, second.version)
    assert first.user_metadata != second.user_metadata
