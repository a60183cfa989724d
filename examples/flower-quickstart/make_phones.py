"""Create phones: a CSV of records for each, and, for the auditor alone, whose phone it is.

    python make_phones.py phones --count 8 --seed 0

writes phones/0.csv … and phones/wearers.csv (phone, sex). A window's features are drawn around a mean that differs
between people and, in the first eight features (which reflect height and step length), between women and men.
The label depends on all features in the same way for everybody: sex is not needed to recognise walking.
"""

import argparse
from pathlib import Path

import numpy as np

FEATURES, RECORDS = 24, 64
SEXES = ("female", "male")


def make_phone(path: Path, seed: int, number: int) -> str:
    """Write one phone's records and return its wearer's sex; the same seed and number give the same phone."""
    rng = np.random.default_rng([seed, number])
    law = np.random.default_rng(2026)  # the same for every phone: what walking looks like
    direction, gait = law.normal(size=FEATURES), np.zeros(FEATURES)
    gait[:8] = law.choice([-1.0, 1.0], 8)
    sex = int(rng.integers(2))
    person = rng.normal(scale=0.4, size=FEATURES) + (0.35 if sex else -0.35) * gait
    x = rng.normal(size=(RECORDS, FEATURES)) + person
    # Walking is relative to the person's mean: how active somebody is does not depend on the sex.
    y = (x - person) @ direction + rng.normal(scale=1.0, size=RECORDS) > 0
    header = ",".join([*(f"x{column}" for column in range(FEATURES)), "walking"])
    np.savetxt(path, np.column_stack([x, y]), delimiter=",", header=header, comments="", fmt="%.6g")
    return SEXES[sex]


def main() -> None:
    """Write the phones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    lines = ["phone,sex"]
    for number in range(arguments.count):
        sex = make_phone(arguments.folder / f"{number}.csv", arguments.seed, number)
        lines.append(f"{number},{sex}")
    (arguments.folder / "wearers.csv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
