"""The picture of docs/scaling.md: seconds of a batch against keys, and against key groups."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

# Matplotlib needs a folder for its font cache; without one (read-only or missing home) it prints warnings.
os.environ.setdefault("MPLCONFIGDIR", str(Path(tempfile.gettempdir()) / "panekeeper-matplotlib"))

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from benchmarks.scaling.page import against_key_groups, against_keys
from benchmarks.scaling.points import PANEKEEPER, SPARK

_COLOURS = {PANEKEEPER: "#1d4e89", SPARK: "#9aa5b1"}


def draw(content: dict[str, Any], path: Path) -> None:
    """Draw it into an SVG; the same figures give the same file."""
    with mpl.rc_context({"svg.hashsalt": "panekeeper", "svg.fonttype": "none"}):
        figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True, layout="constrained")
        for contender, colour in _COLOURS.items():
            keys, seconds = zip(*against_keys(content, contender), strict=True)
            left.plot(keys, seconds, marker="o", color=colour, label=contender)
        groups, seconds = zip(*against_key_groups(content), strict=True)
        right.plot(groups, seconds, marker="o", color=_COLOURS[PANEKEEPER])
        _style(left, "keys")
        _style(right, "key groups")
        left.set_ylabel(f"s a batch of {content['rows']:,} rows")
        left.legend(frameon=False)
        figure.savefig(path, format="svg", metadata={"Date": None})
        plt.close(figure)


def _style(axis: Axes, name: str) -> None:
    axis.set_xscale("log")
    axis.set_xlabel(name)
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis.set_ylim(bottom=0)
    axis.grid(color="#e4e7eb")
    axis.spines[["top", "right"]].set_visible(False)
