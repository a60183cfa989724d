"""Attri-Fed's privacy accounting: ε from below, what the paper's formulas make of it, post-processing, guarantees."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from fedveil_papers import attri_fed_accounting_layout as layout
from fedveil_papers.attri_fed import AttriFedStudy, Method


@dataclass(frozen=True)
class AttriFedAccounting(AttriFedStudy):
    """An Attri-Fed study whose rows carry "accounting", "post_processing" and the shield's "guarantees", too.

    Settings are those of `AttriFedStudy`.
    """

    kind: ClassVar[str] = "attri-fed-accounting"
    layout: ClassVar[ModuleType] = layout

    def _measure(self, method: Method, game: dict[str, Any], many: int, samples: int) -> dict[str, Any]:
        from fedveil.data import Split
        from fedveil_papers.attri_fed_measuring import measure_trained, row_of, train_method
        from fedveil_papers.rate.accounting import account, post_processed

        attribute = str(self.data["attribute"])
        data = self.dealt(method, many * samples)
        trained = train_method(self.made(method, game), method, data, attribute, many, self.seed)
        found = measure_trained(trained, data, attribute, self.panel, self.seed)
        after = trained.outputs and post_processed(trained.released, trained.outputs, found.stranger, data)
        counts = np.asarray(data.attribute(attribute).take(data.rows(Split.TRAIN)).counts, dtype=np.float64)
        proved = trained.shield.certificates(len(counts), counts / counts.sum())
        return {
            **row_of(trained, found, data),
            "accounting": account(trained.released, data, attribute, seed=self.seed).as_dict(),
            "post_processing": after and after.as_dict(),
            "guarantees": [one.as_dict() for one in proved],
        }
