"""What Python prints of an error of ours."""

from __future__ import annotations

import traceback

import pytest

from panekeeper.framework.declarations.errors import JobFailed, without_own_frames


@without_own_frames
def fails() -> None:
    """Fail as a job does, with what Java has said as the cause."""
    try:
        raise OSError("a stack of Java's")
    except OSError as error:
        raise JobFailed("job 'x' stopped: why") from error


def test_an_error_shows_where_it_was_called_and_nothing_of_ours() -> None:
    """The frame of the caller, the message, and no error before it: that is the `cause`."""
    with pytest.raises(JobFailed) as raised:
        fails()
    assert isinstance(raised.value.cause, OSError)
    shown = "".join(traceback.format_exception(raised.value))
    assert [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)] == [
        "test_an_error_shows_where_it_was_called_and_nothing_of_ours"
    ]
    assert shown.endswith("JobFailed: job 'x' stopped: why\n")
    assert "Java" not in shown


def test_an_interrupted_wait_shows_no_code_of_ours() -> None:
    """In a notebook the cell shows its own line alone."""

    @without_own_frames
    def waits() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as raised:
        waits()
    assert [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)] == [
        "test_an_interrupted_wait_shows_no_code_of_ours"
    ]


def test_an_error_of_python_keeps_its_frames() -> None:
    """It is a fault, of the user's code or of ours, and whoever looks for it needs them."""

    @without_own_frames
    def broken() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError) as raised:
        broken()
    assert [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)][-1] == "broken"
