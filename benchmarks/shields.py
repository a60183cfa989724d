"""What shields on updates cost, relative to DP-Gaussian by `torch.normal`, in one run and one process.

    python benchmarks/shields.py [--quick] [--json]

A round of 100 clients with one record each, RecUP-FL's LFW network (62×47 pixels, RGB: 880 thousand weights),
a zoo of 20 members with widths spread over 128–2048, P = 10, Q = 5, float32. `fedveil_papers.recup.shield_cost` says
what is timed, and how; `fedveil reproduce recup/time` runs it as well. With `--json` the last line of stdout is
`{"relative_to_dp_gaussian": {"recup": …, "soteria": …, …}}`. The paper's Table 1, on a graphics card, has RecUP-FL at
12.2, DP-Laplace at 31.8, sparsification at 2.8 and Soteria at 875.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory

from fedveil_papers.recup.shield_cost import ShieldCost
from rich.console import Console


def main() -> None:
    """Time all shields and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only the three that matter most")
    parser.add_argument("--json", action="store_true", help="a last line in JSON")
    parser.add_argument("--threads", type=int, default=1, help="of torch; one is steady on a busy machine, too")
    parser.add_argument("--turns", type=int, default=3, help="of which the fastest counts")
    options = parser.parse_args()
    cost = ShieldCost(turns=options.turns, threads=options.threads, few=options.quick)
    with TemporaryDirectory() as folder:  # times are not kept
        costs = cost.run(Path(folder))
    console = Console()
    for table in cost.tables(costs):
        console.print(table)
    for line in cost.notes(costs):
        console.print(line)
    shown = {name: round(ratio, 2) for name, ratio in costs.relative_to_dp_gaussian.items()}
    if options.json:
        print(json.dumps({"relative_to_dp_gaussian": shown}))


if __name__ == "__main__":
    main()
