"""Several streams as the input ports of one computation: `ports(...)`, with windows or without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, overload

from panekeeper.framework.builder.computations import joined, port_spec, with_operator
from panekeeper.framework.builder.fitting_windows import Input, cautions_of, needs_single_group, shown_stream
from panekeeper.framework.builder.joins import join_of, require_two_with_times
from panekeeper.framework.builder.outputs import Computation
from panekeeper.framework.builder.stream_options import of_one_job
from panekeeper.framework.builder.windowed import StreamWithWindow, WindowedStream
from panekeeper.framework.declarations.calls import named_options, warn_caller
from panekeeper.framework.declarations.durations import Duration
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.joins import JoinKind, PaneJoinKind, Within, require_equal_panes
from panekeeper.framework.declarations.operator import Listener, Operator
from panekeeper.framework.declarations.steps import Step
from panekeeper.framework.engine.flow.intake import Intake
from panekeeper.state.handler import StateHandler

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


@overload
def ports(*streams: StreamWithWindow) -> Ports: ...
@overload
def ports(*streams: WindowedStream) -> PortsWithoutWindows: ...
def ports(*streams: StreamWithWindow | WindowedStream) -> Ports | PortsWithoutWindows:
    """Make streams the input ports of one computation: with windows of one operator, without windows of a join.

    The rows of each stream are validated, ordered and timed as it declares; a batch processes the rows of port 0 before
    those of port 1. Ports that declare an event time share a watermark: the least of theirs.

    Args:
        streams: two or more, of one job name, with partition columns of the same types in the same order (the names
            may differ: results have those of port 0) and the same `key_groups`.

    Returns:
        The ports, which take one operator or a join; of streams without windows, `join_within`.

    Raises:
        DeclarationError: fewer than two, some without a window and others with one, one with its computation already,
            or ports with other names, key types or numbers of key groups than each other.
    """
    without = [stream for stream in streams if isinstance(stream, WindowedStream)]
    if len(without) == len(streams) > 1:
        return PortsWithoutWindows(of_one_job([stream._intake for stream in without], [False] * len(without)))  # noqa: SLF001 -- both are steps of one declaration
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
    inputs = [stream._input for stream in streams if isinstance(stream, StreamWithWindow)]  # noqa: SLF001 -- as above
    intakes = of_one_job([stream.intake for stream in inputs], [needs_single_group(stream.window) for stream in inputs])
    return Ports([replace(stream, intake=intake) for stream, intake in zip(inputs, intakes, strict=True)])


class Ports(Step):
    """Several streams with their windows, without their operator. Made by `ports`."""

    _place = 1
    _next = ".operator(...), or .join()"

    def __init__(self, inputs: Sequence[Input]) -> None:
        self._inputs = inputs

    def _described(self) -> tuple[str, Mapping[str, Any]]:
        shown = {f"port {number}": stream.shown for number, stream in enumerate(self._inputs)}
        return f"ports of job {self._inputs[0].intake.name}, without a computation", shown

    @named_options
    def operator(
        self,
        operator: Operator,
        *,
        output: pa.Schema | StructType | Mapping[str, Any] | str,
        listeners: Sequence[Listener] = (),
        handlers: Sequence[StateHandler] = (),
    ) -> Computation:
        """Declare the operator that handles the events of all ports, and the columns it emits.

        `event.port` is the number of the port; result rows have it in the column `port`. The arguments are those of
        `StreamWithWindow.operator`; listeners and handlers, too, are one set for all ports.

        Raises:
            DeclarationError: as `StreamWithWindow.operator`; each port must have an event that the operator receives.
        """
        return with_operator(self._inputs, operator, output, listeners, handlers)

    def aggregate(self, **_: Any) -> NoReturn:
        """Raise `DeclarationError`: aggregates are computed from one window."""
        raise DeclarationError(
            "aggregate() computes from one window, and these are several: use .operator(...), "
            "or a job with .aggregate(...) for each stream"
        )

    @named_options
    def join(self, *, how: PaneJoinKind = "inner", on: str | Sequence[str] | None = None) -> Computation:
        """Join the rows of two streams that lie in the same pane (docs/semantics.md section 16.2).

        Both streams have the same `TimeInterval`. A partition fires when the pane is complete for both, with all rows
        that it has together; and, as in any pane, again for late rows of either stream, with a higher `refinement`: the
        firing with the highest is what holds. `emit="on_close"` has one firing, when no late row can come any more.

        Results have the pane, the columns that must be equal once, by their names on port 0, then the other columns of
        port 0, then those of port 1. A name that both have becomes `left_name` and `right_name`.

        Args:
            how: whose rows go out with nulls if they have no match: of none, `"inner"`; of port 0, `"left"`; of port 1,
                `"right"`; or of both, `"full"`. `"semi"` has the rows of port 0 that have a match, once each; `"anti"`
                those that have none, and where late rows have left none of an earlier firing, one row of nulls.
            on: columns by the same name in both streams that must be equal, beside the partition columns. Null is equal
                to nothing.

        Returns:
            The join, which takes a place for its results: a log. There is no view of it.

        Raises:
            DeclarationError: other than two streams, other windows than one `TimeInterval`, no partition columns; event
                times, or columns of `on`, of two types; a column that a stream lacks.
        """
        intakes, windows = [stream.intake for stream in self._inputs], [stream.window for stream in self._inputs]
        require_two_with_times("join()", intakes)
        require_equal_panes(windows)
        specs = [
            port_spec(intake, window, {*intake.user_columns}) for intake, window in zip(intakes, windows, strict=True)
        ]
        join, output = join_of(intakes, specs, how, on, of_panes=True)
        return joined(intakes, specs, join, output)

    def join_within(self, **_: Any) -> NoReturn:
        """Raise `DeclarationError`: rows within a time of each other are joined without windows."""
        raise DeclarationError(
            "join_within() joins rows by their times, not by windows: give ports() the streams without .window(...)"
        )


class PortsWithoutWindows(Step):
    """Several streams without windows. Made by `ports`."""

    _place = 1
    _next = '.join_within(before="5 minutes", after="0 seconds")'

    def __init__(self, intakes: Sequence[Intake]) -> None:
        self._intakes = intakes

    def _described(self) -> tuple[str, Mapping[str, Any]]:
        shown = {f"port {number}": shown_stream(intake) for number, intake in enumerate(self._intakes)}
        return f"ports of job {self._intakes[0].name}, without windows", shown

    @named_options
    def join_within(
        self,
        *,
        before: Duration | None = None,
        after: Duration | None = None,
        how: JoinKind = "inner",
        on: str | Sequence[str] | None = None,
        discard_age: Duration = 0,
    ) -> Computation:
        """Join the rows of two streams whose times are near enough (docs/semantics.md section 16).

        A row of port 0 at t meets the rows of port 1 at `[t - before, t + after]` with equal partition columns. A pair
        goes out in the micro-batch of its later row, a row without a match once the watermark of both has passed its
        last possible partner. Each is final: the log has every pair once, and no result is taken back.

        Results have the columns of both rows: those that must be equal once, by their names on port 0, then those of
        port 0, then those of port 1. A name that both have becomes `left_name` and `right_name`; `reason` is MATCH,
        NO_MATCH, or FLUSH.

        Args:
            before: how much earlier than a row of port 0 one of port 1 may be.
            after: how much later it may be. Either may be negative, as in `before="-1 minute"`: at least so much
                later; their sum may not.
            how: whose rows go out with nulls if they have no match: of none, `"inner"`; of port 0, `"left"`; of port 1,
                `"right"`; or of both, `"full"`.
            on: columns by the same name in both streams that must be equal, too. Partition columns may be named again.
                Null is equal to nothing.
            discard_age: how far behind the watermark a row may come; later it is quarantined, with reason LATE.

        Returns:
            The join, which takes a place for its results: a log. There is no view of it.

        Raises:
            DeclarationError: other than two streams; no bound, event time or partition column; event times, or columns
                of `on`, of two types; a column that a stream lacks.
        """
        require_two_with_times("join_within()", self._intakes)
        if before is None or after is None:
            missing = " and ".join(name for name, bound in (("before", before), ("after", after)) if bound is None)
            raise DeclarationError(
                f"join_within() is without {missing}, and a join without bounds would keep every row for ever; give "
                'both, such as before="5 minutes", after="0 seconds"'
            )
        window = Within(before, after, discard_age=discard_age)
        warn_caller(cautions_of((intake, window) for intake in self._intakes))
        first, second = (port_spec(intake, window, {*intake.user_columns}) for intake in self._intakes)
        join, output = join_of(self._intakes, [first, second], how, on, of_panes=False)
        return joined(self._intakes, [first, second], join, output)

    def join(self, **_: Any) -> NoReturn:
        """Raise `DeclarationError`: it is for panes."""
        raise DeclarationError(
            "join() joins the panes of two streams: give ports() streams with .window(TimeInterval(...)), or join rows "
            "by their times with join_within(before=..., after=...)"
        )

    def operator(self, *_: Any, **__: Any) -> NoReturn:
        """Raise `DeclarationError`: an operator handles the events of windows."""
        raise DeclarationError("port 0 has no window: give ports() streams with .window(...)")

    aggregate = operator
