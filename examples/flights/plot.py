"""One picture of the worst day: the first result of each hour, and the refined one after late flights."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

# Matplotlib needs a folder for its font cache; without one (read-only or missing home) it prints warnings.
os.environ.setdefault("MPLCONFIGDIR", str(Path(tempfile.gettempdir()) / "panekeeper-matplotlib"))

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from examples.flights.data import NEW_YORK

INK, MUTED, GRID = "#1f2933", "#7b8794", "#e4e7eb"
FINAL, FIRST, LATE, MEAN = "#1d4e89", "#9aa5b1", "#e4572e", "#bcd4ee"
AIRPORTS = {"EWR": "Newark", "JFK": "Kennedy", "LGA": "LaGuardia"}


@dataclass(frozen=True, kw_only=True)
class AirportDay:
    """One airport on one day, over all carriers: delays in hours, indexed by the hour at which the pane starts."""

    origin: str
    first: pd.Series  # worst delay when the pane first fired
    final: pd.Series  # worst delay in the end
    mean: pd.Series  # mean delay in the end
    flights: pd.Series  # the flight that had the worst delay in the end
    refined: pd.DataFrame  # every late firing: hour, worst


def draw(log: pa.Table, view: pa.Table, day: pd.Timestamp, path: Path) -> None:
    """Draw one day (its local midnight) into a PNG; the file gets its name when it is complete."""
    days = [airport_day(_of_day(log, day), _of_day(view, day), origin) for origin in AIRPORTS]
    with mpl.rc_context({"font.family": "DejaVu Sans", "font.size": 10, "axes.edgecolor": MUTED, "text.color": INK}):
        figure, axes = plt.subplots(len(days), 1, figsize=(12, 10.5), sharex=True, sharey=True)
        for axis, airport in zip(axes, days, strict=True):
            _draw_airport(axis, airport)
        _style_axes(axes)
        figure.text(
            0.06, 0.955, f"{day:%A}, {day.day} {day:%B %Y}: the worst day out of New York", size=17, weight="bold"
        )
        subtitle = (
            "Worst departure delay by scheduled hour, a new hour every 20 minutes. A plane that leaves hours late\n"
            "is in the stream after its hour has fired: the hour fires again, and the dashed line becomes the blue one."
        )
        figure.text(0.06, 0.943, subtitle, size=11, color=MUTED, va="top", linespacing=1.45)
        figure.legend(handles=_legend(), loc="upper left", bbox_to_anchor=(0.052, 0.903), ncols=5, frameon=False)
        figure.subplots_adjust(left=0.06, right=0.975, top=0.838, bottom=0.06, hspace=0.2)
        unfinished = path.with_name("." + path.name)
        figure.savefig(unfinished, dpi=150, format="png")
        plt.close(figure)
    unfinished.replace(path)


def airport_day(log: pd.DataFrame, view: pd.DataFrame, origin: str) -> AirportDay:
    """Return the hours of one airport, over all carriers."""
    log, view = log[log["origin"] == origin], view[view["origin"] == origin]
    newest = view.sort_values(["hour", "worst"]).groupby("hour").last()
    minutes = (view["mean"] * view["n"]).groupby(view["hour"]).sum()
    on_time = log[log["reason"] != "LATE"].groupby("hour")["worst"].max()
    return AirportDay(
        origin=origin,
        first=on_time.reindex(newest.index) / 60,
        final=newest["worst"] / 60,
        mean=minutes / view.groupby("hour")["n"].sum() / 60,
        flights=newest["flight"],
        refined=log.loc[log["reason"] == "LATE", ["hour", "worst"]],
    )


def _of_day(table: pa.Table, day: pd.Timestamp) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas()
    local = frame["pane_start"].dt.tz_convert(NEW_YORK).dt.tz_localize(None)
    hours: pd.Series[float] = (local - day) / pd.Timedelta(hours=1)
    return frame.assign(hour=hours).loc[hours.between(0, 24, inclusive="left")]


def _draw_airport(axis: Axes, day: AirportDay) -> None:
    times = day.final.index
    axis.fill_between(times, day.mean.clip(lower=0), color=MEAN, linewidth=0, zorder=1)
    axis.plot(times, day.first, color=FIRST, linewidth=1.6, linestyle=(0, (4, 2)), zorder=2)
    axis.plot(times, day.final, color=FINAL, linewidth=2, zorder=3)
    lifted = day.final > day.first.fillna(0)
    before = day.first.fillna(0)
    axis.fill_between(times, before, day.final, color=LATE, alpha=0.09, linewidth=0, zorder=1)
    axis.vlines(times[lifted], before[lifted], day.final[lifted], color=LATE, linewidth=1, alpha=0.55, zorder=2)
    refined = day.refined
    axis.scatter(refined["hour"], refined["worst"] / 60, s=13, color=LATE, alpha=0.7, linewidth=0, zorder=4)
    axis.scatter(times[lifted], day.final[lifted], s=44, color=LATE, edgecolor="white", linewidth=0.9, zorder=5)
    axis.set_title(f"{AIRPORTS[day.origin]} ({day.origin})", loc="left", weight="bold", size=12, color=INK)
    summary = (
        f"{len(refined)} late firings; {int(lifted.sum())} of {len(times)} hours turned out worse than first reported"
    )
    axis.set_title(summary, loc="right", size=9.5, color=MUTED)
    worst = day.final.idxmax()
    hours, minutes = divmod(round(day.final[worst] * 60), 60)
    axis.annotate(
        f"{day.flights[worst]}, {hours} h {minutes:02d} late",
        (worst, day.final[worst]),
        xytext=(8, 5),
        textcoords="offset points",
        size=9.5,
        weight="bold",
        color=FINAL,
    )


def _style_axes(axes: list[Axes]) -> None:
    for axis in axes:
        axis.set_ylim(0, 1.12 * axis.dataLim.ymax)
        axis.set_xlim(4.5, 23.7)
        axis.set_xticks(range(6, 24, 2), [f"{hour:02d}:00" for hour in range(6, 24, 2)])
        axis.yaxis.set_major_locator(mpl.ticker.MultipleLocator(2))
        axis.yaxis.set_major_formatter(lambda hours, _: f"{hours:.0f} h")
        axis.grid(axis="y", color=GRID, linewidth=0.9)
        axis.set_axisbelow(True)
        axis.tick_params(length=0, colors=MUTED)
        for side in ("top", "left", "right"):
            axis.spines[side].set_visible(False)
    axes[-1].set_xlabel("hour that begins at (New York time)", color=MUTED)


def _legend() -> list[Line2D | Patch]:
    return [
        Line2D([], [], color=FINAL, linewidth=2, label="in the end"),
        Line2D([], [], color=FIRST, linewidth=1.6, linestyle=(0, (4, 2)), label="first reported"),
        Line2D([], [], color=LATE, marker="o", markersize=6.5, linewidth=1, label="raised by late flights"),
        Line2D([], [], color=LATE, marker="o", markersize=3.6, linestyle="", label="late firing of one carrier"),
        Patch(color=MEAN, label="mean delay, all flights"),
    ]
