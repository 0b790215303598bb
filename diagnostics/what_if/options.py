"""The options by which a declaration is tried otherwise than it is written."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.durations import Duration, to_us
from panekeeper.framework.declarations.errors import DeclarationError

if TYPE_CHECKING:
    from panekeeper.framework.builder.outputs import DeltaJob
    from panekeeper.framework.engine.flow.pipeline import Pipeline


def with_options(job: DeltaJob, *, watermark: Duration | None = None, discard_age: Duration | None = None) -> DeltaJob:
    """Return a declared job with another watermark delay, or discard age, of all its ports and windows.

    Raises:
        DeclarationError: its windows have no such thing, or it cannot be that.
    """
    pipeline = job.pipeline
    if watermark is not None:
        pipeline = _with_watermark(pipeline, to_us(watermark, "watermark"))
    if discard_age is not None:
        pipeline = _with_discard_age(pipeline, timedelta(microseconds=to_us(discard_age, "discard_age")))
    return replace(job, _pipeline=pipeline)


def _with_watermark(pipeline: Pipeline, us: int) -> Pipeline:
    if not pipeline.spec.uses_event_time:
        raise DeclarationError(
            f"watermark is given, but the windows of job {pipeline.intake.name!r} go by the order of arrival and have "
            "no watermark; leave it out"
        )
    others = tuple(replace(port, watermark_us=us) for port in pipeline.other_ports)
    return replace(pipeline, intake=replace(pipeline.intake, watermark_us=us), other_ports=others)


def _with_discard_age(pipeline: Pipeline, age: timedelta) -> Pipeline:
    spec = pipeline.spec

    def aged(window: Any) -> Any:
        if not hasattr(window, "discard_age"):
            raise DeclarationError(
                f"discard_age is given, but a window of job {pipeline.intake.name!r} is {window!r}, which has none; "
                "leave it out"
            )
        return replace(window, discard_age=age)

    others = tuple(replace(port, window=aged(port.window)) for port in spec.other_ports)
    windows = {
        name: replace(window_spec, window=aged(window_spec.window)) for name, window_spec in spec.windows.items()
    }
    return replace(pipeline, spec=replace(spec, window=aged(spec.window), other_ports=others, windows=windows))
