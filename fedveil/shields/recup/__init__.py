"""RecUP-FL (Cui et al. 2023): updates moved so that a zoo of substitute attackers reads the wrong value.

| module | contents |
|---|---|
| `shield` | `RecUP`, the shield as printed, which publishes what it hides |
| `fgsm` | its steps: fast gradient signs through the members of a zoo |
| `pools` | the same steps for max-pooled magnitudes, where only few entries of an update can move |
| `zoo` | `Zoo`, models that read one attribute from an update, and its file |
| `members` | a zoo's members: their widths and depths, and storage in few bits |
| `seen` | how far a model has moved since a zoo was fitted |
| `fitting` | fits a zoo on updates or gradients |

A zoo is built from a study by `fedveil.zoos`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.shields.recup.fitting import Fitting as Fitting
    from fedveil.shields.recup.fitting import fit_zoo as fit_zoo
    from fedveil.shields.recup.fitting import refit as refit
    from fedveil.shields.recup.members import hidden_sizes as hidden_sizes
    from fedveil.shields.recup.members import spread_widths as spread_widths
    from fedveil.shields.recup.shield import PublishesWhatItHides as PublishesWhatItHides
    from fedveil.shields.recup.shield import RecUP as RecUP
    from fedveil.shields.recup.zoo import Zoo as Zoo

__all__ = lazy(__name__)
