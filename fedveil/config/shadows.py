"""The attacker's shadow devices in a study of updates: how many, and whether there is anything to learn from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedveil.config.study import Study
from fedveil.core.errors import InputError

if TYPE_CHECKING:
    from fedveil.federation.run import Run

LEAST, MOST = 10, 200
"""With fewer shadow devices an attacker learns nothing; more cost time."""


def number_of_shadows(study: Study, run: Run) -> int:
    """Return how many shadow devices a study asks for; default: as many as its validation records fill.

    In that case each has as many records as a real device has on average.
    """
    from fedveil.data import Split

    if study.attacks.shadows:
        return study.attacks.shadows
    sizes = run.federation.partition.sizes
    each = max(1, round(float(sizes[sizes > 0].mean())))
    records = len(run.federation.data.rows(Split.VALIDATION))
    if records // each < LEAST:
        raise InputError(
            f"attacks.shadows: {records} validation records fill {records // each} devices of {each} records (the "
            f"federation's average), but an attacker on {study.attacks.view} needs {LEAST}; use more devices or "
            "records, or set the number of shadows"
        )
    return min(MOST, records // each)


def check_shadows(study: Study, run: Run) -> None:
    """Deal records to shadow devices, and refuse too few of them.

    An attribute whose most frequent value is the same at all devices is refused too.
    """
    from fedveil.federation.recording import shadow_rows

    count = number_of_shadows(study, run)
    try:
        shadows = shadow_rows(run, count)
    except InputError as fault:
        raise InputError(f"attacks.shadows: {fault}") from None
    for name in study.asked:
        attribute = run.federation.data.attribute(name)
        majorities = [
            [int(records.counts.argmax()) for records in map(attribute.take, devices) if records.known.any()]
            for devices in (run.federation.partition, shadows)
        ]
        values = np.unique(majorities[0])
        if len(values) < 2:
            only_value = attribute.values[values[0]] if len(values) else "nothing"
            raise InputError(
                f"attacks.view: the most frequent value of {name!r} is {only_value!r} at every device, so "
                f"{study.attacks.view} cannot reveal it; deal records by this attribute, for example with "
                f"federation.partition={{kind: dirichlet, alpha: 0.1, by: {name}}}"
            )
        for value in values:
            if majorities[1].count(int(value)) < 2:
                raise InputError(
                    f"attacks.shadows: {attribute.values[value]!r} is the most frequent value of {name!r} at fewer "
                    f"than 2 of {count} shadow devices, but real devices have it; ask for more"
                )
