"""Callbacks receive every batch, once and in order; and whether this thread is in one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import UTC, datetime
from typing import Any

import pytest

from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.engine.job.callbacks import ReportCallbacks
from panekeeper.framework.engine.job.status import BatchReport


def test_a_later_callback_receives_earlier_reports() -> None:
    """Then each new report, like the others."""
    callbacks = ReportCallbacks("readings")
    first: list[Any] = []
    second: list[Any] = []
    callbacks.add(first.append)
    callbacks.notify(one := _report())
    callbacks.add(second.append)
    callbacks.notify(two := _report())
    assert first == second == [one, two]


def test_a_thread_is_in_a_callback_while_it_is_called() -> None:
    """Of old batches or a new one; another thread is not, and nobody is afterwards, not even after an error."""
    callbacks = ReportCallbacks("readings")
    seen: list[tuple[bool, bool]] = []

    def look(_: Any) -> None:
        with ThreadPoolExecutor(1) as another:
            seen.append((callbacks.is_calling(), another.submit(callbacks.is_calling).result()))

    def fail(_: Any) -> None:
        raise ZeroDivisionError

    callbacks.notify(_report())
    callbacks.add(look)
    callbacks.notify(_report())
    assert seen == [(True, False)] * 2
    try:
        callbacks.add(fail, "fail")
    except ZeroDivisionError:
        assert not callbacks.is_calling()
    else:
        raise AssertionError("the error of a callback went unheard")


def test_a_thread_that_commits_for_a_batch_is_in_it() -> None:
    """A sink that calls stop() there would else wait for its own batch.

    Nobody is in it afterwards, not even what goes on with a copy of its context, as a task of asyncio does.
    """
    callbacks = ReportCallbacks("readings")
    with ThreadPoolExecutor(1) as pool:
        with callbacks.in_batch(3):
            assert callbacks.is_calling()
            assert pool.submit(copy_context().run, callbacks.is_calling).result()
            assert not pool.submit(callbacks.is_calling).result()
            copied = copy_context()
        with callbacks.in_batch(4):
            assert not pool.submit(copied.run, callbacks.is_calling).result()
        assert not pool.submit(copied.run, callbacks.is_calling).result()
    assert not callbacks.is_calling()


def test_a_callback_that_raises_is_logged_and_called_again(caplog: pytest.LogCaptureFixture) -> None:
    """Other callbacks get the report, too; the record has the job, the batch and the traceback."""
    callbacks = ReportCallbacks("readings")
    calls: list[str] = []

    def fail(_: Any) -> None:
        calls.append("failing")
        raise ZeroDivisionError

    callbacks.add(fail)
    callbacks.add(lambda _: calls.append("other"))
    for _ in range(2):
        callbacks.notify(_report())
    assert calls == ["failing", "other"] * 2
    record = next(one for one in caplog.records if one.levelname == "ERROR")
    assert (record.name, record.job, record.batch) == ("panekeeper.job", "readings", 7)  # type: ignore[attr-defined]
    assert record.exc_info is not None
    assert ", in fail\n" in caplog.text  # the frames of the callback, and no others
    assert caplog.text.count(", in ") == caplog.text.count(", in fail\n") == 2  # of two batches
    assert "<locals>.fail raised for batch 7" in record.getMessage()


def test_what_an_error_of_a_callback_does_is_log_or_fail() -> None:
    """Another word is refused, and names both."""
    with pytest.raises(DeclarationError, match="on_error is 'ignore'; it must be 'log' or 'fail'"):
        ReportCallbacks("readings").add(print, "ignore")  # type: ignore[arg-type]


def _report() -> BatchReport:
    return BatchReport(
        batch=7,
        rows=1,
        counts={},
        watermark=None,
        open_panes=0,
        firings=0,
        seconds=0.5,
        stages={},
        late_seconds=None,
        at=datetime(2026, 1, 1, tzinfo=UTC),
    )
