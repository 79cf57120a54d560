"""The property test sees what it is for: with a fault planted in the product, a history ends wrong.

Each is planted into the texts or the order of reading that an apply is made of, and some seed of a
few must break a promise then. The same seeds end right without it: they are among `test_histories`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.planning.plans import MergeTexts
from cdc_assets.silver import apply as apply_module
from cdc_assets.silver import plan as plan_module
from cdc_assets_tests.properties.drawing import Shape
from cdc_assets_tests.properties.running import BrokenPromiseError, run_seeds
from cdc_assets_tests.source import Server

pytestmark = pytest.mark.sandbox

SEEDS_MAX = 20
"""So many histories must not all miss a fault."""

Patch = pytest.MonkeyPatch


def in_texts(change: Callable[[MergeTexts], MergeTexts]) -> Callable[[Patch], None]:
    """A fault in what a MERGE is told."""
    right = plan_module.merge_texts

    def plant(patch: Patch) -> None:
        patch.setattr(plan_module, "merge_texts", lambda *given: change(right(*given)))

    return plant


def swapped(text: str, old: str, new: str) -> str:
    """A text with a part of it replaced, which must be there."""
    assert old in text, text
    return text.replace(old, new)


def reversed_order(texts: MergeTexts) -> MergeTexts:
    return replace(texts, ranking=swapped(texts.ranking, "DESC NULLS LAST", "ASC NULLS FIRST"))


def null_is_no_key(texts: MergeTexts) -> MergeTexts:
    return replace(texts, matched=swapped(texts.matched, "<=>", "="))


def before_images_ignored(texts: MergeTexts) -> MergeTexts:
    return replace(texts, is_delete=swapped(texts.is_delete, "(1, 3)", "(1)"))


def verdict_after_the_pin(patch: Patch) -> None:
    """What silver then claims is more than the bronze that was applied has."""
    right = apply_module.read

    def read(*given: Any) -> Any:
        found = right(*given)
        if found is None:
            return None
        control = found.table.lake.control.read()
        return replace(found, verdict=control.get(found.table.name.bronze, found.verdict))

    patch.setattr(apply_module, "read", read)


FAULTS = {
    "order reversed": in_texts(reversed_order),
    "= for <=>": in_texts(null_is_no_key),
    "operation 3 ignored": in_texts(before_images_ignored),
    "verdict read after the pin": verdict_after_the_pin,
}


@pytest.mark.parametrize("name", FAULTS)
def test_it_is_caught(
    name: str, monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path
) -> None:
    FAULTS[name](monkeypatch)
    with pytest.raises(BrokenPromiseError) as caught:
        run_seeds(range(SEEDS_MAX), Shape(killing=0.0), server, tmp_path, "arrow")
    # What is wrong is what the lake shows; not that the product noticed it itself.
    assert isinstance(caught.value.__cause__, AssertionError)
    print(str(caught.value)[:400])
