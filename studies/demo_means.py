"""Measure the demo with three seeds, and write the means that `fedveil demo` prints beside its one seed.

    python studies/demo_means.py [DIRECTORY]

The settings are those of fedveil/cli/demo.yaml. They were set with figures of seed 0 in view, and fixed before the
other seeds were run. The directory (default: runs/demo-means) keeps finished cells. Three times the demo's time.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path

from rich.console import Console

from fedveil.cli.demo import STUDY
from fedveil.cli.demo_means import MEANS, means_of
from fedveil.cli.run import rows_table
from fedveil.config.reading import changed, read_yaml
from fedveil.config.study import make_study
from fedveil.studies.check import checked
from fedveil.studies.running import run_study

SEEDS = [1, 2, 3]


def main() -> None:
    """Run the study and write the file."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/demo-means")
    study = make_study(changed(read_yaml(STUDY), "seeds", SEEDS), "demo")
    results = run_study(checked(study), folder, command="python studies/demo_means.py").results
    Console(width=160).print(rows_table(results.rows))
    means = means_of(results.rows, datetime.now().date().isoformat())
    MEANS.write_text(json.dumps(means, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
