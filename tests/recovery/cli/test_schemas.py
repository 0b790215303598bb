"""The JSON schema of each command holds for what it prints: results of every command, and errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from panekeeper.framework.engine.job.lease import acquire
from panekeeper.recovery.cli.commands import COMMANDS
from panekeeper.recovery.cli.main import main
from panekeeper.recovery.cli.schema import schema_of
from panekeeper.recovery.drill import Result
from panekeeper.recovery.jobs.drain import drain
from panekeeper.recovery.upgrade.rescale import Rescaled
from panekeeper.state.checkpoint.folder import JOB_FILE
from tests.recovery.conftest import FakeCheckpoint

ON_SPARK = {"plan", "rescale", "doctor"}
"""What these print is checked where they run: `integration_tests/recovery/test_upgrade.py`, and two beside it."""


def schema_as_printed(name: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What `--json-schema` prints, without any other argument."""
    capsys.readouterr()
    with pytest.raises(SystemExit, match="0"):
        main([name, "--json-schema"])
    return dict(json.loads(capsys.readouterr().out))


@pytest.mark.parametrize("name", list(COMMANDS))
def test_each_command_prints_its_schema(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is a schema, and permits nothing but the result and an error."""
    schema = schema_as_printed(name, capsys)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate({"error": "no", "kind": "SavepointError"}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({}, schema)


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
    "drill": lambda *_: [["drill", "--list", "--only", "kill"]],
}


@pytest.mark.parametrize("name", LINES)
def test_what_a_command_prints_fits_its_schema(
    name: str, job: FakeCheckpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its results, on checkpoints and savepoints whole and damaged."""
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
    schema = schema_as_printed(name, capsys)["anyOf"][0]
    for arguments in LINES[name](job, to):
        capsys.readouterr()
        assert main([*arguments, "--json"]) == 0
        jsonschema.validate(json.loads(capsys.readouterr().out), schema)


def test_what_a_drain_prints_fits_its_schema(job: FakeCheckpoint, capsys: pytest.CaptureFixture[str]) -> None:
    """With the open work of the job."""
    lease = acquire(job.files, "readings")
    lease.set_report(lambda: {"batch": 2, "open": {"panes": 2, "tuples": None, "next_due": 5, "next_watermark": None}})
    schema = schema_as_printed("drain", capsys)["anyOf"][0]
    result = drain(job.top, sleep=lambda _: lease.release("ended"))
    assert result["open"]["panes"] == 2
    jsonschema.validate(json.loads(json.dumps(result)), schema)


def test_results_of_drills_and_of_a_rescale_fit_their_schemas(capsys: pytest.CaptureFixture[str]) -> None:
    """As they are printed; running them takes Spark."""
    result = Result(drill="kill", outcome="passed", rows=9, seconds=2.0)
    fields = {"passed": True, "results": [asdict(result)]}
    jsonschema.validate(json.loads(json.dumps(fields)), schema_as_printed("drill", capsys))
    done = Rescaled(checkpoint="c", savepoint="s", location="l", old=2, new=4, values=9, busiest=1, idle=0)
    jsonschema.validate(asdict(done), schema_as_printed("rescale", capsys))


def test_every_command_is_checked() -> None:
    """A new one is added here."""
    assert set(COMMANDS) == {*LINES, "drain"} | ON_SPARK


def test_a_type_without_a_schema_is_an_error() -> None:
    """It would be printed as text, and nobody would know what it is."""
    with pytest.raises(TypeError, match="there is no JSON schema for <class 'bytes'>"):
        schema_of(bytes)


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_of_a_shell_names_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """And the options of one."""
    with pytest.raises(SystemExit, match="0"):
        main(["--completion", shell])
    script = capsys.readouterr().out
    assert [name for name in COMMANDS if name not in script] == []
    assert "max-lag" in script
