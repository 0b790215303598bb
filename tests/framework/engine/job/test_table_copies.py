"""Whether a table that is declared by another name, or was left out for a while, has what the job has written to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from panekeeper.framework.declarations.errors import SinkError
from tests.framework.engine.job.test_table_record import Tables, written_tables
from tests.framework.engine.sink.test_library_table import LOG, make


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    """Those of a job that has committed five batches."""
    return written_tables(tmp_path)


@pytest.mark.parametrize("name", ["file:{path}", "{path}/../{role}", "{path}-copy"])
def test_an_older_copy_is_refused_by_whatever_name(tables: Tables, name: str) -> None:
    """Another spelling of its folder, and a copy in another one, which has the id of the table."""
    put_back = tables.copy("log")
    tables.commit(5, "log", "view")
    tables.start()
    path = tables.paths["log"]
    tables.paths["log"] = name.format(path=path, role="log")
    if not name.endswith("-copy"):
        tables.start()
        put_back()
    with pytest.raises(SinkError, match=r"the log .* is an older copy"):
        tables.start()


def test_a_whole_copy_takes_the_place_of_a_table(tables: Tables) -> None:
    """It is moved to another disk. Another table begins empty."""
    tables.copy("log")
    tables.paths["log"] = f"{tables.paths['log']}-copy"
    tables.start()
    tables.paths["log"] = make(tables.folder / "new", LOG)
    tables.start()


def test_a_table_that_was_left_out_is_no_older_copy_when_it_is_declared_again(tables: Tables) -> None:
    """It has what it had then. Which tables the job has is not taken from it."""
    view, put_back = tables.paths["view"], tables.copy("view")
    tables.commit(5, "log", "view")
    for declared in (None, None, view):
        tables.paths["view"] = declared
        tables.start()
        tables.commit(6, "log")
    put_back()
    with pytest.raises(SinkError, match=r"the view .* is an older copy: batch 3 is the newest .* and batch 5"):
        tables.start()
