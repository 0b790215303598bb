"""Commits by Spark are repeated where Delta says that another writer came first, and only there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from delta import exceptions

from panekeeper.framework.declarations.errors import SinkError
from panekeeper.framework.engine.sink.library_table import PAUSES_S
from panekeeper.framework.engine.sink.spark_table import repeat_while_others_commit


class Commits:
    """Commits that fail with these errors, one after the other, and then succeed."""

    def __init__(self, *errors: Exception) -> None:
        self.errors: Iterator[Exception] = iter(errors)
        self.made = 0
        self.waited: list[float] = []

    def __call__(self) -> None:
        self.made += 1
        for error in self.errors:
            raise error

    def run(self) -> None:
        repeat_while_others_commit("/log", self, sleep=self.waited.append)


def test_a_commit_after_that_of_another_writer_is_made_again() -> None:
    """An OPTIMIZE, an append, a new property, the same batch by another process: after a pause that grows."""
    commits = Commits(
        exceptions.ConcurrentDeleteReadException("OPTIMIZE"),
        exceptions.ConcurrentAppendException("append"),
        exceptions.MetadataChangedException("ALTER"),
        exceptions.ConcurrentTransactionException("the same batch"),
    )
    commits.run()
    assert commits.made == 5
    assert commits.waited == [*PAUSES_S[:4]]


def test_where_others_always_come_first_the_job_ends_with_the_name_of_the_table() -> None:
    """It resumes with the same batch."""
    commits = Commits(*[exceptions.ConcurrentWriteException("busy") for _ in range(9)])
    with pytest.raises(SinkError, match=r"(?s)/log .* other writers came first at each of 6 attempts\. .*busy"):
        commits.run()
    assert commits.made == 6


def test_any_other_error_is_raised_at_once() -> None:
    """A full disk is no conflict."""
    commits = Commits(OSError("No space left on device"))
    with pytest.raises(OSError, match="No space"):
        commits.run()
    assert (commits.made, commits.waited) == (1, [])
