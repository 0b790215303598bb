"""What holds for every test: where PANEKEEPER_CI is set, a skipped test is a failed one. What all kinds of them use."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

_STRICT = bool(os.environ.get("PANEKEEPER_CI"))


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if _STRICT and report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which counts as a failure where PANEKEEPER_CI is set: {report.longrepr}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Called after each phase of a test."""
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Called after a file was collected: a whole file may skip itself."""
    report = yield
    _refuse_skip(report)
    return report


@pytest.fixture(autouse=True)
def _short_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a start not watch a job on another host: those of tests are in this process, and send heartbeats."""
    from panekeeper.framework.engine.job import lease

    monkeypatch.setattr(lease, "WATCH", lease.Watch(seconds=0.0))


@pytest.fixture
def on_fsync(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Path], None]], None]:
    """Lets a function be called with the path of each file and folder that is flushed to the disk, just before that."""
    fsync = os.fsync

    def call(function: Callable[[Path], None]) -> None:
        def flush(descriptor: int) -> None:
            function(Path(f"/proc/self/fd/{descriptor}").resolve())
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", flush)

    return call


@pytest.fixture
def conditional_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets moto's S3 refuse all but one of several creations of an object: it looks first, and writes it then."""
    from moto.s3.responses import S3Response

    put, lock = S3Response.put_object, threading.RLock()

    def put_alone(response: S3Response) -> Any:
        with lock:
            return put(response)

    monkeypatch.setattr(S3Response, "put_object", put_alone)
