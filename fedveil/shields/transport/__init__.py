"""Transport: what a device shows of a record is independent of u by construction, not by training an adversary.

| module | contents |
|---|---|
| `shield` | `Transport`, the shield |
| `settings` | `MapSettings`, how a map is fitted |
| `hidden` | the hidden value: one attribute's, or a combination of several |
| `columns` | a table's columns as cells, and strata with enough people of every value of u |
| `counts` | the only statistics that leave a device, with noise, and how often people were counted |
| `pairs` | what columns reveal about each other: weights, guesses, common directions; no label is read |
| `alignment` | one transported variable, by entropic semi-discrete optimal transport |
| `codebook` | cells of many columns at once, by weighted k-means from counts and sums |
| `chart` | a table's whole map as a device applies it, and how it is fitted on training people |
| `poll` | a server's questions, and devices' clipped and noisy sums under one exact budget |
| `federated` | a map learned by few questions of a poll |
| `images` | images: coordinates free of colours that depend on u; pictures of codes, or moved moments |
| `certifying` | chances of codes summed over held-out people, for the certificate |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.shields.transport.chart import Chart as Chart
    from fedveil.shields.transport.chart import fit_chart as fit_chart
    from fedveil.shields.transport.columns import learn_columns as learn_columns
    from fedveil.shields.transport.federated import People as People
    from fedveil.shields.transport.federated import Plan as Plan
    from fedveil.shields.transport.federated import learn_table as learn_table
    from fedveil.shields.transport.images import learn_images as learn_images
    from fedveil.shields.transport.poll import Poll as Poll
    from fedveil.shields.transport.poll import Question as Question
    from fedveil.shields.transport.poll import budget as budget
    from fedveil.shields.transport.settings import MapSettings as MapSettings
    from fedveil.shields.transport.shield import Transport as Transport

__all__ = lazy(__name__)
