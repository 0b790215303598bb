"""`panekeeper plan`: what it says of a job file is what a start of that job does."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from panekeeper import CheckpointError, TimeInterval
from recovery.cli.main import main
from recovery.cli.subcommand import ExitCode
from recovery.cli.upgrade import PLAN
from recovery.savepoint.create import savepoint
from recovery.upgrade.check import check_upgrade

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings

PROGRAM = """
from panekeeper import TimeInterval, agg, session, windowed

spark = session("readings")
rows = spark.readStream.schema("sensor string, at timestamp, value bigint").json("{folder}/in")
job = (
    windowed(rows, name="readings", partition_by="sensor", event_time="at", key_groups=4, watermark={watermark})
    .window(TimeInterval(60, discard_age=120))
    .aggregate(total=agg.sum("value"), {aggregates})
    .to_delta("{folder}/log", view="{folder}/view")
    .start(checkpoint="{folder}/checkpoint")
)
"""

CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"window": TimeInterval(30, discard_age=120)}, "needs a flush"),
    ({"total": "max"}, "needs a flush"),
    ({"key_groups": 2}, "needs a flush"),
    ({"partition_by": None}, "needs a flush"),
    ({"name": "others"}, "impossible"),
    ({"watermark": 5, "reject": {"odd": "value % 2 = 1"}}, "compatible"),
]


def test_plan_reports_what_a_start_does(
    readings: Readings, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For declarations, and for job files on the command line, of which nothing is started."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    readings.put(("a", "10:00:10", 1), ("b", "10:00:20", 2))
    readings.run()
    place = tmp_path / "savepoints"
    savepoint(readings.checkpoint, "one", to=place, spark=readings.spark)
    before = readings.numbers("offsets")

    def plan(**filled: object) -> tuple[int, dict[str, Any]]:
        (tmp_path / "program.py").write_text(PROGRAM.format(folder=readings.folder, **filled))
        code = main(["plan", str(place), "one", str(tmp_path / "program.py"), "--json"])
        fields = json.loads(capsys.readouterr().out)
        jsonschema.validate(fields, PLAN.schema())
        return code, fields

    code, printed = plan(aggregates="n=agg.count()", watermark=30)
    assert (code, printed["verdict"]) == (0, "compatible"), printed
    code, printed = plan(aggregates="n=agg.count(), top=agg.max('value')", watermark=30)
    assert (code, printed["verdict"]) == (ExitCode.FAILED, "needs a flush")
    troubles = [one["item"] for one in printed["items"] if one["verdict"] != "compatible"]
    assert troubles == ["aggregate top", "output top", "table log", "table view"]
    assert readings.numbers("offsets") == before
    assert not readings.spark.streams.active

    for options, verdict in CHANGES:
        assert check_upgrade(place, "one", readings.declare(**options)).verdict.value == verdict, options
        if verdict == "compatible":
            readings.run(**options)
        else:
            with pytest.raises(CheckpointError):
                readings.start(**options)
