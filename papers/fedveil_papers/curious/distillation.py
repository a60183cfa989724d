"""Knowledge distillation from a curious teacher: whether a student learns to tell the secret, without a single label.

Malekzadeh, Borovykh and Gündüz, "Honest-but-Curious Nets", CCS 2021, §5.8 and eq. 11: a server trains a teacher on
labelled records; a user trains a student on records of its own, unlabelled, by
KL(ŷ_teacher ‖ ŷ_student) alone, both softmaxes at temperature t. The student is released at temperature 1.
Guarantee: none.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import kl_div

from fedveil.core.errors import InputError
from fedveil.core.models import pick_device
from fedveil.core.randomness import child_seed, torch_generator
from fedveil.data.attribute_data import AttributeData, Split
from fedveil.data.splits import random_split
from fedveil.federation.work import DivergedError
from fedveil.games import curious_networks as networks
from fedveil_papers.curious.classifier import Classifier
from fedveil_papers.curious.quick_dropout import quicken
from fedveil_papers.curious.training import laid_out

_HELD_OUT = 0.1
"""The share of a user's records by which the epoch is chosen."""


def dealt(data: AttributeData, share: float, seed: int = 0) -> tuple[AttributeData, AttributeData]:
    """Deal the training people out between a server and a user: the server's data, and the user's unlabelled records.

    The server keeps validation and test records. The user's records carry no target and no attribute; a tenth of
    them are validation records. People (groups) stay whole.

    Args:
        data: with all its labels.
        share: of the training people who are the user's; the paper has .2.
        seed: of who goes where.
    """
    if not 0 < share < 1:
        raise InputError(f"distil: the user's share must lie in (0, 1), got {share:g}")
    rows = data.rows(Split.TRAIN)
    groups = None if data.groups is None else data.groups[rows]
    # Three parts at once: what stays with the server, and of the user's what is learned from and what is chosen by.
    held = share * _HELD_OUT
    part = random_split(
        len(rows), seed=child_seed(seed, "distil", "dealt"), validation=held, test=share - held, groups=groups
    )
    learned, chosen = rows[part == Split.TEST], rows[part == Split.VALIDATION]
    if not len(learned) or not len(chosen) or not (part == Split.TRAIN).any():
        raise InputError(
            f"{data.name}: {len(rows)} training records are too few for a user's share of {share:g}; take a larger one"
        )
    theirs = replace(data.take(np.concatenate([learned, chosen])), y=None, attributes={}, tasks={})
    splits = np.repeat(np.array([Split.TRAIN, Split.VALIDATION], dtype=np.int8), [len(learned), len(chosen)])
    server = np.sort(np.concatenate([rows[part == Split.TRAIN], np.flatnonzero(data.split != Split.TRAIN)]))
    return data.take(server), replace(theirs, split=splits)


def half(teacher: Classifier) -> tuple[int, ...]:
    """Return the widths of a student with half the units in every hidden layer.

    The paper's "half the size … in terms of the number of trainable parameters in each layer" cannot hold of every
    layer at once; half the widths is what its Table 7 calls the next smaller network.
    """
    layers = [part for part in teacher.network.modules() if isinstance(part, nn.Conv2d | nn.Linear)]
    return tuple(max(1, len(layer.weight) // 2) for layer in layers[:-1])


def distil(
    teacher: Classifier,
    data: AttributeData,
    *,
    widths: Sequence[int] = (),
    temperature: float = 1.0,
    epochs: int = 50,
    batch_size: int = 100,
    learning_rate: float = 1e-3,
    seed: int = 0,
    device: str = "auto",
    progress: Callable[[str], None] | None = None,
) -> Classifier:
    """Train a student on the teacher's soft outputs; labels are not looked at, also where the data has some.

    The epoch kept is that with the smallest divergence on validation records. The student carries the teacher's
    attack (G or τ), which knows nothing of it.

    Args:
        teacher: F with G.
        data: the user's records; training ones are learned from, validation ones choose the epoch.
        widths: of the student's hidden layers; half the teacher's if empty.
        temperature: t, by which the scores of both are divided inside the softmax.
        epochs: passes over the training records.
        batch_size: records of a step; a last partial batch is dropped.
        learning_rate: Adam's.
        seed: of first weights, order and dropout.
        device: where to train.
        progress: called with a line per epoch.
    """
    if not temperature > 0 or epochs < 1 or batch_size < 1:
        raise InputError("distil: temperature must be above 0, epochs and batch_size at least 1")
    learned, judged = (data.x[data.rows(split)] for split in (Split.TRAIN, Split.VALIDATION))
    if not len(learned) or not len(judged):
        raise InputError(f"{data.name}: distillation needs training and validation records (unlabelled); it lacks some")
    place = pick_device(device)
    told = [torch.from_numpy(teacher.scores(np.ascontiguousarray(x))).float().to(place) for x in (learned, judged)]
    inputs = [laid_out(torch.from_numpy(np.ascontiguousarray(x)).to(place)) for x in (learned, judged)]
    widths = tuple(widths) or half(teacher)
    build = networks.classifier(data.x.shape[1:], told[0].shape[1], widths)
    student = quicken(build(torch_generator(seed, "distil", "weights")))
    student = student.to(place, memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = torch.optim.Adam(student.parameters(), learning_rate, fused=True)
    order = torch_generator(seed, "distil", "order")
    size = min(batch_size, len(learned))
    best, kept, state = float("inf"), 0, copy.deepcopy(student.state_dict())
    history = []
    with torch.random.fork_rng(devices=[]):  # dropout draws from the global state, seeded here and left no trace in
        torch.default_generator.manual_seed(child_seed(seed, "distil", "dropout"))
        for epoch in range(1, epochs + 1):
            rows = torch.randperm(len(learned), generator=order).to(place)
            losses = []
            for batch in torch.split(rows[: len(rows) - len(rows) % size], size):
                loss = _divergence(student.train()(laid_out(inputs[0][batch])), told[0][batch], temperature)
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                losses.append(loss.detach())
            with torch.no_grad():
                answers = torch.cat([student.eval()(part) for part in torch.split(inputs[1], 512)])
                apart = float(_divergence(answers, told[1], temperature))
            if not np.isfinite(apart):
                raise DivergedError(f"distil: the divergence became {apart}; lower the learning rate")
            history.append({"divergence": apart, "loss of student": float(torch.stack(losses).mean())})
            if progress:
                progress(f"epoch {epoch}: divergence {apart:.4f}")
            if apart < best:
                best, kept, state = apart, epoch, copy.deepcopy(student.state_dict())
    student.load_state_dict(state)
    return replace(
        teacher,
        game=replace(teacher.game, widths=widths),
        network=student.eval().requires_grad_(False),
        history=history,
        kept=kept,
    )


def _divergence(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Return the mean KL(teacher ‖ student) of softmaxes at a temperature, in nats."""
    logs = (student / temperature).log_softmax(dim=1), (teacher / temperature).log_softmax(dim=1)
    return kl_div(*logs, reduction="batchmean", log_target=True)
