"""What do the options of a stream mean, which go together, and which streams are ports of one job?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from panekeeper.framework.core.job_spec import Dedupe, Idle
from panekeeper.framework.declarations.durations import Duration, to_us
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.engine.flow.intake import Intake
from panekeeper.state.duration_text import us_text


def idle_of(after: Duration | None, when: object, event_time: object) -> Idle | None:
    """Return when a stream is idle, and what its watermark does then."""
    if when not in (None, "wait", "advance"):
        raise DeclarationError(f"when_idle is {when!r}; it must be 'wait' or 'advance'")
    if after is None:
        if when is not None:
            raise DeclarationError(f"when_idle is {when!r} without idle_after; say after how long the stream is idle")
        return None
    us = to_us(after, "idle_after")
    if us <= 0:
        raise DeclarationError(f"idle_after is {us_text(us)}; it must be positive")
    if event_time is None:
        raise DeclarationError("idle_after needs event_time: a window in arrival order has no watermark")
    return Idle(after_us=us, advances=when == "advance")


def dedupe_of(columns: tuple[str, ...], within: Duration | None, event_time: object) -> Dedupe | None:
    """Return which rows of a stream are repeats."""
    if not columns:
        if within is not None:
            raise DeclarationError(f"dedupe_for is {within!r} without dedupe; name the columns of the id, as in ['id']")
        return None
    if within is None:
        raise DeclarationError(
            "dedupe is without dedupe_for, and every id would be kept for ever; say within how much event time a row "
            'may repeat another, such as dedupe_for="1 hour"'
        )
    us = to_us(within, "dedupe_for")
    if us <= 0:
        raise DeclarationError(f"dedupe_for is {us_text(us)}; it must be positive")
    if event_time is None:
        raise DeclarationError("dedupe needs event_time: ids are kept for so long by the time of the rows")
    return Dedupe(columns=columns, within_us=us)


def conditions_of(reject: Any) -> dict[str, str]:
    """Return the user's rules; `DeclarationError` for what is no mapping of reasons."""
    if reject is None:
        return {}
    if not isinstance(reject, Mapping) or not all(isinstance(reason, str) and reason for reason in reject):
        raise DeclarationError(f'reject is {reject!r}; give reasons with conditions, such as {{"BAD": "value < 0"}}')
    return dict(reject)


def of_one_job(intakes: Sequence[Intake], shared: Sequence[bool]) -> list[Intake]:
    """Return the streams of one job with the same key groups; `shared`: whether a window needs all in one.

    Raises:
        DeclarationError: their names, key types or numbers of key groups differ.
    """
    names = list(dict.fromkeys(intake.name for intake in intakes))
    if len(names) > 1:
        raise DeclarationError(
            f"the ports of one job have its name, but these have {', '.join(map(repr, names))}; "
            "give each windowed() the same name"
        )
    kinds = [[kind.simpleString() for kind in intake.key_types] for intake in intakes]
    for number, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise DeclarationError(
                f"partition_by: port 0 has keys of ({', '.join(kinds[0])}), port {number} of ({', '.join(kind)}); "
                "the same key must be the same on every port: cast the columns to the same types"
            )
    # A port that says nothing takes the key groups of the others; all have one if any needs all partitions in one.
    declared = sorted({intake.key_groups or 0 for intake, single in zip(intakes, shared, strict=True) if not single})
    declared = [number for number in declared if number]
    if len(declared) > 1:
        raise DeclarationError(
            f"key_groups is {' and '.join(map(str, declared))}; the ports of one operator share the key "
            "groups: give each windowed() the same number"
        )
    groups = 1 if any(shared) else next(iter(declared), None)
    return [replace(intake, key_groups=groups) for intake in intakes]
