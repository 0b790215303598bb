"""Plays that read as specification, in `transcripts/`; some are lies, and must be noticed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml

from framework.declarations.errors import DeclarationError
from panekeeper.testing import difference, play

FOLDER = Path(__file__).parents[2] / "transcripts"
FIELDS = {"name", "window", "story", "error", "lie"}
LINE = re.compile(
    r"(?P<event>\w+)(?: (?P<key>(?!\[)\w+))?(?: \[(?P<start>[^,]+), (?P<end>[^)]+)\))?"
    r"(?: (?P<timing>onComplete|late) (?P<index>\d+))?: (?P<tuples>.+)"
)
TRANSCRIPTS: dict[str, dict[str, Any]] = {
    told["name"]: told
    for path in sorted(FOLDER.glob("*.yaml"))
    for told in yaml.safe_load(path.read_text(encoding="utf-8"))
}


def chosen(field: str) -> list[str]:
    """Names of the transcripts that have this field; those with neither error nor lie for "story"."""
    if field == "story":
        return [name for name, told in TRANSCRIPTS.items() if "error" not in told and "lie" not in told]
    return [name for name, told in TRANSCRIPTS.items() if field in told]


def check(told: dict[str, Any], restart: Literal["none", "each"]) -> str | None:
    """Play a transcript up to each of its expectations; the first difference, or None."""
    items: list[dict[str, Any]] = []
    compared, open_items = 0, 0
    for step in told["story"]:
        if "expect" not in step:
            items.append(item(step))
            open_items += 1
            continue
        events = play({"window": window(told), "input": items}, cut="each", restart_after=restart)
        why = difference([event(line) for line in step["expect"]], events[compared:])
        if why is not None:
            return f"after {items[-1]}: {why}"
        compared, open_items = len(events), 0
    return f"nothing is expected of the last {open_items} items" if open_items else None


def window(told: dict[str, Any]) -> dict[str, Any]:
    """The window of a transcript, in the shape of a vector's."""
    declared: dict[str, Any] = told["window"]
    return {"kind": "timeInterval", "event_time": "ts"} | declared


def item(step: dict[str, Any]) -> dict[str, Any]:
    """One step of a story as an input item."""
    if "in" not in step:
        return ({"at": 0} if step.keys() & {"checkpoint", "reset"} else {}) | step
    if isinstance(step["in"], dict):
        ((key, time),) = step["in"].items()
        return {"key": key, "value": {"ts": time}}
    return {"value": {"ts": step["in"]}}


def event(line: str) -> dict[str, Any]:
    """One expected event; a line that cannot be read is an error, never ignored."""
    read = LINE.fullmatch(line)
    if read is None:
        raise ValueError(f"cannot read the expectation {line!r}")
    told: dict[str, Any] = {"event": read["event"], "key": read["key"]}
    told["tuples"] = [{"ts": yaml.safe_load(time)} for time in read["tuples"].split(", ")]
    if read["start"] is not None:
        told["pane"] = [yaml.safe_load(read["start"]), yaml.safe_load(read["end"])]
    if read["timing"] is not None:
        told |= {"timing": read["timing"], "index": int(read["index"])}
    return told


@pytest.mark.parametrize("restart", ["none", "each"])
@pytest.mark.parametrize("name", chosen("story"))
def test_it_happens_as_told(name: str, restart: Literal["none", "each"]) -> None:
    """Step by step exactly what the transcript says, with and without a restart after every step."""
    assert check(TRANSCRIPTS[name], restart) is None


@pytest.mark.parametrize("name", chosen("error"))
def test_it_is_refused_as_told(name: str) -> None:
    """A window that cannot be is refused at its declaration, with the words of the transcript."""
    told = TRANSCRIPTS[name]
    with pytest.raises(DeclarationError, match=re.escape(told["error"])):
        play({"window": window(told), "input": []})


@pytest.mark.parametrize("name", chosen("lie"))
def test_a_lie_is_noticed(name: str) -> None:
    """A transcript that tells what does not happen fails, with the difference in words."""
    told = TRANSCRIPTS[name]
    why = check(told, "none")
    assert why is not None
    assert told["lie"] in why


def test_every_transcript_is_read_whole() -> None:
    """No field of a transcript is ignored, and each is one of a story, an error or a lie."""
    names = [line for path in FOLDER.glob("*.yaml") for line in yaml.safe_load(path.read_text(encoding="utf-8"))]
    assert len(names) == len(TRANSCRIPTS)
    for told in names:
        assert told.keys() <= FIELDS
        assert ("error" in told) != ("story" in told)
    assert min(len(chosen(field)) for field in ("story", "error", "lie")) > 0


@pytest.mark.parametrize("line", ["", "trigger", "trigger [1, 2) onComplete 0", "trigger [1, 2] late 0: 1", "drop 5"])
def test_an_expectation_that_cannot_be_read_is_an_error(line: str) -> None:
    """A misspelt line never means "expect nothing"."""
    with pytest.raises(ValueError, match="cannot read"):
        event(line)


@pytest.mark.parametrize("field", ["inn", "watermarks", "at"])
def test_a_step_that_means_nothing_is_refused(field: str) -> None:
    """A misspelt step is refused by `play` itself."""
    with pytest.raises(DeclarationError, match="needs one of"):
        check({"window": {"intervalDuration": 1}, "story": [{field: 1}, {"expect": []}]}, "none")
