"""`ports(...)`: one operator over the windows of several streams, its input ports.

    orders = windowed(orders_df, name="match", partition_by="symbol").window(Tumbling(Time(1)))
    quotes = windowed(quotes_df, name="match", partition_by="symbol").window(Sliding(evict=Count(20)))
    ports(orders, quotes).operator(Match(), output="price double").to_delta(path).start(checkpoint=folder)

The ports are numbered from 0 in the order given, and that order holds everywhere: in a batch, in every method of state
handlers, in the declaration. They share the key groups, so that one instance of the operator, with one state, receives
the events of a key from all of them (docs/semantics.md section 10.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import pyarrow as pa

from panekeeper.framework.builder.inputs import Input, build_operator_pipeline
from panekeeper.framework.builder.outputs import Computation
from panekeeper.framework.builder.windowed import StreamWithWindow, WindowedStream
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.operator import Listener, Operator
from panekeeper.state.handler import StateHandler


def ports(*streams: StreamWithWindow) -> Ports:
    """Make streams with their windows the input ports of one operator.

    The rows of each stream are validated, ordered and timed as it declares; a batch processes the rows of port 0 before
    those of port 1. Ports that declare an event time share a watermark: the least of theirs.

    Args:
        streams: two or more, of one job name, with partition columns of the same types in the same order (the names
            may differ: results have those of port 0) and the same `key_groups`.

    Returns:
        The ports, which take one operator.

    Raises:
        DeclarationError: fewer than two, one without a window or with its computation already, or ports with other
            names, key types or numbers of key groups than each other.
    """
    for number, stream in enumerate(streams):
        if isinstance(stream, WindowedStream):
            raise DeclarationError(f"port {number} has no window: give ports() streams with .window(...)")
        if not isinstance(stream, StreamWithWindow):
            raise DeclarationError(
                f"port {number} is a {type(stream).__name__}; ports() takes windowed(...).window(...) without a "
                "computation, and one operator for all of them: ports(...).operator(...)"
            )
    if len(streams) < 2:  # noqa: PLR2004 -- ports are two or more
        raise DeclarationError(
            f"ports() has {len(streams)} stream(s), it takes two or more; "
            "an operator over one window is declared by windowed(...).window(...).operator(...)"
        )
    inputs = [stream._input for stream in streams]  # noqa: SLF001 -- both are steps of one declaration
    _require_same_name(inputs)
    _require_same_key_types(inputs)
    return Ports(_with_common_key_groups(inputs))


class Ports:
    """Several streams with their windows, without their operator. Made by `ports`."""

    def __init__(self, inputs: Sequence[Input]) -> None:
        self._inputs = inputs

    def operator(
        self,
        operator: Operator,
        *,
        output: pa.Schema | str,
        listeners: Sequence[Listener] = (),
        handlers: Sequence[StateHandler] = (),
    ) -> Computation:
        """Declare the operator that handles the events of all ports, and the columns it emits.

        `event.port` is the number of the port; result rows have it in the column `port`. The arguments are those of
        `StreamWithWindow.operator`; listeners and handlers, too, are one set for all ports.

        Raises:
            DeclarationError: as `StreamWithWindow.operator`; each port must have an event that the operator receives.
        """
        return build_operator_pipeline(self._inputs, operator, output, listeners, handlers)

    def aggregate(self, **_: Any) -> NoReturn:
        """Raise `DeclarationError`: aggregates are computed from one window."""
        raise DeclarationError(
            "aggregate() computes from one window, and these are several: use .operator(...), "
            "or a job with .aggregate(...) for each stream"
        )


def _require_same_name(inputs: Sequence[Input]) -> None:
    names = list(dict.fromkeys(one.intake.name for one in inputs))
    if len(names) > 1:
        raise DeclarationError(
            f"the ports of one job have its name, but these have {', '.join(map(repr, names))}; "
            "give each windowed() the same name"
        )


def _require_same_key_types(inputs: Sequence[Input]) -> None:
    kinds = [[kind.simpleString() for kind in one.intake.key_types] for one in inputs]
    for number, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise DeclarationError(
                f"partition_by: port 0 has keys of ({', '.join(kinds[0])}), port {number} of ({', '.join(kind)}); "
                "the same key must be the same on every port: cast the columns to the same types"
            )


def _with_common_key_groups(inputs: Sequence[Input]) -> list[Input]:
    """Give all ports the same key groups: one, if the window of any port needs all partitions in one group.

    A port that says nothing takes those of the others.
    """
    declared = sorted({one.intake.key_groups or 0 for one in inputs if not one.needs_single_group} - {0})
    if len(declared) > 1:
        raise DeclarationError(
            f"key_groups is {' and '.join(map(str, declared))}; the ports of one operator share the key "
            "groups: give each windowed() the same number"
        )
    groups = 1 if any(one.needs_single_group for one in inputs) else next(iter(declared), None)
    return [one.with_key_groups(groups) for one in inputs]
