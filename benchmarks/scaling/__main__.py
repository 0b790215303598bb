"""`python -m benchmarks.scaling`: measure what a batch costs against keys and key groups."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.__main__ import redirected_stderr
from benchmarks.contenders import RunEnvironment
from benchmarks.pages import between_marks
from benchmarks.scaling.page import page
from benchmarks.scaling.plot import draw
from benchmarks.scaling.points import WARM, points, seconds_a_batch, warm_up
from panekeeper import session
from panekeeper.framework.engine.session.spark_folder import MANAGER_SETTING, ON_DISK

RESULTS = Path(__file__).with_name("results.json")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "scaling.md"
PICTURE = PAGE.with_suffix(".svg")


def main(arguments: list[str]) -> int:
    """Measure all points and return the exit code."""
    options = _options(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    work, load = options.out / "work", os.getloadavg()[0]
    with redirected_stderr(options.out / "spark.log"):
        spark = session("panekeeper-scaling", **{MANAGER_SETTING: ON_DISK})
    environment, found = RunEnvironment(spark=spark, folder=work), []
    size = {"rows": options.rows, "files": options.files}
    try:
        for point in warm_up():
            seconds_a_batch(point, environment, options.cache, **size)
        for point in points():
            seconds = seconds_a_batch(point, environment, options.cache, **size)
            print(f"{seconds:7.3f} s a batch: {point}", flush=True)
            found.append(asdict(point) | {"seconds": round(seconds, 3)})
    finally:
        spark.stop()
        shutil.rmtree(work, ignore_errors=True)
    content = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cores": os.cpu_count()},
        "load": [round(load, 1), round(os.getloadavg()[0], 1)],
        "warm": WARM,
        **size,
        "points": found,
    }
    _write(options, content)
    return 0


def _write(options: argparse.Namespace, content: dict[str, Any]) -> None:
    text, printed = page(content), json.dumps(content, indent=1) + "\n"
    (options.out / "results.json").write_text(printed, encoding="utf-8")
    draw(content, options.out / PICTURE.name)
    if options.publish:
        RESULTS.write_text(printed, encoding="utf-8")
        PAGE.write_text(between_marks(PAGE.read_text(encoding="utf-8"), text), encoding="utf-8")
        shutil.copyfile(options.out / PICTURE.name, PICTURE)
    print(f"\n{text}\n\nwritten: {options.out}", flush=True)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=500_000, help="rows of a micro-batch (default: 500000)")
    parser.add_argument("--files", type=int, default=7, help=f"batches, of which {WARM} do not count (default: 7)")
    parser.add_argument("--out", type=Path, default=Path("out/scaling"), help="folder for runs and figures")
    parser.add_argument("--cache", type=Path, default=Path("out/bench/input"), help="folder for the rows")
    parser.add_argument("--publish", action="store_true", help="write docs/scaling.md, too")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
