"""The OpenTelemetry metrics of a job, and an HTTP endpoint from which Prometheus reads them.

docs/operations.md lists them. Optional: the extras `metrics` and `prometheus`.

There is one source for all of them, and nothing is counted twice: what batches did comes from the reports that
`on_batch` gets, and how things are now from the report that the job writes to its checkpoint, read when a reader
collects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from panekeeper.framework.declarations.errors import SetupError
from panekeeper.framework.engine.job.status import JobState, Status
from panekeeper.state.checkpoint.clock import monotonic_seconds, now_us
from panekeeper.state.log import logger

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation

    from panekeeper.framework.engine.job.status import BatchReport
    from panekeeper.state.checkpoint.job_record import LastSavepoint

PORT = 9464
"""The port that OpenTelemetry uses for Prometheus."""
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
_FRESH_SECONDS = 1.0  # the gauges of one collection are of one look at the job
_log = logger("metrics")


class MeasuredJob(Protocol):
    """What the metrics of a job are read from: a `Job`."""

    def on_batch(self, callback: Callable[[BatchReport], None]) -> None:
        """Call `callback` after each batch, and with the reports of those before."""
        ...

    def status(self) -> Status:
        """Return the job's name and state."""
        ...

    def report(self) -> Mapping[str, Any]:
        """Return what the job reports of itself (`RunTotals.report`)."""
        ...

    def last_savepoint(self) -> LastSavepoint | None:
        """Return the newest savepoint of its checkpoint."""
        ...


def publish_metrics(job: MeasuredJob, provider: MeterProvider | None = None) -> None:
    """Give a job's metrics to OpenTelemetry. Needs the extra `panekeeper[metrics]`.

    Args:
        job: the running job; best right after its start: of its earlier batches the newest thousand are counted.
        provider: whose readers get them; that of the process, if not given.

    Raises:
        SetupError: OpenTelemetry is not installed.
    """
    try:
        from opentelemetry import metrics
    except ImportError:
        raise SetupError("metrics need OpenTelemetry: pip install 'panekeeper[metrics]'") from None
    meter = (provider or metrics.get_meter_provider()).get_meter("panekeeper")
    _count_batches(meter, job)
    look = _Look(job)
    for gauge, (unit, description) in _GAUGES.items():
        callback = look.callback(gauge)
        meter.create_observable_gauge(gauge, callbacks=[callback], unit=unit, description=description)


def _count_batches(meter: Meter, job: MeasuredJob) -> None:
    name = {"job": job.status().name}
    rows = meter.create_counter("panekeeper.rows", description="Rows read, by what became of them")
    firings = meter.create_counter("panekeeper.firings", description="Rows written to the log table")
    errors = meter.create_counter(
        "panekeeper.errors", description="Rows, results and firings that could not be computed, by reason"
    )
    missed = meter.create_counter(
        "panekeeper.missed_panes", description="Closed panes that lack a row which joined later ones of its panes"
    )
    batches = meter.create_counter("panekeeper.batches", description="Batches whose tables are written")
    seconds = meter.create_histogram(
        "panekeeper.batch.duration",
        unit="s",
        description="How long a batch took, by stage: plan (windows and state), tables (commits)",
        explicit_bucket_boundaries_advisory=_SECONDS,
    )
    late = meter.create_histogram(
        "panekeeper.deadline.lateness",
        unit="s",
        description="How long after its instant the most overdue wall-clock work of a batch was done",
        explicit_bucket_boundaries_advisory=_SECONDS,
    )

    def record(report: BatchReport) -> None:
        for outcome, count in report.counts.items():
            rows.add(count, name | {"outcome": outcome})
        firings.add(report.firings, name)
        for reason, count in report.errors.items():
            errors.add(count, name | {"reason": reason})
        missed.add(report.missed_panes, name)
        batches.add(1, name)
        for stage, took in report.stages.items():
            seconds.record(took, name | {"stage": stage})
        if report.late_seconds is not None:
            late.record(report.late_seconds, name)

    job.on_batch(record)


class _Look:
    """How a job is at one instant. A reader collects gauge by gauge; those of one collection agree."""

    def __init__(self, job: MeasuredJob, clock: Callable[[], float] = monotonic_seconds) -> None:
        self.name = {"job": job.status().name}
        self._job = job
        self._clock = clock
        self._at = -_FRESH_SECONDS
        self._values: Mapping[str, float | None] = {}

    def callback(self, gauge: str) -> Callable[[CallbackOptions], Iterator[Observation]]:
        """Return what observes a gauge; it observes nothing while the value is not known."""
        from opentelemetry.metrics import Observation

        def observe(_: CallbackOptions) -> Iterator[Observation]:
            if self._clock() - self._at >= _FRESH_SECONDS:
                self._at, self._values = self._clock(), self._read()
            if (value := self._values.get(gauge)) is not None:
                yield Observation(value, self.name)

        return observe

    def _read(self) -> Mapping[str, float | None]:
        try:
            running = self._job.status().state is JobState.RUNNING
            report, saved, now = self._job.report(), self._job.last_savepoint(), now_us()
        except Exception as error:  # noqa: BLE001 -- the session may be gone; its metrics say that no job runs
            _log.warning("the metrics of the job are not known: %s", error, extra=self.name)
            return {"panekeeper.job.running": 0}
        progress = report["progress"]
        return {
            "panekeeper.job.running": int(running),
            "panekeeper.open_panes": report["open"]["panes"],
            "panekeeper.watermark.lag": _age(now, progress["watermark"]),
            "panekeeper.last_batch.age": _age(now, progress["at"]),
            "panekeeper.source.rows_behind": progress.get("rows_behind"),
            "panekeeper.state.size": progress.get("state_bytes"),
            "panekeeper.ticks.failing": _age(now, progress.get("no_tick_since")) or 0,
            "panekeeper.last_savepoint.age": None if saved is None else _age(now, saved.at),
        }


_GAUGES = {
    "panekeeper.job.running": ("", "1 while the job runs, else 0"),
    "panekeeper.open_panes": ("", "Panes that still take rows"),
    "panekeeper.watermark.lag": ("s", "How far the watermark is behind the present"),
    "panekeeper.last_batch.age": ("s", "Time since the last batch ended"),
    "panekeeper.source.rows_behind": ("", "Rows that the source held and the job had not read; Kafka counts them"),
    "panekeeper.state.size": ("By", "Size of the state on disk"),
    "panekeeper.ticks.failing": ("s", "Time since which no tick of the wall clock can be written, 0 if all is well"),
    "panekeeper.last_savepoint.age": ("s", "Time since the newest savepoint of the checkpoint was made"),
}


def _age(now: int, us: int | None) -> float | None:
    return None if us is None else (now - us) / 1e6


@dataclass(frozen=True)
class MetricsEndpoint:
    """A running endpoint. Made by `serve_metrics`.

    Attributes:
        url: where the metrics are.
    """

    url: str
    _close: Callable[[], None] = field(repr=False)

    def close(self) -> None:
        """End it. The process may end without this."""
        self._close()


def serve_metrics(*jobs: MeasuredJob, port: int = PORT, host: str = "127.0.0.1") -> MetricsEndpoint:
    """Serve the metrics of jobs of this process to Prometheus. Needs the extra `panekeeper[prometheus]`.

    Args:
        jobs: the running jobs; best right after their start (`publish_metrics`).
        port: of the endpoint; 0 for one that is free.
        host: the address to listen at; `"0.0.0.0"` lets other hosts read, without a password.

    Returns:
        The endpoint.

    Raises:
        SetupError: a library is not installed, or the port is taken.
    """
    try:
        from opentelemetry.exporter.prometheus import PrometheusMetricReader
        from opentelemetry.sdk.metrics import MeterProvider
        from prometheus_client import CollectorRegistry, start_http_server
    except ImportError:
        raise SetupError("the endpoint needs libraries: pip install 'panekeeper[prometheus]'") from None
    registry = CollectorRegistry()
    reader = PrometheusMetricReader(disable_target_info=True, scope_info_enabled=False, registry=registry)
    provider = MeterProvider([reader], shutdown_on_exit=False)
    for job in jobs:
        publish_metrics(job, provider)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise SetupError(
            f"the metrics cannot be served at {host}:{port}: {error.strerror}; give another port=, or 0 for any"
        ) from error

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join()
        provider.shutdown()

    return MetricsEndpoint(f"http://{host}:{server.server_port}/metrics", close)
