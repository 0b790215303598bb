"""The transcripts in `tests/transcripts/`, played however their input is split and wherever the process restarts."""

from __future__ import annotations

import copy
from itertools import product
from pathlib import Path
from typing import Any, Literal

import pytest

from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.testing import difference, play
from tests.framework.testing.transcripts import Transcript, expected_of, read_transcripts, vector_of
from tests.model.time_intervals import NaiveTimeInterval
from tests.model.window_kinds import play_naively

TRANSCRIPTS = read_transcripts(Path(__file__).parents[2] / "transcripts")
REFUSED = [name for name, transcript in TRANSCRIPTS.items() if "error" in transcript]
WRONG = [name for name, transcript in TRANSCRIPTS.items() if "difference" in transcript]
PLAYED = [name for name in TRANSCRIPTS if name not in REFUSED and name not in WRONG]


def differ(expected: list[dict[str, Any]], got: list[dict[str, Any]]) -> str | None:
    """Return the first difference between two lists of events, fields that only one of them has included."""
    return difference(expected, got) or difference(got, expected)


def differ_by_step(transcript: Transcript, restart: Literal["none", "each"]) -> str | None:
    """Play one step more each time; return the first difference between what a step expects and what it adds."""
    vector = vector_of(transcript)
    count = 0
    for end, step in enumerate(transcript["steps"], 1):
        got = play(vector | {"input": vector["input"][:end]}, cut="each", restart_after=restart)[count:]
        if found := differ(expected_of(step, vector["window"]), got):
            return f"step {end}, {step}: {found}"
        count += len(got)
    return None


@pytest.mark.parametrize("restart", ["none", "each"])
@pytest.mark.parametrize("name", PLAYED)
def test_the_expected_events_happen(name: str, restart: Literal["none", "each"]) -> None:
    """No more and no fewer, at those times, in one batch and with a restart after every item."""
    vector = vector_of(TRANSCRIPTS[name])
    assert differ(vector["expect"], play(vector, cut="whole", restart_after=restart)) is None


@pytest.mark.parametrize("restart", ["none", "each"])
@pytest.mark.parametrize("name", PLAYED)
def test_each_event_is_expected_of_the_step_that_causes_it(name: str, restart: Literal["none", "each"]) -> None:
    """With a batch for each step, with and without a restart between them."""
    assert differ_by_step(TRANSCRIPTS[name], restart) is None


@pytest.mark.parametrize("name", PLAYED)
def test_the_naive_model_gives_the_same_events(name: str) -> None:
    """The model that the random tests trust agrees with what people wrote down."""
    vector = vector_of(TRANSCRIPTS[name])
    window = vector["window"]
    in_order = window["kind"] != "timeInterval"
    got = play_naively(vector) if in_order else NaiveTimeInterval(window).play(vector["input"])
    assert differ(vector["expect"], got) is None


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name: str) -> None:
    """The declaration, or a step, is refused with a message that says why."""
    with pytest.raises(DeclarationError, match=TRANSCRIPTS[name]["error"]):
        play(vector_of(TRANSCRIPTS[name]))


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_expectation_is_found(name: str) -> None:
    """The difference is reported, for the whole transcript and for its step."""
    transcript = TRANSCRIPTS[name]
    vector = vector_of(transcript)
    assert transcript["difference"] in (difference(vector["expect"], play(vector)) or "")
    assert differ_by_step(transcript, "none") is not None


def test_there_are_transcripts_of_each_kind() -> None:
    """Each is played, or refused, or wrong."""
    assert min(len(PLAYED), len(REFUSED), len(WRONG)) > 5
    assert all(("steps" in TRANSCRIPTS[name]) for name in PLAYED + WRONG)


def pairs_in(file: str) -> set[tuple[str, str]]:
    """Return the pairs of eviction and trigger in a file."""
    windows = [one["window"] for name, one in TRANSCRIPTS.items() if name.startswith(f"{file}:")]
    return {(w["eviction"].split()[0], w["trigger"].split()[0]) for w in windows if "trigger" in w}


@pytest.mark.parametrize("file", ["sliding", "partitioned"])
def test_every_pair_of_policies_has_a_transcript(file: str) -> None:
    """Nine pairs, without and with partitions."""
    assert pairs_in(file) == set(product(("count", "time", "delta"), repeat=2))


SHORT: Transcript = {
    "rule": "It fires at every row.",
    "window": {"kind": "sliding", "eviction": "count 2"},
    "steps": [{"at": 0, "row": 1, "expect": ["insertion 1", "trigger 1"]}],
}
MISTAKES: dict[str, Any] = {
    "a field of the transcript": lambda t: t.update(step=[]),
    "a field of a step": lambda t: t["steps"][0].update(expects=[]),
    "a step of no kind": lambda t: t["steps"].append({"at": 2, "rwo": 3}),
    "a step of two kinds": lambda t: t["steps"].append({"at": 2, "row": 3, "clock": 4}),
    "a step of a time alone": lambda t: t["steps"].append({"at": 2}),
    "a key where there are no partitions": lambda t: t["steps"][0].update(row="a 1"),
    "no key where there are partitions": lambda t: t["window"].update(partitioned=True),
    "a field of the window": lambda t: t["window"].update(evict="count 2"),
    "a policy": lambda t: t["window"].update(eviction="often 2"),
}
UNREADABLE = [
    "",
    "fires 1",
    "1",
    "trigger [1, 2) onComplete 0",
    "trigger 1 in [1, 2] late 0",
    "trigger 1 late",
    "a drop 5",
]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_transcript_that_may_be_misread_is_refused(mistake: str) -> None:
    """What is misspelt is an error, never left out."""
    transcript = copy.deepcopy(SHORT)
    MISTAKES[mistake](transcript)
    with pytest.raises((ValueError, DeclarationError)):
        play(vector_of(transcript))


@pytest.mark.parametrize("line", UNREADABLE)
def test_an_event_that_cannot_be_read_is_an_error(line: str) -> None:
    """A misspelt event never means "expect nothing"."""
    transcript = copy.deepcopy(SHORT)
    transcript["steps"][0]["expect"].append(line)
    with pytest.raises(ValueError, match="cannot be read"):
        vector_of(transcript)
