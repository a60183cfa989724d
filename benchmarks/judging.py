"""What judging vectors costs, beside plain scikit-learn on the same data: ratios, not promises.

    python benchmarks/judging.py [--quick] [--json]

`panel("full")` on n × 128 vectors of which one column is shifted by the attribute, and on 10,000 × 4,096 vectors that
are shifted along a dense direction. The yardstick is a RandomForestClassifier of 120 trees and an SVC, fitted on the
same auxiliary vectors (the SVC on 5,000 of them) and scored on the same victims. Each measurement runs in a process
of its own: seconds of all processors, wall time, and the peak of its memory beyond that of the vectors. With `--json`
the last line of stdout is `{"cpu_ratio": {…}, "panel": {…}, "yardstick": {…}}`.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.ensemble import RandomForestClassifier
from sklearn.svm import SVC

from fedveil.attacks import panel
from fedveil.core.standardise import Standardiser
from fedveil.core.threads import single_thread
from fedveil.data import Attribute
from fedveil.view import View

SIZES = {"20,000 × 128": (20_000, 128), "100,000 × 128": (100_000, 128), "10,000 × 4,096": (10_000, 4_096)}
KINDS = ("yardstick", "panel")


def view_of(n: int, columns: int) -> View:
    """Return normal vectors, shifted by one standard deviation: one column, or a dense direction if there are many."""
    rng = np.random.default_rng(0)
    codes = np.arange(n) % 2
    vectors = rng.standard_normal((n, columns), dtype=np.float32)
    direction = np.eye(1, columns)[0] if columns < 1_000 else rng.normal(size=columns)
    vectors += (codes[:, None] - np.float32(0.5)) * (direction / np.linalg.norm(direction)).astype(np.float32)
    return View.of_vectors(vectors, {"u": Attribute.from_column("u", codes)})


def judge_by_panel(view: View) -> float:
    """Return the balanced accuracy of the attacker that counts."""
    return panel("full").judge(view).worst.balanced_accuracy.estimate


def judge_by_yardstick(view: View) -> float:
    """Return the better accuracy of a plain forest and a plain SVM."""
    scale = Standardiser.fit(view.auxiliary.vectors)
    (x, u), (victims, truth) = (
        (scale.apply(pool.vectors), pool.attributes["u"].codes) for pool in (view.auxiliary, view.victims)
    )
    with single_thread():
        forest = RandomForestClassifier(120, min_samples_leaf=3, max_samples=min(20_000, len(x)), random_state=0)
        svm = SVC(cache_size=500).fit(x[:5_000], u[:5_000])
        return max(float((model.predict(victims) == truth).mean()) for model in (forest.fit(x, u), svm))


def measure(kind: str, n: int, columns: int) -> dict[str, float]:
    """Run one measurement in this process."""
    view = view_of(n, columns)
    before, start = _spent(), time.perf_counter()
    accuracy = judge_by_panel(view) if kind == "panel" else judge_by_yardstick(view)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "cpu": _spent() - before,
        "wall": time.perf_counter() - start,
        "gigabytes": (peak - n * columns * 4) / 1e9,
        "accuracy": accuracy,
    }


def _spent() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _in_its_own_process(kind: str, n: int, columns: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--measure", kind, str(n), str(columns)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    measured: dict[str, float] = json.loads(answer.splitlines()[-1])
    return measured


def main() -> None:
    """Measure all sizes and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only 20,000 × 128")
    parser.add_argument("--json", action="store_true", help="a last line in JSON")
    parser.add_argument("--measure", nargs=3, metavar=("KIND", "N", "COLUMNS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        kind, n, columns = options.measure
        print(json.dumps(measure(kind, int(n), int(columns))))
        return
    sizes = dict(list(SIZES.items())[: 1 if options.quick else None])
    figures = {size: {kind: _in_its_own_process(kind, *shape) for kind in KINDS} for size, shape in sizes.items()}
    table = Table(title="The full panel beside a plain forest and SVM", title_justify="left")
    for heading in ("vectors", "", "CPU s", "ratio", "wall s", "GB beyond the vectors", "balanced accuracy"):
        table.add_column(heading)
    ratios = {size: both["panel"]["cpu"] / both["yardstick"]["cpu"] for size, both in figures.items()}
    for size, both in figures.items():
        for kind, row in both.items():
            ratio = ratios[size] if kind == "panel" else 1.0
            table.add_row(
                size,
                kind,
                *(f"{row['cpu']:.1f}", f"{ratio:.2f}", f"{row['wall']:.1f}", f"{row['gigabytes']:.2f}"),
                f"{row['accuracy']:.3f}",
            )
    Console().print(table)
    if options.json:
        shown = {kind: {size: both[kind] for size, both in figures.items()} for kind in KINDS}
        print(json.dumps({"cpu_ratio": {size: round(ratio, 2) for size, ratio in ratios.items()}} | shown))


if __name__ == "__main__":
    main()
