"""Pruning a classifier before use: what a user may try against its curiosity (L1-unstructured, no retraining).

Malekzadeh, Borovykh and Gündüz, "Honest-but-Curious Nets", CCS 2021, §5.7 and Figure 9: weights with the smallest
absolute value are set to zero. The paper names PyTorch's `l1_unstructured`, which takes one tensor at a time, so by
default the share is that of every layer; `global_unstructured` prunes the whole network at once.
Guarantee: none. An attacker sees the pruned outputs and can be trained on them (`fedveil_papers.curious.measuring`).
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Literal, get_args

from torch import nn
from torch.nn.utils import prune as torch_prune

from fedveil.core.errors import InputError
from fedveil_papers.curious.classifier import Classifier

Scope = Literal["layer", "network"]


def prune(classifier: Classifier, amount: float, *, scope: Scope = "layer") -> Classifier:
    """Return the classifier with a share of F's weights set to zero; the maker's G and thresholds are unchanged.

    Weights are those of convolutions and linear layers; biases and batch norms stay. The given classifier is
    not changed.

    Args:
        classifier: F with G.
        amount: the share of weights that become 0, in [0, 1); PyTorch rounds it to a whole number of weights.
        scope: "layer": the smallest weights of each layer; "network": the smallest weights of all layers together.
    """
    if not 0 <= amount < 1:
        raise InputError(f"prune: amount must lie in [0, 1), got {amount:g}")
    if scope not in get_args(Scope):
        raise InputError(f"prune: scope {scope!r} is not known: choose {' or '.join(get_args(Scope))}")
    network = copy.deepcopy(classifier.network)
    for parameter in network.parameters():
        parameter.data = parameter.data.contiguous()  # PyTorch cannot prune weights in channels-last layout
    layers = [(part, "weight") for part in network.modules() if isinstance(part, nn.Conv2d | nn.Linear)]
    if scope == "network":
        torch_prune.global_unstructured(layers, torch_prune.L1Unstructured, amount=amount)
    for layer, name in layers:
        if scope == "layer":
            torch_prune.l1_unstructured(layer, name, amount)  # type: ignore[no-untyped-call]
        torch_prune.remove(layer, name)  # type: ignore[no-untyped-call]  # make the zeros permanent
    return replace(classifier, network=network.eval().requires_grad_(False))


def zero_share(classifier: Classifier) -> float:
    """Return the share of F's weights (of convolutions and linear layers) that are 0."""
    weights = [part.weight for part in classifier.network.modules() if isinstance(part, nn.Conv2d | nn.Linear)]
    return sum(int((weight == 0).sum()) for weight in weights) / sum(weight.numel() for weight in weights)
