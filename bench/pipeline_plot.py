"""The picture of the pipeline's bench: where the seconds go, per size of history."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt

STAGES: Final = ("ingest", "silver", "gold", "tidy")
COLOURS: Final = ("#b08d57", "#8d99ae", "#d4a017", "#b8c4ce")


def draw_stages(found: Sequence[tuple[int, Mapping[str, float], float]], file: Path) -> None:
    """Write a PNG: one bar of stages per size, beside the copy of the same rows to Parquet."""
    figure, axes = plt.subplots(figsize=(10, 1.6 + 1.2 * len(found)), layout="constrained")
    labels = []
    for place, (events, seconds, copied) in enumerate(found):
        left = 0.0
        for stage, colour in zip(STAGES, COLOURS, strict=True):
            axes.barh(2 * place, seconds[stage], left=left, color=colour, label=stage if place == 0 else None)
            left += seconds[stage]
        axes.text(left, 2 * place, f"  {events / left:,.0f} events/s", va="center", fontsize=10)
        axes.barh(2 * place + 0.85, copied, color="#d1495b", label="copy with pyarrow" if place == 0 else None)
        labels += [f"{events:,} events", "one process, Parquet"]
    axes.set_yticks([2 * (place // 2) + 0.85 * (place % 2) for place in range(len(labels))], labels)
    axes.invert_yaxis()
    axes.set_xlabel("seconds, warm session")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower right", frameon=False)
    axes.set_title("From the event log to gold", fontsize=13, fontweight="bold", loc="left")
    figure.savefig(file, dpi=120)
    plt.close(figure)
