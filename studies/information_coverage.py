"""How often does the cross-fitted logistic attacker's interval contain the true mutual information?

Prints, for true values of 0, .05, .2 and .6 bits at n = 10,000, the share of 100 repetitions whose 95% interval
contains the truth, and the intervals' mean width. Run by `make reproduce`.
"""

from __future__ import annotations

import argparse

import numpy as np

from fedveil.attacks.mutual_information import cross_fitted_information
from fedveil.cli.output import print_json
from fedveil.data import load


def main() -> None:
    """Run the repetitions and print one line per true value."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--dimension", type=int, default=8)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = []
    for bits in (0.0, 0.05, 0.2, 0.6):
        intervals = []
        for repetition in range(arguments.repetitions):
            data = load(
                "synthetic", sensitive="u", n=arguments.n, bits=bits, dimension=arguments.dimension, seed=repetition
            )
            intervals.append(cross_fitted_information(data.x, data.attributes["u"], seed=repetition))
        covered = sum(interval.low <= bits <= interval.high for interval in intervals)
        width = float(np.mean([interval.high - interval.low for interval in intervals]))
        mean = float(np.mean([interval.estimate for interval in intervals]))
        rows.append({"bits": bits, "repetitions": len(intervals), "covered": covered, "width": width, "mean": mean})
        if not arguments.json:
            print(
                f"true {bits:.2f} bits: {covered} of {len(intervals)} intervals contain it; "
                f"mean width {width:.4f}, mean estimate {mean:.4f}",
                flush=True,
            )
    if arguments.json:
        print_json({"rows": rows})


if __name__ == "__main__":
    main()
