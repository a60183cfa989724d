"""What a real server received, in a folder: updates as safetensors, all else as JSON; nothing in it is ever executed.

    train-00001.safetensors   "updates" (n, d): what each node sent, minus the weights that it was sent
    train-00001.json          the round's replies: node, row of its update or why there is none, figures beside it
    evaluate-00001.json       the same of evaluations

Every round is written when its replies are there, whole or not at all; a server that is killed leaves earlier rounds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.core.files import write_atomically
from fedveil.data.attribute import Attribute
from fedveil.data.tables import column, read_table
from fedveil.federation.recording import by_sender, centred_by_round
from fedveil.updates.features import features
from fedveil.updates.segments import Segment
from fedveil.view import EVERY_OBSERVER, Capability, View

FORMAT = "fedveil capture 1"
NODE = "node"
"""The column that names the node in an auditor's table."""


@dataclass(frozen=True)
class Reply:
    """One reply: who, what kind of message, the update where there is one, figures, and the error if it was one."""

    node: str
    kind: str
    update: npt.NDArray[np.floating] | None = None
    figures: Mapping[str, Any] | None = None
    error: str | None = None


def write_round(
    folder: Path, number: int, kind: str, sent: Sequence[str], replies: Sequence[Reply], segments: Sequence[Segment]
) -> None:
    """Write one round's replies; `sent` names the nodes that were asked."""
    stem = f"{kind}-{number:05d}"
    told: list[dict[str, Any]] = []
    rows: list[npt.NDArray[np.floating]] = []
    for reply in replies:
        told.append({"node": reply.node, "row": None, "figures": dict(reply.figures or {}), "error": reply.error})
        if reply.update is not None:
            told[-1]["row"] = len(rows)
            rows.append(reply.update)
    if rows:
        write_atomically(folder / f"{stem}.safetensors", save({"updates": np.stack(rows)}))
    layout = [{"player": s.player, "name": s.name, "shape": list(s.shape), "statistic": s.statistic} for s in segments]
    about = {"format": FORMAT, "round": number, "asked": list(sent), "replies": told, "segments": layout}
    write_atomically(folder / f"{stem}.json", json.dumps(about, indent=1, allow_nan=True))


@dataclass(frozen=True, eq=False)
class Captured:
    """All that a server received in training rounds.

    Attributes:
        updates: (n, d).
        nodes: the sender of each.
        rounds: the round of each.
        segments: the tensors of an update.
        replies: every reply, also those without an update, with its round ("round") and kind ("kind").
        asked: the nodes that were sent a message, by kind and round.
    """

    updates: npt.NDArray[np.floating]
    nodes: tuple[str, ...]
    rounds: IntArray
    segments: tuple[Segment, ...]
    replies: tuple[Mapping[str, Any], ...]
    asked: Mapping[tuple[str, int], tuple[str, ...]]

    @classmethod
    def load(cls, folder: str | Path) -> Captured:
        """Read a capture's folder."""
        place = Path(folder)
        files = sorted(place.glob("*-[0-9]*.json"))
        if not files:
            raise InputError(
                f"{place}: is a directory, but no capture (no train-….json in it); give a file, or the folder that a "
                "server wrote"
            )
        updates: list[npt.NDArray[np.floating]] = []
        nodes: list[str] = []
        rounds: list[int] = []
        replies: list[Mapping[str, Any]] = []
        asked: dict[tuple[str, int], tuple[str, ...]] = {}
        segments: tuple[Segment, ...] = ()
        for file in files:
            about, rows = _read(file)
            kind, number = file.stem.rpartition("-")[0], int(about["round"])
            asked[kind, number] = tuple(about["asked"])
            own = _segments(about["segments"])
            if own and segments and own != segments:
                raise InputError(f"{file}: its tensors are not those of earlier rounds; capture each run on its own")
            segments = own or segments
            for reply in about["replies"]:
                replies.append({**reply, "round": number, "kind": kind})
                if reply["row"] is not None:
                    updates.append(rows[reply["row"]])
                    nodes.append(str(reply["node"]))
                    rounds.append(number)
        matrix = np.stack(updates) if updates else np.zeros((0, 0))
        return cls(matrix, tuple(nodes), np.array(rounds, dtype=np.int64), segments, tuple(replies), asked)

    def senders(self) -> IntArray:
        """Number the senders, in the order of their first update."""
        return pd.factorize(np.array(self.nodes, dtype=object))[0].astype(np.int64)

    def attributes(self, values: Mapping[str, Mapping[str, object]], bins: int = 3) -> dict[str, Attribute]:
        """Return each update's attributes from what is known of nodes: name → node → value.

        A node that is not named carries no value, and is neither learnt from nor scored.
        """
        for name, known in values.items():
            if not set(map(str, known)) & set(self.nodes):
                raise InputError(
                    f"{name!r}: none of its {len(known)} nodes has sent an update; nodes are ids like "
                    f"{self.nodes[0] if self.nodes else '(none were captured)'}"
                )
        return {
            name: Attribute.from_column(name, pd.Series([_by_text(known).get(node) for node in self.nodes]), bins)
            for name, known in values.items()
        }

    def view(
        self,
        values: Mapping[str, Mapping[str, object]],
        how: str = "whole",
        *,
        by_node: bool = False,
        centred: bool = True,
        bins: int = 3,
        seed: int = 0,
    ) -> View:
        """Let the server that wrote the capture look at it: some nodes are known to it, the others its victims.

        Args:
            values: what the auditor knows of nodes, for training the attacker and scoring it: name → node → value.
            how: which features of an update; see `fedveil.updates.features`.
            by_node: take the mean over a node's rounds, one vector each.
            centred: take each round's mean away, which tells nothing of one sender.
            bins: quantile classes of a continuous attribute.
            seed: of the split into known nodes and victims.
        """
        if not len(self.updates):
            raise InputError("the capture holds no update: no node sent one that was accepted; see its replies' errors")
        vectors = features(torch.from_numpy(self.updates), self.segments, how).numpy().astype(np.float64)
        if centred:
            vectors = centred_by_round([vectors], [self.rounds])[0]
        labels = self.attributes(values, bins)
        view = View.of_vectors(vectors, labels, groups=self.senders(), rounds=self.rounds, seed=seed)
        if by_node:
            auxiliary, validation, victims = map(by_sender, (view.auxiliary, view.validation, view.victims))
            view = View(auxiliary, validation, victims)
        return replace(view, grants=EVERY_OBSERVER | {Capability.SENDERS, Capability.ROUNDS})


def read_node_values(path: str | Path, name: str) -> dict[str, object]:
    """Read an attribute of nodes from a table with a column "node" (the node's id) and one with the attribute."""
    table = read_table(path, text=[NODE])  # ids have up to twenty digits
    nodes, values = column(table, NODE, path), column(table, name, path)
    texts = [str(node) for node in nodes]
    if len(set(texts)) < len(texts):
        twice = next(node for node in texts if texts.count(node) > 1)
        raise InputError(f"{path}: node {twice} stands in more than one row; name each once")
    return {node: value for node, value in zip(texts, values, strict=True) if not pd.isna(value)}


def _by_text(known: Mapping[str, object]) -> dict[str, object]:
    return {str(node): value for node, value in known.items()}


def _segments(layout: Sequence[Mapping[str, Any]]) -> tuple[Segment, ...]:
    found: list[Segment] = []
    for entry in layout:
        start = found[-1].stop if found else 0
        shape = tuple(int(size) for size in entry["shape"])
        found.append(Segment(str(entry["player"]), str(entry["name"]), shape, start, bool(entry["statistic"])))
    return tuple(found)


def _read(file: Path) -> tuple[dict[str, Any], npt.NDArray[np.floating]]:
    try:
        about = json.loads(file.read_text(encoding="utf-8"))
        if about.get("format") != FORMAT:
            raise InputError(f"{file}: not a capture of this version of fedveil")
        rows: npt.NDArray[np.floating] = np.zeros((0, 0))
        if any(reply["row"] is not None for reply in about["replies"]):
            rows = load_file(file.with_suffix(".safetensors"))["updates"]
        for reply in about["replies"]:
            if reply["row"] is not None and not 0 <= reply["row"] < len(rows):
                raise InputError(f"{file}: a reply names row {reply['row']} of {len(rows)}; the capture is damaged")
        if len(rows) and rows.shape[1] != sum(int(np.prod(entry["shape"])) for entry in about["segments"]):
            raise InputError(f"{file}: its updates have {rows.shape[1]} numbers, its tensors another count")
        return about, rows
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as fault:
        raise InputError(f"{file}: cannot be read as a capture ({type(fault).__name__}: {fault})") from None
