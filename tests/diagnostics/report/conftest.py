"""A job with a history: a checkpoint and tables as a job leaves them, made without Spark; and a browser."""

from __future__ import annotations

import html
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from panekeeper.state.checkpoint.folder import JOB_FILE, read_object
from tests.fake_checkpoint import FakeCheckpoint

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
NOW = NOON + timedelta(hours=2)
HOUR = timedelta(hours=1)
TIME = pa.timestamp("us", "UTC")
LOG = pa.schema(
    [
        pa.field("sensor", pa.string()),
        pa.field("pane_start", TIME),
        pa.field("pane_end", TIME),
        pa.field("refinement", pa.int32()),
        pa.field("is_final", pa.bool_()),
        pa.field("reason", pa.string()),
    ]
)
OUTCOMES = ("rows_in", "admitted", "refined_late", "dropped_late", "outside", "quarantined", "repeated")
METRICS = pa.schema(
    [
        pa.field("batch", pa.int64()),
        pa.field("batch_time", TIME),
        *(pa.field(name, pa.int64()) for name in OUTCOMES),
        pa.field("watermark", TIME),
        pa.field("open_panes", pa.int64()),
        pa.field("state_bytes", pa.int64()),
        pa.field("firings", pa.int64()),
        pa.field("missed_panes", pa.int64()),
        pa.field("seconds", pa.float64()),
    ]
)
QUARANTINE = pa.schema(
    [
        pa.field("reason", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("event_time", TIME),
        pa.field("batch", pa.int64()),
        pa.field("quarantined_at", TIME),
    ]
)
DOWNTIME = pa.schema(
    [
        pa.field("batch", pa.int64()),
        pa.field("job", pa.string()),
        pa.field("stopped_at", TIME),
        pa.field("started_at", TIME),
        pa.field("clean", pa.bool_()),
        pa.field("timers_overdue", pa.int64()),
        pa.field("results", pa.int64()),
    ]
)


class Recorded:
    """The checkpoint and the tables of a job, of which a test adds batch after batch."""

    def __init__(self, folder: Path, job: str = "readings") -> None:
        self.name = job
        self.job = FakeCheckpoint(folder / "checkpoint", job=job)
        record = read_object(self.job.files, JOB_FILE)
        assert record is not None
        declaration = {"window.kind": "timeInterval", "window.discard_age_us": 2 * 3600 * 1_000_000}
        self.job.put(JOB_FILE, json.dumps({**record, "declaration": declaration}))
        self.paths = {role: str(folder / role) for role in ("log", "metrics", "quarantine", "downtime")}
        self.job.tables(**self.paths)

    @property
    def root(self) -> str:
        """The checkpoint, as a command takes it."""
        return self.job.root

    def put(self, role: str, schema: pa.Schema, rows: list[dict[str, Any]], batch: int) -> None:
        """Commit rows to a table, as the job does in a batch."""
        transaction = f"{self.name}/{role}@0123456789ab#0"
        properties = CommitProperties(app_transactions=[Transaction(transaction, batch)])
        table = pa.Table.from_pylist(rows, schema=schema)
        write_deltalake(self.paths[role], table, mode="append", commit_properties=properties)

    def batch(self, number: int, *, mark: datetime | None, at: datetime | None = None, **counts: int) -> None:
        """Commit the metrics of a batch, and the batch itself."""
        rows = dict.fromkeys((*OUTCOMES, "missed_panes"), 0) | counts
        row = {"batch": number, "batch_time": at or NOON + number * timedelta(minutes=1), **rows, "watermark": mark}
        more = {"open_panes": 10 + number, "state_bytes": 1000 * number, "firings": 2, "seconds": 0.5}
        self.put("metrics", METRICS, [{**row, **more}], number)
        self.job.run()

    def fired(self, batch: int, *firings: tuple[str, int, int, str]) -> None:
        """Commit to the log: sensor, hour at which the pane starts, refinement, reason."""
        rows = []
        for sensor, hour, refinement, reason in firings:
            start = NOON.replace(hour=hour)
            pane = {"pane_start": start, "pane_end": start + HOUR, "refinement": refinement, "reason": reason}
            rows.append({"sensor": sensor, "is_final": False, **pane})
        self.put("log", LOG, rows, batch)


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    """Four batches: panes that have fired, were refined and are closed; late rows, errors, and a crash."""
    made = Recorded(tmp_path)
    made.batch(0, mark=None, admitted=5)
    made.fired(1, ("a", 10, 0, "WATERMARK"), ("b", 10, 0, "WATERMARK"))
    made.batch(1, mark=NOON - HOUR / 2, admitted=7)
    made.fired(2, ("a", 10, 1, "LATE"), ("a", 11, 0, "WATERMARK"))
    made.batch(2, mark=NOON + HOUR / 4, admitted=4, refined_late=1)
    made.fired(3, ("a", 12, 0, "WATERMARK"), ("a", 12, 1, "LATE"))
    late = {"reason": "LATE", "detail": "too late", "event_time": NOON - HOUR, "batch": 3, "quarantined_at": NOW}
    bad = {**late, "reason": "<script>", "detail": "a & b", "event_time": None}
    made.put("quarantine", QUARANTINE, [late, bad, bad], 3)
    down = {"batch": 3, "job": "readings", "stopped_at": NOON + HOUR / 20, "started_at": NOON + HOUR / 4}
    down |= {"clean": False, "timers_overdue": 1, "results": 4}
    made.put("downtime", DOWNTIME, [down, {**down, "job": "another"}], 3)
    made.batch(3, mark=NOON + HOUR * 7 / 6, at=NOON + HOUR / 3, admitted=2, dropped_late=1, quarantined=2)
    return made


@dataclass(frozen=True)
class Seen:
    """What a browser says of a page: for each width its own and that of its content; what it logs; its ground."""

    widths: dict[int, int]
    console: list[str]
    background: str


_PAGE = """<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark">
{frames}<pre id="seen"></pre><script>onload = () => {{
  const frames = [...document.querySelectorAll("iframe")].map(one => one.contentDocument)
  const widths = frames.map(one => [one.documentElement.clientWidth, one.documentElement.scrollWidth])
  const ground = getComputedStyle(frames[0].body).backgroundColor
  document.getElementById("seen").textContent = "SEEN" + JSON.stringify({{widths, ground}}) + "SEEN"
}}</script>"""


@pytest.fixture
def look(tmp_path: Path) -> Callable[..., Seen]:
    """Open a page in Chromium at some widths, for a light or a dark screen; skip where there is no Chromium."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("there is no Chromium to look at the page with: apt-get install chromium")

    def open_page(text: str, *, widths: tuple[int, ...], dark: bool) -> Seen:
        frame = '<iframe style="border:0;height:900px;width:{}px" srcdoc="{}"></iframe>'
        frames = "".join(frame.format(width, html.escape(text)) for width in widths)
        (tmp_path / "look.html").write_text(_PAGE.format(frames=frames), encoding="utf-8")
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--disable-dev-shm-usage",
            "--enable-logging=stderr",
        ]
        options += [f"--user-data-dir={tmp_path / 'browser'}", f"--blink-settings=preferredColorScheme={int(not dark)}"]
        ran = subprocess.run(
            [browser, *options, "--dump-dom", (tmp_path / "look.html").as_uri()],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
            env={**os.environ, "HOME": str(tmp_path)},
        )
        seen = json.loads(ran.stdout.split('<pre id="seen">SEEN')[1].split("SEEN")[0])
        console = [line for line in ran.stderr.splitlines() if "CONSOLE" in line]
        return Seen(dict(seen["widths"]), console, seen["ground"])

    return open_page
