"""Gradients of a small network for single records that contain their sender's attribute, to fit zoos on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedveil.core.models import mlp
from fedveil.data import load
from fedveil.updates.gradients import network_segments, per_sample_gradients
from fedveil.updates.segments import Segment


@dataclass
class Sent:
    """The updates that senders sent, with the truth about the senders."""

    network: nn.Sequential
    weights: Tensor
    segments: tuple[Segment, ...]
    updates: Tensor
    codes: np.ndarray
    values: tuple[str, ...]


def cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(outputs, labels, reduction="none")


def gradients(n: int = 900, bits: float = 0.8, hidden: int = 8) -> Sent:
    data = load("synthetic", target="y", sensitive="u", n=n, bits=bits)
    network = mlp([data.x.shape[1], hidden, 2], torch.Generator().manual_seed(0))
    x, y = torch.from_numpy(np.asarray(data.x, dtype=np.float32)), torch.from_numpy(data.y.codes)
    updates = per_sample_gradients(network, cross_entropy, x, y).detach()
    weights = nn.utils.parameters_to_vector(network.parameters()).detach()
    attribute = data.attribute("u")
    return Sent(network, weights, network_segments(network), updates, attribute.codes, attribute.values)


def balanced_accuracy(guesses: np.ndarray, codes: np.ndarray) -> float:
    return float(np.mean([(guesses[codes == code] == code).mean() for code in np.unique(codes)]))
