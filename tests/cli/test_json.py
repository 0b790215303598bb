"""Each command prints its result as one JSON object; the lines for people, and a page, are of the same result."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from panekeeper.cli.commands import COMMANDS
from panekeeper.cli.main import main
from panekeeper.framework.declarations.display import Result, as_html
from panekeeper.state.checkpoint.folder import JOB_FILE
from tests.fake_checkpoint import FakeCheckpoint

INSPECTED = {"panes", "partitions", "why", "diff"}
WITH_A_JOB = {"drain", "plan", "rescale", "doctor", "replay", "capsule", "settle", "try", "advise", *INSPECTED}
"""These are run where they have one: `test_drain.py`, and on Spark in `integration_tests/recovery/`."""

LINES: dict[str, Callable[[FakeCheckpoint, str], list[list[str]]]] = {
    "status": lambda job, _: [["status", job.root]],
    "jobs": lambda job, _: [["jobs", str(job.folder.parent)]],
    "savepoint": lambda job, to: [["savepoint", job.root, "two", "--to", to, "--no-decode"]],
    "savepoints": lambda _, to: [["savepoints", to]],
    "show": lambda _, to: [["show", to, "one"]],
    "verify": lambda _, to: [["verify", to, "one"]],
    "prune": lambda _, to: [["prune", to, "--keep", "1"]],
    "restore": lambda _, to: [["restore", to, "one", "--dry-run"], ["restore", to, "one"]],
    "clone": lambda _, to: [["clone", to, "one", "--into", f"{to}-clone"]],
    "maintain": lambda job, to: [["maintain", job.root, "--savepoints", to], ["maintain", job.root, "--dry-run"]],
    "offsets": lambda job, _: [["offsets", job.root]],
    "report": lambda job, to: [["report", job.root, "-o", f"{to}.html", "--no-open"]],
    "drill": lambda *_: [["drill", "--list", "--only", "kill"]],
}


@pytest.mark.parametrize("name", LINES)
def test_what_a_command_prints_is_one_json_object(
    name: str,
    job: FakeCheckpoint,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its results, on checkpoints and savepoints whole and damaged; each line of the text is on the page, too."""
    to = str(tmp_path / "savepoints")
    assert main(["savepoint", job.root, "one", "--to", to, "--no-decode"]) == 0
    (tmp_path / "savepoints/savepoints/bad.json").write_text("{")
    FakeCheckpoint(tmp_path / "damaged").run(1).put(JOB_FILE, "{")
    if name in {"status", "jobs"}:
        job.run().put("commits/3", "")
    if name == "offsets":
        job.put("offsets/2", 'v1\n{"batchWatermarkMs": 0, "conf": {}}\n{"topic": {"0": 5}}')
    if name == "maintain":
        DeltaTable.create(tmp_path / "log", schema=pa.schema([("n", pa.int64())]))
        job.tables(log=str(tmp_path / "log"))
    if name in {"prune", "maintain"}:
        (tmp_path / "savepoints/savepoints/bad.json").unlink()
    results: list[Result] = []
    command = COMMANDS[name]

    def run(options: Namespace) -> Result:
        results.append(command.run(options))
        return results[-1]

    monkeypatch.setitem(COMMANDS, name, replace(command, run=run))
    for arguments in LINES[name](job, to):
        capsys.readouterr()
        assert main([*arguments, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(results[-1].fields(), default=str))
        page = words(unescape(re.sub(r"<[^>]+>", " ", as_html(results[-1]))))
        lines = str(results[-1]).splitlines()
        assert lines
        assert [line for line in lines if words(line) not in page] == []


def words(text: str) -> str:
    """Return a text with one blank between its words."""
    return " ".join(text.split())


def test_every_command_is_checked() -> None:
    """A new one is added here."""
    assert set(COMMANDS) == {*LINES, *WITH_A_JOB}
