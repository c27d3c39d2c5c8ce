"""The picture: bars per library and number of callers, one panel per operation."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

from rates import OURS, Library, Scores
from samples import Operation

PANELS: Final[tuple[tuple[Operation, str], ...]] = (("enqueue", "enqueue"), ("take", "claim + complete"))
COLOURS: Final = ("#d1495b", "#30638e", "#7d9bb5", "#b8c4ce", "#e0a458")
WIDTH: Final = 0.17


def draw_rates(libraries: Sequence[Library], all_scores: Sequence[Scores], caption: str, file: Path) -> None:
    """Write a PNG."""
    figure, panels = plt.subplots(1, 2, figsize=(14, 6), sharey=True, layout="constrained")
    for axes, (operation, title) in zip(panels, PANELS, strict=True):
        _draw_panel(axes, libraries, all_scores, operation)
        axes.set_title(title, fontsize=13, fontweight="bold", loc="left")
    panels[0].set_ylabel("operations per second (log scale)")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        title="Embedded queues on SQLite: higher is better, whiskers are the worst and the best round",
        title_fontproperties={"size": 13},
        loc="outside upper center",
        ncols=len(libraries),
        frameon=False,
        fontsize=11,
    )
    figure.supxlabel(caption, fontsize=8, color="#555555")
    figure.savefig(file, dpi=120)
    plt.close(figure)


def _draw_panel(axes: Axes, libraries: Sequence[Library], all_scores: Sequence[Scores], operation: Operation) -> None:
    for place, library in enumerate(libraries):
        found = [scores.by_library.get((operation, library.name)) for scores in all_scores]
        spreads = [score.rate for score in found if score is not None]
        if not spreads:
            continue
        bars = axes.bar(
            [group + (place - (len(libraries) - 1) / 2) * WIDTH for group in range(len(all_scores))],
            [spread.median for spread in spreads],
            width=WIDTH * 0.94,
            color=COLOURS[place],
            label=f"{library.name} ({library.durability})",
            yerr=[
                [spread.median - spread.low for spread in spreads],
                [spread.high - spread.median for spread in spreads],
            ],
            error_kw={"elinewidth": 1, "ecolor": "#444444", "capsize": 2},
        )
        labels = [_short(spread.median) for spread in spreads]
        # At the foot of the bar, where no error bar crosses it.
        for bar, label in zip(bars, labels, strict=True):
            axes.annotate(
                label,
                (bar.get_x() + bar.get_width() / 2, 0.02),
                xycoords=("data", "axes fraction"),
                ha="center",
                va="bottom",
                rotation=90,
                fontsize=9,
                fontweight="bold" if library.name == OURS else "normal",
                color="white" if place < 2 else "#222222",
            )
    axes.set_yscale("log")
    axes.set_ylim(bottom=_floor(all_scores))
    axes.set_xticks(range(len(all_scores)), [_group(scores) for scores in all_scores])
    axes.set_xlabel("concurrent callers, and the time of a small write + fsync beside them")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="y", which="both", color="#e6e6e6", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _floor(all_scores: Sequence[Scores]) -> float:
    """Low enough for the label at the foot of the shortest bar."""
    lowest = min(score.rate.median for scores in all_scores for score in scores.by_library.values())
    return min(100.0, max(lowest, 3.0) / 3)


def _group(scores: Scores) -> str:
    return f"{scores.callers}\nfsync {scores.fsync.median * 1e3:.1f} ms"


def _short(rate: float) -> str:
    return f"{rate / 1000:.1f}k" if rate >= 1000 else f"{rate:.0f}"
