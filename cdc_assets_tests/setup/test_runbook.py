"""`docs/runbook.md` has an entry for every code that an error carries or a check shows."""

import re

from cdc_assets.orchestration.checks import CHECKS
from cdc_assets.orchestration.sync_checks import NO_GAP, SCHEMA_FITS
from cdc_assets.orchestration.uniqueness import UNIQUE_KEYS
from cdc_assets.planning.verdict import Reason
from cdc_assets_tests.cases import TESTS
from cdc_assets_tests.path.test_each_error import kinds

DOCS = TESTS.parent / "docs"
PAGE = (DOCS / "runbook.md").read_text()
ENTRIES = re.findall(r"^### (.+)$", PAGE, re.MULTILINE)
WAITING = "waiting"
"""What the checks of a sync show where a snapshot waits."""


def test_every_code_reason_and_check_has_one_entry() -> None:
    codes = {kind.code for kind in kinds()}
    checks = {NO_GAP, SCHEMA_FITS, UNIQUE_KEYS, *(check.name for check in CHECKS)}
    assert sorted(ENTRIES) == sorted({*codes, *Reason, *checks, WAITING})


def test_every_command_of_the_page_is_one_of_ours() -> None:
    known = re.findall(r"^## (\w+)$", (DOCS / "cli.md").read_text(), re.MULTILINE)
    named = set(re.findall(r"`cdc-assets (\w+)", PAGE))
    assert named
    assert named <= set(known)
