"""Which files an unfinished batch reads."""

from __future__ import annotations

import json
from pathlib import Path

from panekeeper.framework.engine.job.lost_files import files_of_batch
from panekeeper.state.checkpoint.folder import LocalFolder


def _log(*entries: int) -> str:
    lines = [json.dumps({"path": f"file:///in/{entry}.json", "timestamp": 1, "batchId": entry}) for entry in entries]
    return "\n".join(["v1", *lines])


def test_a_batch_reads_what_is_logged_for_it_and_not_for_the_one_before(tmp_path: Path) -> None:
    """Of each source of files but the control stream, the last one; also where a compact entry has them."""
    topic = 'v1\n{"logOffset":1}'
    files = {
        "offsets/3": 'v1\n{"conf":{}}\n{"logOffset":8}\n{"t":{"0":5}}\n-\n{"logOffset":3}',
        "offsets/4": 'v1\n{"conf":{}}\n{"logOffset":10}\n{"t":{"0":9}}\n{"logOffset":0}\n{"logOffset":4}',
        "sources/0/8": _log(8),
        "sources/0/9.compact": _log(*range(10)),
        "sources/0/10": _log(10),
        "sources/0/11": _log(11),
        "sources/1/0": topic,
        "sources/2/0": _log(0),
        "sources/3/4": _log(4),
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    folder = LocalFolder(tmp_path)
    assert list(files_of_batch(folder, 4)) == [
        (s, f"file:///in/{entry}.json") for s, entry in ((0, 9), (0, 10), (2, 0))
    ]
    assert list(files_of_batch(folder, 3)) == []  # the offsets of the one before are gone
