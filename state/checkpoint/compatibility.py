"""Whether a job with a changed declaration can continue from the stored state: the only place that decides.

A start is refused by these rules (`framework/engine/job/startup_checks.py`), and `panekeeper plan` reports them before
anything is started (`recovery/upgrade/check.py`). Pure: two declarations in, one change for each part of them out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from panekeeper.state.checkpoint.fingerprint import Difference, compare, fingerprint
from panekeeper.state.upgrade.history import aggregates_of, declared_part
from panekeeper.state.upgrade.rules import reason_kept


class Compatibility(Enum):
    """Whether a job can continue from the stored state; the later, the worse."""

    COMPATIBLE = "compatible"
    NEEDS_FLUSH = "needs a flush"
    IMPOSSIBLE = "impossible"


FLUSH = (
    "put the declaration back; or flush the job as it was declared, and start the new one with a new checkpoint folder "
    "and new tables, on the rows that the old one has not read"
)
"""What to do about a change that the stored state is not compatible with."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One part of a declaration, as it was and as it is.

    Attributes:
        item: which part: `window`, `aggregate total`, `key_groups`, ...
        compatibility: what its difference means; compatible if there is none.
        why: the reason.
        advice: what to do; empty if there is nothing to do.
        differences: its fields that differ.
    """

    item: str
    compatibility: Compatibility
    why: str
    advice: str = ""
    differences: tuple[Difference, ...] = ()


_WHY = {
    "window": "the stored state was computed by the other window",
    "partition_by": "the stored state belongs to partitions by the other columns, or in their other order",
    "event_time": "open panes hold rows that were placed by the other time",
    "arrival_time": "the stored state was computed with the other clock",
    "punctuation": "open windows hold rows that were gathered by the other marks",
    "marks": "open windows hold rows that were gathered by the other marks",
    "column": "stored rows have the other columns",
    "aggregate": "what is open holds no partial result of it, or one of the other kind",
    "operator": "what is open was gathered for the other operator, and its state is stored under its name",
    "handlers": "the state of handlers is stored under their names, in their order",
    "output": "results of what is open would have other columns than those in the tables",
    "key_groups": "keys were assigned to the other number of groups, for the life of the checkpoint",
}
_OTHER = "the stored state was written under the other declaration"
_PORT = "port_"  # the further input ports, each with a window of its own
_KEY = "partition_by."
_BY_NAME = {"aggregate", "column", "output"}  # parts of these are compared one by one


def as_recorded(declaration: Mapping[str, Any], key_groups: int) -> dict[str, Any]:
    """Return a declaration as a checkpoint records it and reads it back."""
    return dict(json.loads(json.dumps(fingerprint({**declaration, "key_groups": key_groups}))))


def compare_declarations(recorded: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Return the change of each part of a recorded declaration, in the order of the new one.

    >>> [c] = compare_declarations({"key_groups": 8}, {"key_groups": 16})
    >>> c.item, c.compatibility.value
    ('key_groups', 'needs a flush')
    """
    old, new = declared_part(recorded), declared_part(new)
    parts: dict[str, list[Difference]] = {}
    names = [*aggregates_of(old), *aggregates_of(new)]
    for field in [*new, *(name for name in old if name not in new)]:
        parts.setdefault(_item(field, names), [])
    for difference in [*compare(old, new), *_reordered_keys(old, new)]:
        parts[_item(difference.field, names)].append(difference)
    return [_change(item, tuple(differences), recorded, new) for item, differences in parts.items()]


def _reordered_keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the partition columns that are the same in another order, by which keys belong to other key groups."""
    for prefix in dict.fromkeys(name.partition(_KEY)[0] + _KEY for name in new if _KEY in name):
        before, now = ([name for name in one if name.startswith(prefix)] for one in (old, new))
        if before != now and {*before} == {*now}:
            columns = [[name.removeprefix(prefix) for name in names] for names in (before, now)]
            yield Difference(field=prefix.rstrip("."), old=columns[0], new=columns[1])


def _item(field: str, aggregates: Iterable[str]) -> str:
    """Return the part of a declaration that a field belongs to. A name may have dots, and begin with another one."""
    kind, _, rest = field.partition(".")
    if kind.startswith(_PORT):
        return f"{kind} {_item(rest, aggregates)}"
    if kind not in _BY_NAME or not rest:
        return kind
    if kind != "aggregate":
        return f"{kind} {rest}"
    owners = (name for name in aggregates if rest.startswith(f"{name}."))
    return f"{kind} {max(owners, key=len, default=rest.partition('.')[0])}"


def _change(
    item: str, differences: tuple[Difference, ...], recorded: Mapping[str, Any], new: Mapping[str, Any]
) -> Change:
    if not differences:
        return Change(item=item, compatibility=Compatibility.COMPATIBLE, why="unchanged")
    kept = reason_kept(item, frozenset(one.field for one in differences), recorded, new)
    if kept is not None:
        return Change(item=item, compatibility=Compatibility.COMPATIBLE, why=kept, differences=differences)
    words = item.split()
    why = _WHY.get(words[1] if words[0].startswith(_PORT) else words[0], _OTHER)
    return Change(item=item, compatibility=Compatibility.NEEDS_FLUSH, why=why, advice=FLUSH, differences=differences)


def name_change(old: str, new: str) -> Change:
    """Return what a changed name of the job means: the name is part of its transaction ids in the tables."""
    if old == new:
        return Change(item="job", compatibility=Compatibility.COMPATIBLE, why="unchanged")
    difference = Difference(field="name", old=old, new=new)
    return Change(
        item="job",
        compatibility=Compatibility.IMPOSSIBLE,
        why=f"this is the checkpoint of job {old!r}, not of {new!r}",
        advice="put the name back; or give this job a folder of its own",
        differences=(difference,),
    )


def flush_change(*, flushed: bool) -> Change:
    """Return whether the job can continue at all: a flush closes its windows for good."""
    if not flushed:
        return Change(item="end", compatibility=Compatibility.COMPATIBLE, why="its windows are open")
    return Change(
        item="end",
        compatibility=Compatibility.IMPOSSIBLE,
        why="the job was flushed: its windows are closed for good, and its tables complete",
        advice="to process more rows, start with a new checkpoint folder",
    )
