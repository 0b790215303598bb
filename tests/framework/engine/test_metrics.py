"""The metrics of a job, as OpenTelemetry's own reader and a scrape by HTTP have them; alerts name no others."""

from __future__ import annotations

import json
import re
import socket
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from panekeeper.framework.declarations.errors import SetupError
from panekeeper.framework.engine.clock.tick_scheduler import TickFailure
from panekeeper.framework.engine.job.status import JobState, RunTotals
from panekeeper.framework.engine.metrics import publish_metrics, serve_metrics
from panekeeper.state.checkpoint.clock import now_us
from panekeeper.state.checkpoint.job_record import LastSavepoint
from tests.framework.engine.running_job import RunningJob
from tests.project.sources import ROOT

MONITORING = ROOT / "docs" / "monitoring"
GUIDE = ROOT / "docs" / "operations.md"


def read(reader: InMemoryMetricReader) -> dict[str, dict[str, Any]]:
    """Metric -> other attributes than the job, as text -> data point."""
    data = reader.get_metrics_data()
    assert data is not None
    metrics = [one for resource in data.resource_metrics for scope in resource.scope_metrics for one in scope.metrics]
    return {
        one.name: {
            ",".join(str(value) for name, value in (point.attributes or {}).items() if name != "job"): point
            for point in one.data.data_points
        }
        for one in metrics
    }


def full_job(name: str = "readings") -> RunningJob:
    """A job of which everything is known."""
    job = RunningJob(name)
    failure = TickFailure(since_us=now_us() - 600_000_000, error="disk full")
    job.spark = {
        "rows_behind": 70,
        "state_bytes": 4096,
        **RunTotals(1).report(tick_failure=failure)["progress"],
        "watermark": now_us() - 90_000_000,
        "at": now_us(),
    }
    job.saved = LastSavepoint(name="one", location="s", at=now_us() - 3_600_000_000, batch=0)
    job.run(0, admitted=5, quarantined=2, firings=4, errors=1, late_us=1_500_000)
    return job


def test_batches_are_counted_once_those_before_and_those_after() -> None:
    """Rows by what became of them, firings, seconds of each stage, lateness where there was any."""
    job, reader = full_job(), InMemoryMetricReader()
    publish_metrics(job, MeterProvider([reader]))
    job.run(1, admitted=10, dropped_late=1, firings=3, errors=2, missed_panes=3)
    job.run(2, errors=1)
    found = read(reader)
    rows = {outcome: point.value for outcome, point in found["panekeeper.rows"].items()}
    assert rows == {"admitted": 15, "refined_late": 0, "dropped_late": 1, "outside": 0, "quarantined": 2, "repeated": 0}
    assert found["panekeeper.firings"][""].value == 7
    assert found["panekeeper.missed_panes"][""].value == 3
    assert found["panekeeper.batches"][""].value == 3
    assert {reason: point.value for reason, point in found["panekeeper.errors"].items()} == {"USER_ERROR": 4}
    assert job.status().errors == {"USER_ERROR": 4}
    assert job.status().missed_panes == 3
    seconds = found["panekeeper.batch.duration"]
    assert {stage: (point.count, point.sum) for stage, point in seconds.items()} == {
        "plan": (3, 3.0),
        "tables": (3, 3.0),
    }
    assert (found["panekeeper.deadline.lateness"][""].count, found["panekeeper.deadline.lateness"][""].sum) == (1, 1.5)


def test_how_the_job_is_now_is_read_when_a_reader_collects() -> None:
    """Ages count on without a batch; what is not known has no value."""
    job, reader = full_job(), InMemoryMetricReader()
    publish_metrics(job, MeterProvider([reader]))
    found = {
        name: point.value
        for name, points in read(reader).items()
        if not hasattr((point := points.get("")), "sum") and point
    }
    assert found["panekeeper.open_panes"] == 5
    assert found["panekeeper.job.running"] == 1
    assert found["panekeeper.source.rows_behind"] == 70
    assert found["panekeeper.state.size"] == 4096
    assert found["panekeeper.ticks.failing"] == pytest.approx(600, abs=60)
    assert found["panekeeper.watermark.lag"] == pytest.approx(90, abs=60)
    assert found["panekeeper.last_savepoint.age"] == pytest.approx(3600, abs=60)
    assert 0 <= found["panekeeper.last_batch.age"] < 60
    new, reader = RunningJob(), InMemoryMetricReader()
    publish_metrics(new, MeterProvider([reader]))
    assert read(reader)["panekeeper.ticks.failing"][""].value == 0
    assert {"panekeeper.watermark.lag", "panekeeper.last_savepoint.age"} & read(reader).keys() == set()


def test_a_job_that_ended_and_one_whose_session_is_gone_run_no_more(caplog: pytest.LogCaptureFixture) -> None:
    """A collection never fails."""
    job, reader = full_job(), InMemoryMetricReader()
    publish_metrics(job, MeterProvider([reader]))
    job.state = JobState.ENDED
    assert read(reader)["panekeeper.job.running"][""].value == 0
    gone, reader = full_job(), InMemoryMetricReader()
    publish_metrics(gone, MeterProvider([reader]))

    def fail() -> dict[str, Any]:
        raise ConnectionError("no gateway")

    gone.report = fail  # type: ignore[method-assign]
    assert read(reader)["panekeeper.job.running"][""].value == 0
    assert "no gateway" in caplog.text


def scraped(*jobs: RunningJob) -> str:
    """What Prometheus reads."""
    endpoint = serve_metrics(*jobs, port=0)
    try:
        with urllib.request.urlopen(endpoint.url, timeout=30) as response:  # noqa: S310 -- our own, by HTTP
            text: str = response.read().decode()
    finally:
        endpoint.close()
    return text


def test_prometheus_reads_the_metrics_of_all_jobs_of_a_process() -> None:
    """Over HTTP, each with the name of its job; the endpoint can be closed and opened again."""
    for _ in range(2):
        text = scraped(full_job("one"), full_job("two"))
        assert 'panekeeper_rows_total{job="one",outcome="admitted"} 5.0' in text
        assert 'panekeeper_rows_total{job="two",outcome="quarantined"} 2.0' in text
        assert 'panekeeper_batch_duration_seconds_count{job="one",stage="plan"} 1.0' in text


def test_a_port_that_is_taken_and_a_library_that_is_missing_are_errors_that_say_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another port, or what to install."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(SetupError, match="give another port="):
            serve_metrics(RunningJob(), port=taken.getsockname()[1])
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(SetupError, match=r"pip install 'panekeeper\[metrics\]'"):
        publish_metrics(RunningJob())
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(SetupError, match=r"pip install 'panekeeper\[prometheus\]'"):
        serve_metrics(RunningJob(), port=0)


def names_in(text: str) -> set[str]:
    """The metrics that a query names."""
    return set(re.findall(r"\bpanekeeper_\w+", text))


def queries(path: Path) -> str:
    """The queries of a dashboard or of alert rules."""
    if path.suffix == ".json":
        panels = json.loads(path.read_text(encoding="utf-8"))["panels"]
        return "\n".join(target["expr"] for panel in panels for target in panel["targets"])
    groups = yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
    return "\n".join(rule["expr"] for group in groups for rule in group["rules"])


@pytest.mark.parametrize("name", ["grafana.json", "alerts.yaml"])
def test_each_metric_that_a_dashboard_or_an_alert_names_exists(name: str) -> None:
    """A renamed metric is renamed there, too."""
    existing = {line.split("{")[0] for line in scraped(full_job()).splitlines() if not line.startswith("#")}
    named = names_in(queries(MONITORING / name))
    assert named
    assert named - existing == set()


def test_the_guide_lists_each_metric() -> None:
    """By the name under which Prometheus has it."""
    kinds = re.findall(r"^# TYPE (panekeeper_\w+) \w+$", scraped(full_job()), re.MULTILINE)
    families = {kind for kind in kinds if not kind.endswith("_created")}
    assert families == names_in(
        "\n".join(re.findall(r"^\| `(panekeeper_\w+)` ", GUIDE.read_text(encoding="utf-8"), re.MULTILINE))
    )


def test_an_alert_says_what_to_do() -> None:
    """In its annotation, where the person who gets it reads."""
    groups = yaml.safe_load((MONITORING / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        assert {"summary", "description"} <= rule["annotations"].keys()
        assert rule["labels"]["severity"] in {"warning", "critical"}
