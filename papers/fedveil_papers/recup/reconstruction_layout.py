"""How reconstructed pictures and their figures are laid out: tables, the paper's ratios, and the grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedveil_papers.recup import picture_grid
from fedveil_papers.recup.inverting import RECOGNISABLE
from fedveil_papers.shown import at, with_interval

if TYPE_CHECKING:
    from rich.table import Table


def tables_of(found: Mapping[str, Any], defended: int) -> list[Table]:
    """One table per case and round; a row per method and strength, and what is guessed without an update."""
    from rich.table import Table

    made = []
    for panel in found["panels"]:
        first = panel["rows"][0]
        table = Table(title=f"{panel['case']}, round {panel['round']}")
        table.add_column("method")
        for heading in ("strength", "relative L2", "MSE (0–255)", "paper", "PSNR dB", "SSIM"):
            table.add_column(heading, justify="right")
        table.add_column(f"≥ {RECOGNISABLE:g} dB", justify="right")
        table.add_column("labels", justify="right")
        guess = first["guess"]
        table.add_row(
            "mean training picture",
            "",
            "",
            *_figures(guess, {}),
            f"{guess['recognisable']}/{first['victims']}",
            "–",
        )
        for row in panel["rows"]:
            counts = (f"{row['recognisable']}/{row['victims']}", f"{row['labels_right']}/{row['victims']}")
            norm = f"{row['relative_l2']:.3f}"
            table.add_row(row["method"], at(row["strength"]), norm, *_figures(row, row["paper"]), *counts)
            if row is first and defended < first["victims"]:
                table.add_row(f"no shield, the first {defended}", *_of_first(row["each"], defended))
        table.caption = "Means over victims with 95% bootstrap intervals; labels: how many were recovered rightly."
        made.append(table)
    ratios = _ratios(found)
    if ratios:
        table = Table("case", "round", "MSE of", "paper", "ours", title="RecUP-FL's MSE over a baseline's")
        for line in ratios:
            table.add_row(*line)
        made.append(table)
    return made


def draw_grids(found: Mapping[str, Any], canvas: Any) -> None:
    """Draw the grid of each case and round: rows victims, columns the original and each defence."""
    panels = [shown_panel(panel) for panel in found["panels"]]
    width = max(1 + len(panel["columns"]) for panel in panels)
    heights = [len(panel["originals"]) for panel in panels]
    canvas.set_size_inches(1.15 * width, 0.6 + sum(1.75 * height + 0.5 for height in heights))
    for panel, part in zip(
        panels, canvas.subfigures(len(panels), 1, height_ratios=heights, squeeze=False), strict=True
    ):
        part[0].suptitle(panel["title"], fontsize=10)
        axes = part[0].subplots(len(panel["originals"]), width, squeeze=False)
        for axis in axes.flat:
            axis.set_axis_off()
        for place, original in enumerate(panel["originals"]):
            axes[place][0].imshow(picture_grid.from_png(original))
            for column, one in enumerate(panel["columns"], start=1):
                picture = one["pictures"][place]
                if picture is not None:
                    axes[place][column].imshow(picture_grid.from_png(picture["png"]))
                    _under(axes[place][column], picture["told"])
        for column, name in enumerate(["original", *(one["title"] for one in panel["columns"])]):
            axes[0][column].text(
                0.5, 1.05, name.replace(" ", "\n", 1), fontsize=7, ha="center", transform=axes[0][column].transAxes
            )


def _under(axis: Any, told: Sequence[str]) -> None:
    axis.text(0.5, -0.03, "\n".join(told), fontsize=6, ha="center", va="top", transform=axis.transAxes)


def _figures(row: Mapping[str, Any], paper: Mapping[str, Any]) -> list[str]:
    printed = "" if paper.get("mse") is None else f"{paper['mse']:.0f}"
    return [with_interval(row["mse"], 0), printed, with_interval(row["psnr"], 1), with_interval(row["ssim"], 2)]


def _of_first(each: Mapping[str, list[float]], count: int) -> list[str]:
    """Return the cells of those victims without a shield who are attacked under shields, too: like with like."""
    own = {name: values[:count] for name, values in each.items()}
    mse, psnr, ssim = (sum(own[name]) / count for name in ("mse", "psnr", "ssim"))
    good = sum(value >= RECOGNISABLE for value in own["psnr"])
    return ["", "0.000", f"{mse:.0f}", "", f"{psnr:.1f}", f"{ssim:.2f}", f"{good}/{count}", ""]


def _ratios(found: Mapping[str, Any]) -> list[list[str]]:
    """Return the paper's ratios of MSEs beside ours, strongest setting of each."""
    lines = []
    for one in found["paper"]:
        if "ratio" not in one:
            continue
        ours = "not measured"
        for panel in found["panels"]:
            if (panel["case"], panel["round"]) == (one["case"], one["round"]):
                last = {row["method"]: row for row in panel["rows"]}
                if one["method"] in last and one["over"] in last:
                    above, below = (last[name]["mse"]["estimate"] for name in (one["method"], one["over"]))
                    ours = f"{above / below:.1f}"
        about = f"{one['method']} over {one['over']}"
        lines.append([one["case"], str(one["round"]), about, f"{one['ratio']:g}", ours])
    return lines


def shown_panel(panel: Mapping[str, Any]) -> dict[str, Any]:
    """Return a panel as the grid shows it."""
    columns = []
    for row in panel["rows"]:
        pictures = [
            None if one is None else {"png": one["png"], "told": [f"MSE {one['mse']:.0f}", f"{one['psnr']:.1f} dB"]}
            for one in row["pictures"]
        ]
        columns.append({"title": f"{row['method']} {at(row['strength'])}".strip(), "pictures": pictures})
    first = panel["rows"][0]
    caption = (
        "Left: the victims' pictures. Beside them: what the server reconstructs from one update of round "
        f"{panel['round']}, without a shield and under each (strengths are relative L2 norms of the change, or the "
        "shield's own setting). Below each: mean squared error on the scale 0–255, and peak signal-to-noise ratio."
    )
    return {
        "title": f"{panel['case']}, round {panel['round']}",
        "columns": columns,
        "originals": first["originals"][: min(len(one["pictures"]) for one in columns)],
        "caption": caption,
    }
