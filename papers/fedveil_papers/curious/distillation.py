"""Knowledge distillation from a curious teacher: a student trained without labels inherits the secret.

Malekzadeh, Borovykh and Gündüz, "Honest-but-Curious Nets", CCS 2021, §5.8 and eq. 11: a server trains a teacher on
labelled records; a user trains a student on other records, unlabelled, by KL(ŷ_teacher ‖ ŷ_student) alone, both
softmaxes at temperature t. The student is released at temperature 1.
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
from fedveil.games.curious import classifier_network
from fedveil_papers.curious.classifier import Classifier
from fedveil_papers.curious.training import channels_last, with_quick_dropout

_HELD_OUT = 0.1
"""The share of a user's records on which the epoch is chosen."""


def dealt(data: AttributeData, share: float, seed: int = 0) -> tuple[AttributeData, AttributeData]:
    """Divide the training records between a server and a user: the server's data, and the user's unlabelled records.

    The server keeps validation and test records. The user's records carry no target and no attribute; a tenth of
    them are validation records. Groups are not divided.

    Args:
        data: with all its labels.
        share: the user's share of the training records; the paper has .2.
        seed: the seed of the division.
    """
    if not 0 < share < 1:
        raise InputError(f"distil: the user's share must lie in (0, 1), got {share:g}")
    rows = data.rows(Split.TRAIN)
    groups = None if data.groups is None else data.groups[rows]
    # Three parts at once: the server's records, and the user's for training and for choosing the epoch.
    held_out = share * _HELD_OUT
    part = random_split(
        len(rows), seed=child_seed(seed, "distil", "dealt"), validation=held_out, test=share - held_out, groups=groups
    )
    train, validation = rows[part == Split.TEST], rows[part == Split.VALIDATION]
    if not len(train) or not len(validation) or not (part == Split.TRAIN).any():
        raise InputError(
            f"{data.name}: {len(rows)} training records are too few for a user's share of {share:g}; take a larger one"
        )
    user = replace(data.take(np.concatenate([train, validation])), y=None, attributes={}, tasks={})
    splits = np.repeat(np.array([Split.TRAIN, Split.VALIDATION], dtype=np.int8), [len(train), len(validation)])
    server = np.sort(np.concatenate([rows[part == Split.TRAIN], np.flatnonzero(data.split != Split.TRAIN)]))
    return data.take(server), replace(user, split=splits)


def half_widths(teacher: Classifier) -> tuple[int, ...]:
    """Return the widths of a student with half the units in every hidden layer.

    The paper's "half the size … in terms of the number of trainable parameters in each layer" cannot hold for every
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
    """Train a student on the teacher's soft outputs; labels are ignored even if the data has them.

    The epoch kept is the one with the smallest divergence on validation records. The student carries the teacher's
    attack (G or τ), which was not trained on the student.

    Args:
        teacher: F with G.
        data: the user's records; the student learns from the training records, the validation records choose the epoch.
        widths: the widths of the student's hidden layers; default: half the teacher's.
        temperature: t; the scores of both are divided by it inside the softmax.
        epochs: passes over the training records.
        batch_size: records per step; a last partial batch is dropped.
        learning_rate: Adam's learning rate.
        seed: the seed of initial weights, order and dropout.
        device: where to train, as torch names it; "auto" chooses.
        progress: called with a line per epoch.
    """
    if not temperature > 0 or epochs < 1 or batch_size < 1:
        raise InputError("distil: temperature must be above 0, epochs and batch_size at least 1")
    splits = [np.ascontiguousarray(data.x[data.rows(split)]) for split in (Split.TRAIN, Split.VALIDATION)]
    if not all(len(x) for x in splits):
        raise InputError(f"{data.name}: distillation needs training and validation records (unlabelled); it lacks some")
    where = pick_device(device)
    answers = [torch.from_numpy(teacher.scores(x)).float().to(where) for x in splits]
    inputs = [channels_last(torch.from_numpy(x).to(where)) for x in splits]
    widths = tuple(widths) or half_widths(teacher)
    build = classifier_network(data.x.shape[1:], answers[0].shape[1], widths)
    student = with_quick_dropout(build(torch_generator(seed, "distil", "weights")))
    student = student.to(where, memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = torch.optim.Adam(student.parameters(), learning_rate, fused=True)
    order = torch_generator(seed, "distil", "order")
    size = min(batch_size, len(inputs[0]))
    best, best_epoch, state = float("inf"), 0, copy.deepcopy(student.state_dict())
    history = []
    with torch.random.fork_rng(devices=[]):  # dropout draws from the global state: seed it here, restore it after
        torch.default_generator.manual_seed(child_seed(seed, "distil", "dropout"))
        for epoch in range(1, epochs + 1):
            rows = torch.randperm(len(inputs[0]), generator=order).to(where)
            losses = []
            for batch in torch.split(rows[: len(rows) - len(rows) % size], size):
                loss = _divergence(student.train()(channels_last(inputs[0][batch])), answers[0][batch], temperature)
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                losses.append(loss.detach())
            with torch.no_grad():
                scores = torch.cat([student.eval()(part) for part in torch.split(inputs[1], 512)])
                divergence = float(_divergence(scores, answers[1], temperature))
            if not np.isfinite(divergence):
                raise DivergedError(f"distil: the divergence became {divergence}; lower the learning rate")
            history.append({"divergence": divergence, "loss of student": float(torch.stack(losses).mean())})
            if progress:
                progress(f"epoch {epoch}: divergence {divergence:.4f}")
            if divergence < best:
                best, best_epoch, state = divergence, epoch, copy.deepcopy(student.state_dict())
    student.load_state_dict(state)
    return replace(
        teacher,
        game=replace(teacher.game, widths=widths),
        network=student.eval().requires_grad_(False),
        history=history,
        kept=best_epoch,
    )


def _divergence(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Return the mean KL(teacher ‖ student) of softmaxes at a temperature, in nats."""
    logs = (student / temperature).log_softmax(dim=1), (teacher / temperature).log_softmax(dim=1)
    return kl_div(*logs, reduction="batchmean", log_target=True)
