"""What a start looks at before it completes a batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from panekeeper.framework.declarations.errors import SinkError
from panekeeper.framework.engine.job.prepared.completion import Completion
from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.state.checkpoint.layout import TABLES_FILE


@pytest.mark.parametrize("declared", ["log", "another"])
def test_a_damaged_table_is_refused_before_anything_is_written_also_one_of_the_last_start(
    tmp_path: Path, declared: str
) -> None:
    """The last batch may be of the log of before: what it seems to lack would be written twice, or be lost with it."""
    for number in range(2):
        write_deltalake(tmp_path / "log", pa.table({"n": [number]}), mode="append")
    (tmp_path / "log" / "_delta_log" / f"{1:020d}.json").write_bytes(b"")
    files: Any = LocalFolder(tmp_path / "checkpoint")
    files.write_json(TABLES_FILE, {"log": str(tmp_path / "log")})
    nothing: Any = None
    completion = Completion(
        files=files, record=nothing, writer=nothing, lease=nothing, declared={"log": str(tmp_path / declared)}
    )
    with pytest.raises(SinkError, match=rf"{1:020d}.json in {tmp_path}/log was cut short"):
        completion.run()
