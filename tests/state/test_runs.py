"""How often a batch was begun, as a state handler sees it."""

from __future__ import annotations

from pathlib import Path

from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.state.checkpoint.runs import begin_run, pass_on_runs


def test_attempts_at_a_batch_before_a_reset_do_not_count(tmp_path: Path) -> None:
    """Its number is given again, to another batch; the runs of the job are counted on."""
    folder = LocalFolder(tmp_path)
    assert begin_run(folder).attempt == 1
    folder.write("offsets/0", b"")
    assert [begin_run(folder).attempt for _ in range(3)] == [2, 3, 4]
    after, damaged = LocalFolder(tmp_path / "next"), LocalFolder(tmp_path / "another")
    pass_on_runs(folder, after)
    after.write("offsets/0", b"")
    again = begin_run(after)
    assert (again.number, again.interrupted_batch, again.attempt) == (5, 0, 2)
    folder.write("panekeeper/runs.json", b"{", replace=True)
    pass_on_runs(folder, damaged)
    assert begin_run(damaged).number == 1
