"""What Java prints while it starts is for the log, and the rest is for the terminal, as it comes."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest

from panekeeper.framework.engine.session.java_output import JavaOutput

STARTING = b"Starting Streaming TransformWithStateInPandas Python worker.\n\n"
INCUBATOR = b"WARNING: Using incubator modules: jdk.incubator.vector\n"


class Terminal:
    """A pipe in place of the terminal."""

    def __init__(self) -> None:
        self.read, self.write = os.pipe()
        os.set_blocking(self.read, False)

    def shown(self) -> bytes:
        """Return what was written since the last call."""
        try:
            return os.read(self.read, 1_000_000)
        except BlockingIOError:
            return b""


@pytest.fixture
def terminal(caplog: pytest.LogCaptureFixture) -> Iterator[Terminal]:
    """A terminal; the log has the level DEBUG."""
    caplog.set_level(logging.DEBUG, "panekeeper.spark")
    made = Terminal()
    yield made
    os.close(made.read)
    os.close(made.write)


def test_what_a_start_prints_is_in_the_log(terminal: Terminal, caplog: pytest.LogCaptureFixture) -> None:
    """All lines of it, such as those of Ivy; nothing is on the terminal."""
    output = JavaOutput(terminal.write)
    output.take(INCUBATOR)
    output.take(b":: loading settings ::\n\tfound io.delta\n")
    output.started()
    assert terminal.shown() == b""
    assert caplog.messages == [INCUBATOR.decode().strip(), ":: loading settings ::", "\tfound io.delta"]


def test_what_a_start_prints_that_fails_is_on_the_terminal(terminal: Terminal) -> None:
    """Whole: it says why."""
    output = JavaOutput(terminal.write)
    output.take(INCUBATOR + b"Error: no space left\n")
    output.ended()
    assert terminal.shown() == INCUBATOR + b"Error: no space left\n"


@pytest.mark.parametrize("cut", [*range(len(STARTING) + 1)])
def test_what_users_print_is_passed_on_and_sparks_own_line_is_not(
    terminal: Terminal, caplog: pytest.LogCaptureFixture, cut: int
) -> None:
    """Wherever the line is cut, at once, and also without an end of line."""
    output = JavaOutput(terminal.write)
    output.started()
    output.take(b"row 1\n" + STARTING[:cut])
    assert terminal.shown() == b"row 1\n"
    output.take(STARTING[cut:] + b"progress: ")
    assert terminal.shown() == b"progress: "
    output.take(b"Sta")
    assert terminal.shown() == b""
    output.take(b"tus\n")
    assert terminal.shown() == b"Status\n"
    output.take(b"Start")
    output.ended()
    assert terminal.shown() == b"Start"
    assert caplog.messages == [STARTING.decode().strip()]
