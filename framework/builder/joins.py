"""Which columns of two streams must be equal, and what their rows become in the results of a join."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from panekeeper.framework.core.job_spec import PortSpec
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.joins import Join, PaneJoinKind, require_kind
from panekeeper.framework.engine.flow.intake import Intake
from panekeeper.state.codec import that_may_be_null

PREFIXES = ("left_", "right_")
"""What stands before a result column of port 0 or 1, if the other port or the framework has one of that name."""


def require_two_with_times(what: str, intakes: Sequence[Intake]) -> None:
    """Raise `DeclarationError` unless these are two streams with keys, and times of one type."""
    if len(intakes) != len(PREFIXES):
        raise DeclarationError(
            f"{what} joins two streams, and ports() has {len(intakes)}; let another job join the log of this one with "
            "the next stream"
        )
    for port, intake in enumerate(intakes):
        if intake.event_time is None:
            raise DeclarationError(
                f"port {port} has no event time, without which {what} would keep its rows for ever: give windowed() "
                "event_time= and watermark="
            )
    if not intakes[0].partition_by:
        raise DeclarationError(
            f"the streams have no partition_by, and {what} joins rows with equal partition columns: give both "
            'windowed() the columns that must be equal, such as partition_by=["id"]'
        )
    if len({intake.pane_time for intake in intakes}) > 1:
        names = " and ".join(repr(intake.event_time) for intake in intakes)
        raise DeclarationError(
            f"the event times {names} are of two types, timestamp and timestamp_ntz; cast one of them"
        )


def join_of(
    intakes: Sequence[Intake], ports: Sequence[PortSpec], how: PaneJoinKind, on: Any, *, of_panes: bool
) -> tuple[Join, pa.Schema]:
    """Return a join of two ports and its result columns.

    Args:
        intakes: the streams.
        ports: what the workers know of them.
        how: as declared.
        on: as declared: columns of both streams that must be equal beside the partition columns.
        of_panes: whether panes are joined, not rows within a time of each other.

    Raises:
        DeclarationError: no kind of join; a column of `on` that a stream lacks, or of two types; one that is a
            partition column of one stream only.
    """
    require_kind(how, of_panes=of_panes)
    equal = tuple((*intake.partition_by, *also) for intake, also in zip(intakes, _also(intakes, on), strict=True))
    for first, second in zip(*equal, strict=True):
        kinds = [port.columns.field(name).type for port, name in zip(ports, (first, second), strict=True)]
        if kinds[0] != kinds[1] or pa.types.is_nested(kinds[0]):
            raise DeclarationError(
                f"on: {first!r} is {kinds[0]} on port 0 and {kinds[1]} on port 1; join on plain columns of one type, "
                "such as a cast of one of them"
            )
    others = [
        [name for name in port.columns.names if name not in names] for port, names in zip(ports, equal, strict=True)
    ]
    if how in ("semi", "anti"):
        others[1] = []
    framework = ("pane_start", "pane_end", "refinement", "is_final", "reason") if of_panes else ("reason",)
    taken = Counter(name.lower() for name in (*equal[0], *framework, *others[0], *others[1]))
    columns = [
        {name: prefix + name if taken[name.lower()] > 1 else name for name in names}
        for prefix, names in zip(PREFIXES, others, strict=True)
    ]
    fields = [ports[0].columns.field(name) for name in equal[0][len(intakes[0].partition_by) :]]
    for port, renamed in zip(ports, columns, strict=True):
        fields += [port.columns.field(name).with_name(result) for name, result in renamed.items()]
    join = Join(how=how, equal=(equal[0], equal[1]), columns=(columns[0], columns[1]))
    return join, that_may_be_null(pa.schema([(field.name, field.type) for field in fields]))


def _also(intakes: Sequence[Intake], on: Any) -> list[list[str]]:
    """Return the columns of `on` that are no partition columns, by the names that each stream has for them."""
    names = [on] if isinstance(on, str) else [] if on is None else on
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise DeclarationError(f'on is {on!r}; give names of columns that both streams have, such as on=["id"]')
    also: list[list[str]] = [[], []]
    for name in names:
        columns = [intake.find(f"on (port {port})", name) for port, intake in enumerate(intakes)]
        places = [
            intake.partition_by.index(column) if column in intake.partition_by else None
            for column, intake in zip(columns, intakes, strict=True)
        ]
        if places[0] != places[1]:
            port = 1 if places[0] is None else 0
            raise DeclarationError(
                f"on: {name!r} is a partition column of port {port}, and not the same one of port {1 - port}; rows of "
                "equal partition columns are joined, so give both windowed() the same partition_by"
            )
        if places[0] is None and columns[0] not in also[0]:
            for own, column in zip(also, columns, strict=True):
                own.append(column)
    return also
