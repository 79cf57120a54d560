"""The stream's format in sessions."""

import pytest

from cdc_assets.engines.spark.config import SessionConfig
from cdc_assets.engines.spark.session import new_session
from cdc_assets.ingest.stream import register
from cdc_assets_tests.engines.spark.helpers import LOCAL

pytestmark = pytest.mark.spark


def test_several_sessions_know_the_format() -> None:
    """Spark looks for one of its name in the thread's active session, whichever is asked."""
    for _ in range(2):
        session = new_session(SessionConfig.of(LOCAL))
        register(session)
        session.createDataFrame([(1,)], "id INT").count()
        register(session)
