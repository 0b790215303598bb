"""A batch of a real job that is run again in memory: equal to what is recorded, and different where it was changed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from integration_tests.engine.readings import FILES
from panekeeper import CheckpointError, capsule, replay, why
from panekeeper.testing import run_capsule

if TYPE_CHECKING:
    from pathlib import Path

    from integration_tests.engine.conftest import Readings


@pytest.mark.extended
def test_each_batch_run_again_is_equal_and_with_other_code_or_rows_it_differs(
    readings: Readings, tmp_path: Path
) -> None:
    """Through a restart; a capsule of it runs without Spark; a late row, a refinement and an empty batch among them."""
    spark, place = readings.spark, readings.checkpoint
    for rows in FILES[:2]:
        readings.put(*rows)
    readings.run()
    for rows in FILES[2:]:
        readings.put(*rows)
    readings.run()
    job = readings.declare()
    last = max(readings.numbers("commits"))
    found = [replay(place, batch, job=job, spark=spark) for batch in range(last + 1)]
    assert [one.differences for one in found] == [()] * (last + 1)
    assert {one.compared for one in found} == {("state", "log", "quarantine", "metrics")}
    assert sum(one.counts["rows_in"] for one in found) == sum(map(len, FILES))
    firings = [one.counts["firings"] for one in found]
    late = firings.index(1)
    of_key = replay(place, late, job=job, key={"sensor": "a"}, spark=spark)
    assert of_key.is_equal
    assert of_key.results is not None
    assert of_key.results.column("refinement").to_pylist() == [1]
    assert [result["total"] for step in of_key.steps() for result in step.results] == [17]
    made = capsule(place, late, {"sensor": "a"}, job=job, mask=["sensor"], spark=spark)
    (tmp_path / "case.json").write_text(json.dumps(made.to_json()))
    assert run_capsule(tmp_path / "case.json").is_equal
    assert '"a"' not in (tmp_path / "case.json").read_text()
    answer = str(why(place, {"sensor": "a"}, "2024-05-01T10:00", job=job, spark=spark))
    assert "the row of batch 1 that has moved it: event time 2024-05-01T10:02:30Z in file:" in answer
    assert "0001.json (sensor=b); less the delay of 0s that is 2024-05-01T10:02:30Z" in answer

    changed = replay(place, late, job=readings.declare(total="max"), spark=spark)
    assert [one.partition(":")[0] for one in changed.differences] == ["state", "log"]
    assert "total=17" in changed.differences[1]
    (readings.folder / "in" / "0000.json").write_text('{"sensor": "a", "at": "2024-05-01T10:00:10Z", "value": 3}')
    tampered = replay(place, 0, job=job, spark=spark)
    assert [one.partition(":")[0] for one in tampered.differences] == ["state", "quarantine", "metrics"]
    assert "differs" in str(tampered)
    for path in (readings.epoch / "pulse").iterdir():
        path.unlink()
    with pytest.raises(CheckpointError, match=r"the control file pulse/.* of batch 0 .* is no longer kept"):
        replay(place, 0, job=job, spark=spark)
