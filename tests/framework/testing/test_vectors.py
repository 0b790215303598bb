"""Every worked example, through the core in memory, however the input is split and wherever the process restarts."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from panekeeper.testing import difference, play
from tests.model.time_intervals import NaiveTimeInterval
from tests.model.window_kinds import NAIVE, play_naively

HERE = Path(__file__).parents[2]
VECTORS = {path.stem: path for folder in ("vectors", "vectors_own") for path in sorted((HERE / folder).glob("*.json"))}
PLAYED = sorted(name for name in VECTORS if not name.startswith("lifecycle_"))
WAYS: list[tuple[Any, Any]] = [(cut, "none") for cut in ("whole", "each", 1, 2, 3)]
WAYS += [("whole", "each")]  # a restart after every item is a split after every item, whatever `cut` is


def load(name: str) -> dict[str, Any]:
    """One vector by name."""
    vector: dict[str, Any] = json.loads(VECTORS[name].read_text(encoding="utf-8"))
    return vector


@pytest.mark.parametrize(("cut", "restart"), WAYS)
@pytest.mark.parametrize("name", PLAYED)
def test_a_vector_gives_its_events(name: str, cut: Any, restart: Any) -> None:
    """The same events come out for every split into micro-batches and every restart between them."""
    vector = load(name)
    expected, vector["expect"] = vector["expect"], []
    got = play(vector, cut=cut, restart_after=restart)
    assert difference(expected, got) is None


@pytest.mark.parametrize("name", PLAYED)
def test_the_naive_model_agrees_with_a_vector(name: str) -> None:
    """The model that the property tests trust gives every worked example, field by field."""
    vector = load(name)
    in_order = vector["window"]["kind"] in NAIVE
    got = play_naively(vector) if in_order else NaiveTimeInterval(vector["window"]).play(vector["input"])
    assert difference(vector["expect"], got) is None
    assert difference(got, vector["expect"]) is None


@pytest.mark.parametrize("name", PLAYED)
def test_playing_leaves_the_vector_alone(name: str) -> None:
    """`play` does not write into the object it is given."""
    vector = load(name)
    before = copy.deepcopy(vector)
    play(vector, cut="each")
    assert vector == before


@pytest.mark.parametrize("name", sorted(VECTORS.keys() - set(PLAYED)))
def test_a_lifecycle_gives_its_calls(name: str) -> None:
    """The handlers are called in the order of their registration, windows first, with the right checkpoint."""
    vector = load(name)
    expected, vector["expect"] = vector["expect"], []
    assert play(vector) == expected
