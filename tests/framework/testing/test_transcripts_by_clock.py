"""Transcripts: windows told in a few lines each, in `transcripts/by_clock/`, played however they are cut and restarted.

A transcript is a `rule` in words, a `window`, and either a `script` or an `error` or both. Policies are written
`count 2`, `time 5`, `delta v 2` (seconds, and the value `v` of a tuple), `punct`; `limit` is the partition eviction.
Each line of a script has one of

    tuple: 1      a tuple with the value 1; `a 1` with the key a, where the window is partitioned
    clock: 9      the wall clock reads 9
    mark: final   a mark, or `window`
    save: here    a checkpoint;  restore: here  a reset to it;  begin: anew  a reset to the beginning
    evict: a      the operator evicts a partition

with its time, `at`, and what it `tells`: `in`, `out`, `full`, `fires`, `final` or `gone` (the partition) with the
values of the tuples, after the key if there are keys; `@5.001` behind it if it happened then and not at the line's
own time. What a line tells is neither more nor less than what happened since the line before.
"""

from __future__ import annotations

import copy
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from framework.declarations.errors import DeclarationError
from panekeeper.testing import difference, play
from tests.model.window_kinds import play_naively

Transcript = dict[str, Any]

WORDS = {
    "in": "insertion",
    "out": "eviction",
    "full": "initial_full",
    "fires": "trigger",
    "final": "final",
    "gone": "partition_eviction",
}
LINES = {
    "tuple": "value",
    "clock": "advance_clock",
    "mark": "punct",
    "save": "checkpoint",
    "restore": "reset",
    "begin": "reset_to_initial",
    "evict": "evict_partition",
}


def number(text: str) -> float:
    """A number as it is written: 7 stays an int."""
    return float(text) if "." in text else int(text)


def policy(text: str) -> dict[str, Any]:
    """A policy of a vector, from `delta v 2`."""
    name, *rest = text.split()
    fields = {"attr": rest[0]} if len(rest) == 2 else {}
    return {"policy": name} | fields | ({"size": number(rest[-1])} if rest else {})


def window_of(said: dict[str, Any]) -> dict[str, Any]:
    """The window of a vector. What it does not know it hands on, for `play` to refuse."""
    names = {"evict": "eviction", "trigger": "trigger", "limit": "partition_eviction"}
    window = {names[name]: policy(text) for name, text in said.items() if name in names}
    renamed = {"ready_at" if name == "ready" else name: value for name, value in said.items() if name not in names}
    return window | renamed


def tuple_of(said: Any, *, keyed: bool) -> dict[str, Any]:
    """A tuple of a vector, from `a 1` or `1`."""
    *key, value = str(said).split()
    if len(key) != keyed:
        raise ValueError(f"the tuple {said!r} {'needs a key' if keyed else 'has a key, but the window has none'}")
    return {"value": {"v": number(value)}} | ({"key": key[0]} if keyed else {})


def item_of(name: str, said: Any, *, keyed: bool) -> dict[str, Any]:
    """An input item of a vector, without its time."""
    if name == "tuple":
        return tuple_of(said, keyed=keyed)
    return {LINES[name]: said == "anew" if name == "begin" else said}


def told_by(text: str, at: float, *, keyed: bool) -> dict[str, Any]:
    """An event of a vector, from `a out 1 2 @5.001`."""
    said, _, instant = str(text).partition("@")
    words = said.split()
    key = words.pop(0) if keyed else None
    tuples = [{"v": number(value)} for value in words[1:]]
    return {"event": WORDS[words[0]], "key": key, "tuples": tuples, "at": number(instant) if instant else at}


def vector_of(transcript: Transcript) -> dict[str, Any]:
    """The vector that a transcript means. Raises `ValueError` or `KeyError` for what it does not know."""
    if unknown := transcript.keys() - {"rule", "window", "script", "error"}:
        raise ValueError(f"{transcript.get('rule')!r} has the unknown field {', '.join(sorted(unknown))}")
    keyed = transcript["window"].get("partitioned", False)
    items, expect = [], []
    for line in transcript.get("script", []):
        (name,) = line.keys() & LINES.keys()
        if unknown := line.keys() - {name, "at", "tells"}:
            raise ValueError(f"{line} has the unknown field {', '.join(sorted(unknown))}")
        at = {"at": line["at"]} if "at" in line else {}
        items.append(at | item_of(name, line[name], keyed=keyed))
        expect += [told_by(text, line.get("at", line.get("clock")), keyed=keyed) for text in line.get("tells", [])]
    return {"window": window_of(transcript["window"]), "input": items, "expect": expect}


def read() -> dict[str, Transcript]:
    """All transcripts, by file and rule."""
    folder = Path(__file__).parents[2] / "transcripts" / "by_clock"
    found = [(path.stem, one) for path in sorted(folder.glob("*.yaml")) for one in yaml.safe_load(path.read_text())]
    return {f"{name}: {transcript['rule']}": transcript for name, transcript in found}


TRANSCRIPTS = read()
PLAYED = [name for name, transcript in TRANSCRIPTS.items() if "error" not in transcript]
REFUSED = [name for name, transcript in TRANSCRIPTS.items() if "error" in transcript]


def lines_played(vector: dict[str, Any], transcript: Transcript) -> list[list[dict[str, Any]]]:
    """What each line told, from playing one line more each time."""
    told: list[list[dict[str, Any]]] = []
    for count in range(len(transcript["script"]) + 1):
        shorter = vector | {"input": vector["input"][:count]}
        told.append(play(shorter, cut="each")[sum(map(len, told)) :])
    return told


@pytest.mark.parametrize(("cut", "restart"), [("whole", "none"), ("whole", "each")])
@pytest.mark.parametrize("name", PLAYED)
def test_what_a_transcript_tells_happens(name: str, cut: Any, restart: Any) -> None:
    """Neither more nor less, at those times, for every cut and restart."""
    vector = vector_of(TRANSCRIPTS[name])
    got = play(vector, cut=cut, restart_after=restart)
    assert difference(vector["expect"], got) is None
    assert difference(got, vector["expect"]) is None


@pytest.mark.parametrize("name", PLAYED)
def test_the_naive_model_tells_the_same(name: str) -> None:
    """The model that the random tests trust agrees with what people wrote down."""
    vector = vector_of(TRANSCRIPTS[name])
    assert difference(vector["expect"], play_naively(vector)) is None


@pytest.mark.parametrize("name", PLAYED)
def test_each_line_tells_what_happened_since_the_line_before(name: str) -> None:
    """An event stands in the line that made it happen."""
    transcript = TRANSCRIPTS[name]
    vector = vector_of(transcript)
    start, *told = lines_played(vector, transcript)
    keyed = vector["window"].get("partitioned", False)
    for line, got in zip(transcript["script"], told, strict=True):
        at = line.get("at", line.get("clock"))
        said = [told_by(text, at, keyed=keyed) for text in line.get("tells", [])]
        assert difference(said, start + got) is None, line
        assert difference(start + got, said) is None, line
        start = []


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name: str) -> None:
    """The declaration, or the line, is refused with a message that says why."""
    with pytest.raises(DeclarationError, match=TRANSCRIPTS[name]["error"]):
        play(vector_of(TRANSCRIPTS[name]))


def pairs_in(file: str) -> set[tuple[str, str]]:
    """The pairs of eviction and trigger in a file."""
    windows = [one["window"] for name, one in TRANSCRIPTS.items() if name.startswith(f"{file}:")]
    return {(w["evict"].split()[0], w["trigger"].split()[0]) for w in windows if "trigger" in w}


@pytest.mark.parametrize("file", ["sliding", "partitioned"])
def test_every_pair_of_policies_has_a_transcript(file: str) -> None:
    """Nine pairs, without and with partitions."""
    assert pairs_in(file) == set(product(("count", "time", "delta"), repeat=2))


SHORT: Transcript = {
    "rule": "short",
    "window": {"kind": "sliding", "evict": "count 2"},
    "script": [{"at": 0, "tuple": 1, "tells": ["in 1", "fires 1"]}],
}
LIES: dict[str, Any] = {
    "nothing told": lambda t: t["script"][0].pop("tells"),
    "one event too few": lambda t: t["script"][0]["tells"].pop(),
    "one event too many": lambda t: t["script"][0]["tells"].append("fires 1"),
    "another order": lambda t: t["script"][0]["tells"].reverse(),
    "another value": lambda t: t["script"][0]["tells"].__setitem__(1, "fires 2"),
    "another time": lambda t: t["script"][0]["tells"].__setitem__(1, "fires 1 @0.001"),
}
MISTAKES: dict[str, Any] = {
    "a field of the transcript": lambda t: t.update(scripts=[]),
    "a field of a line": lambda t: t["script"][0].update(tell=[]),
    "a line of no kind": lambda t: t["script"].append({"at": 2, "tupel": 3}),
    "a line of two kinds": lambda t: t["script"].append({"at": 2, "tuple": 3, "clock": 4}),
    "a word": lambda t: t["script"][0]["tells"].append("fired 1"),
    "a key where there are none": lambda t: t["script"][0].update(tuple="a 1"),
    "a field of the window": lambda t: t["window"].update(evicts="count 2"),
    "a policy": lambda t: t["window"].update(evict="often 2"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_transcript_that_lies_fails(lie: str) -> None:
    """What does not happen as told is found."""
    transcript = copy.deepcopy(SHORT)
    LIES[lie](transcript)
    vector = vector_of(transcript)
    got = play(vector)
    assert difference(vector["expect"], got) or difference(got, vector["expect"])


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_transcript_that_may_be_misread_is_refused(mistake: str) -> None:
    """What is misspelt is an error, never left out."""
    transcript = copy.deepcopy(SHORT)
    MISTAKES[mistake](transcript)
    with pytest.raises((ValueError, KeyError)):
        play(vector_of(transcript))
