"""An HTTP endpoint from which Prometheus reads the metrics of jobs; by Prometheus's own library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from panekeeper.framework.declarations.errors import SetupError
from panekeeper.framework.engine.monitor.instruments import MeasuredJob, publish_metrics

PORT = 9464
"""The port that OpenTelemetry uses for Prometheus."""


@dataclass(frozen=True)
class MetricsEndpoint:
    """A running endpoint. Made by `serve_metrics`.

    Attributes:
        url: where the metrics are.
    """

    url: str
    _close: Callable[[], None]

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
