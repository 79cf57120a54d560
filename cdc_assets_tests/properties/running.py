"""Histories by their seeds: made to happen, and what a failing one is told as."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from cdc_assets_tests.properties.drawing import Shape, draw_history
from cdc_assets_tests.properties.seeds import SHAPES
from cdc_assets_tests.properties.steps import History
from cdc_assets_tests.properties.world import World
from cdc_assets_tests.source import Server, Source

SEED_VARIABLE = "CDC_HISTORY_SEED"
"""Names the one seed that is to be run, printed as it goes."""

SHAPE_VARIABLE = "CDC_HISTORY_SHAPE"
"""And what that seed's history is like: a name of `SHAPES`."""

STEPS_PRINTED_MAX = 6_000
"""Characters of a failing history that its error has."""


class BrokenPromiseError(AssertionError):
    """A history that did not end right: its seed, its steps and what was wrong."""


def run_history(history: History, server: Server, folder: Path, engine: str) -> Counter[str]:
    """Let one happen on a database of its own; gives how often what happened and was tested.

    Raises what is wrong.
    """
    folder.mkdir(parents=True)
    world = World(history, Source.create(server.without_tls()), folder, engine)
    with world.opened():
        world.play()
    shutil.rmtree(folder)
    return world.counts


def run_seeds(
    seeds: Iterable[int], shape: Shape, server: Server, folder: Path, engine: str
) -> Counter[str]:
    """Let the histories of these seeds happen; the first that is wrong ends it.

    Raises `BrokenPromiseError`.
    """
    counts: Counter[str] = Counter()
    for seed in seeds:
        history = draw_history(seed, shape)
        try:
            counts += run_history(history, server, folder / f"seed-{seed}", engine)
        except Exception as error:
            raise BrokenPromiseError(
                f"the history of seed {seed} on {engine}: {type(error).__name__}: {error}\n"
                f"{again(seed, shape)}\n{str(history)[:STEPS_PRINTED_MAX]}"
            ) from error
    return counts


def again(seed: int, shape: Shape) -> str:
    """How the history is run alone."""
    name = next((name for name, one in SHAPES.items() if one == shape), None)
    if name is None:
        return f"drawn as {shape}"
    command = ".venv/bin/pytest cdc_assets_tests/properties -k one_seed"
    return f"again: {SEED_VARIABLE}={seed} {SHAPE_VARIABLE}={name} {command}"


def asked_seed() -> int | None:
    """The seed that the environment names."""
    text = os.environ.get(SEED_VARIABLE)
    return int(text) if text else None


def asked_shape() -> Shape:
    """The shape that the environment names; that of most histories without."""
    return SHAPES[os.environ.get(SHAPE_VARIABLE) or "arrow"]
