"""`panekeeper drill --job`: a user's own job is broken in a folder of the drill, and has the same tables in the end."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from panekeeper.cli.main import main

JOB = """
from pathlib import Path
from panekeeper import TimeInterval, agg, session, windowed

here = Path(__file__).parent
spark = session("own", cores=1, **{"spark.sql.shuffle.partitions": 1})
columns = "id bigint, sensor string, at timestamp"
rows = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).json(str(here / "in"))
job = (
    windowed(rows, name="own", partition_by="sensor", event_time="at", key_groups=1)
    .window(TimeInterval(60, discard_age=120))
    .aggregate(total=agg.sum("id"))
    .to_delta(here / "production" / "log", view=here / "production" / "view")
    .start(checkpoint=here / "production" / "checkpoint", trigger="available_now")
)
"""


@pytest.mark.release  # CI drills a job of ours
@pytest.mark.parametrize(("only", "drills"), [("kill at after-commit", 1), ("restore", 1), ("pause", 1), ("away", 2)])
def test_a_users_own_job_is_drilled(only: str, drills: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Against an undisturbed run; its own tables and checkpoint are not even made."""
    (tmp_path / "in").mkdir()
    (tmp_path / "job.py").write_text(JOB)
    for number in range(4):
        lines = [f'{{"id": {number}, "sensor": "{name}", "at": "2024-05-01T10:{number:02d}:00Z"}}' for name in "ab"]
        (tmp_path / "in" / f"{number}.json").write_text("\n".join(lines))
        os.utime(tmp_path / "in" / f"{number}.json", (1_600_000_000 + number,) * 2)
    done = main(["drill", "--job", str(tmp_path / "job.py"), "--only", only, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert [one["outcome"] for one in found["results"]] == ["passed"] * drills, found
    assert (done, found["passed"], found["job"]) == (0, True, "own")
    assert not (tmp_path / "production").exists()
