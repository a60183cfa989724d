"""Transport: make what a device shows of a record independent of u by construction, not against an adversary.

| module | what is there |
|---|---|
| `columns` | a table's columns as cells: atoms and quantiles of numbers, values of categories |
| `weights` | how much each column counts: what it tells about the other columns, no label read |
| `solver` | entropic semi-discrete optimal transport: potentials, and the draw of a cell |
| `counts` | the only statistics that leave a device, noised; how often they were asked |
| `strata` | groups of people with enough of every value of u |
| `codebook` | cells of many columns at once, by weighted k-means from counts and sums |
| `alignment` | one transported variable: a potential per stratum, value of u and cell |
| `chart` | all steps in order, as a device applies them: `Chart` |
| `fitting` | `fit_chart`, on training people |
| `poll` | a server's questions, devices' clipped and noised sums, one exact budget |
| `federated`, `federated_table` | a map by few questions of a poll |
| `pictures`, `images` | images: coordinates without a label, codes' pictures or moved moments |
| `chances` | chances of codes summed over held-out people, for the certificate |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.shields.transport.chart import Chart as Chart
    from fedveil.shields.transport.columns import learn_columns as learn_columns
    from fedveil.shields.transport.federated import Plan as Plan
    from fedveil.shields.transport.federated_table import People as People
    from fedveil.shields.transport.federated_table import learn_table as learn_table
    from fedveil.shields.transport.fitting import fit_chart as fit_chart
    from fedveil.shields.transport.images import learn_images as learn_images
    from fedveil.shields.transport.poll import Poll as Poll
    from fedveil.shields.transport.poll import Question as Question
    from fedveil.shields.transport.poll import budget as budget
    from fedveil.shields.transport.recipe import Recipe as Recipe
    from fedveil.shields.transport.shield import Transport as Transport

__all__ = lazy(__name__)
