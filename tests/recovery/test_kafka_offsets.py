"""Where a checkpoint continues in Kafka, from Spark's own log of offsets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from panekeeper.cli.main import main
from panekeeper.framework.declarations.errors import ForeignCheckpoint
from panekeeper.recovery.errors import SavepointError
from panekeeper.recovery.kafka import checkpoint_offsets
from panekeeper.state.errors import CorruptState

SETTINGS = {"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {"spark.sql.shuffle.partitions": "4"}}


def checkpoint(folder: Path, *sources: Any, batch: int = 3) -> Path:
    """Write what Spark writes of a committed batch that has read from these sources, and of one that is not."""
    for log, number, lines in (
        ("offsets", batch, [SETTINGS, *sources]),
        ("commits", batch, [{"nextBatchWatermarkMs": 0}]),
        ("offsets", batch + 1, [SETTINGS, *[{"t": {"0": 999}} for _ in sources]]),
    ):
        path = folder / "epochs/0000" / log / str(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        written = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path.write_text("\n".join(["v1", *written]))
    (folder / "job.json").write_text('{"name": "readings", "id": "7f", "epoch": 0}')
    return folder


def test_offsets_are_those_after_the_last_committed_batch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Printed as Spark's option `startingOffsets` takes them; the control stream is no source of Kafka's."""
    folder = checkpoint(tmp_path, {"t": {"0": 5, "1": 7}, "u": {"0": 1}}, {"logOffset": 2})
    assert main(["offsets", str(folder)]) == 0
    assert json.loads(capsys.readouterr().out) == {"t": {"0": 5, "1": 7}, "u": {"0": 1}}


def test_each_source_of_several_has_its_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A source without offsets yet, and one of files, keep their numbers and are left out."""
    folder = checkpoint(tmp_path, {"t": {"0": 5}}, "-", {"logOffset": 2}, {"u": {"0": 6}})
    assert main(["offsets", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "batch": 3,
        "sources": [
            {"source": 0, "starting_offsets": {"t": {"0": 5}}},
            {"source": 3, "starting_offsets": {"u": {"0": 6}}},
        ],
        "deleted": None,
    }


@pytest.mark.parametrize(
    "other",
    [
        {"logOffset": 2},
        {"sourceVersion": 1, "reservoirId": "x", "reservoirVersion": 3, "index": -1, "isStartingVersion": True},
        {},
        [],
        "-",
        "17",
        {"t": {"0": "5"}},
        {"t": {"zero": 5}},
    ],
    ids=str,
)
def test_another_source_is_not_taken_for_one_of_kafka(tmp_path: Path, other: Any) -> None:
    """Files, Delta, a source that has not been read: the error says that the job reads nothing from Kafka."""
    with pytest.raises(SavepointError, match="reads nothing from Kafka"):
        checkpoint_offsets(checkpoint(tmp_path, other))


def test_a_folder_without_a_committed_batch_is_refused(tmp_path: Path) -> None:
    """Nothing is guessed from offsets that may be run again with others."""
    with pytest.raises(ForeignCheckpoint, match="holds no checkpoint"):
        checkpoint_offsets(tmp_path)
    folder = checkpoint(tmp_path / "job", {"t": {"0": 5}})
    (folder / "epochs/0000/commits/3").unlink()
    with pytest.raises(SavepointError, match=r"no batch of .* was committed yet"):
        checkpoint_offsets(folder)


def test_damaged_offsets_are_an_error(tmp_path: Path) -> None:
    """A file that was cut short never yields half of the offsets."""
    folder = checkpoint(tmp_path, {"t": {"0": 5}})
    path = folder / "epochs/0000/offsets/3"
    path.write_text(path.read_text()[:40])
    with pytest.raises(CorruptState, match="offsets/3"):
        checkpoint_offsets(folder)
