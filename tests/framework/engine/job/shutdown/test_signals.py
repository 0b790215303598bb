"""Ctrl-C while waiting: a request first, an interrupt the second time."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from panekeeper.framework.engine.job.shutdown.signals import SignalRequests


def test_the_first_ctrl_c_is_a_request_and_the_second_an_interrupt(caplog: pytest.LogCaptureFixture) -> None:
    """The handler that was there before comes back afterwards."""
    before = signal.getsignal(signal.SIGINT)
    with SignalRequests() as signals:
        os.kill(os.getpid(), signal.SIGINT)
        assert signals.requested
        assert "press Ctrl-C again" in caplog.text
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_outside_the_main_thread_nothing_is_touched() -> None:
    """Python delivers signals to the main thread only; elsewhere waiting is just waiting."""
    seen: list[bool] = []

    def wait() -> None:
        before = signal.getsignal(signal.SIGINT)
        with SignalRequests() as signals:
            seen.append(signal.getsignal(signal.SIGINT) is before and not signals.requested)

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join()
    assert seen == [True]
