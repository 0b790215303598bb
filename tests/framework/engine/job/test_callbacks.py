"""Callbacks receive every batch, once and in order; and whether this thread is in one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from framework.engine.job.callbacks import BatchCallbacks


def test_a_later_callback_receives_earlier_reports() -> None:
    """Then each new report, like the others."""
    callbacks = BatchCallbacks()
    first: list[Any] = []
    second: list[Any] = []
    callbacks.add(first.append)
    callbacks.notify(one := _report())
    callbacks.add(second.append)
    callbacks.notify(two := _report())
    assert first == second == [one, two]


def test_a_thread_is_in_a_callback_while_it_is_called() -> None:
    """Of old batches or a new one; another thread is not, and nobody is afterwards, not even after an error."""
    callbacks = BatchCallbacks()
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
        callbacks.add(fail)
    except ZeroDivisionError:
        assert not callbacks.is_calling()
    else:
        raise AssertionError("the error of a callback went unheard")


def _report() -> Any:
    return object()
