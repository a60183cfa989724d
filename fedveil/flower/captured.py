"""What a real server received, in a folder: updates as safetensors, the rest as JSON; nothing in it is ever executed.

    train-00001.safetensors   "updates" (n, d): what each node sent, minus the weights that it was sent
    train-00001.json          the round's replies: node, row of its update or why there is none, figures
    evaluate-00001.json       the same for evaluations

A round is written once its replies have arrived, either whole or not at all; a server that is killed leaves the earlier
rounds intact.
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
    """One reply: its node, the kind of message, the update (if any), figures, and the error (if any)."""

    node: str
    kind: str
    update: npt.NDArray[np.floating] | None = None
    figures: Mapping[str, Any] | None = None
    error: str | None = None


def write_round(
    folder: Path, number: int, kind: str, sent: Sequence[str], replies: Sequence[Reply], segments: Sequence[Segment]
) -> None:
    """Write one round's replies; `sent` names the nodes that were sent a message."""
    stem = f"{kind}-{number:05d}"
    entries: list[dict[str, Any]] = []
    rows: list[npt.NDArray[np.floating]] = []
    for reply in replies:
        entries.append({"node": reply.node, "row": None, "figures": dict(reply.figures or {}), "error": reply.error})
        if reply.update is not None:
            entries[-1]["row"] = len(rows)
            rows.append(reply.update)
    if rows:
        write_atomically(folder / f"{stem}.safetensors", save({"updates": np.stack(rows)}))
    layout = [{"player": s.player, "name": s.name, "shape": list(s.shape), "statistic": s.statistic} for s in segments]
    content = {"format": FORMAT, "round": number, "asked": list(sent), "replies": entries, "segments": layout}
    write_atomically(folder / f"{stem}.json", json.dumps(content, indent=1, allow_nan=True))


@dataclass(frozen=True, eq=False)
class Captured:
    """All that a server received in training rounds.

    Attributes:
        updates: (n, d).
        nodes: the sender of each update.
        rounds: the round of each update.
        segments: the tensors of an update.
        replies: every reply, including those without an update, with its round ("round") and kind ("kind").
        recipients: the nodes that were sent a message, by kind and round.
    """

    updates: npt.NDArray[np.floating]
    nodes: tuple[str, ...]
    rounds: IntArray
    segments: tuple[Segment, ...]
    replies: tuple[Mapping[str, Any], ...]
    recipients: Mapping[tuple[str, int], tuple[str, ...]]

    @classmethod
    def load(cls, folder: str | Path) -> Captured:
        """Read a capture's folder."""
        path = Path(folder)
        files = sorted(path.glob("*-[0-9]*.json"))
        if not files:
            raise InputError(
                f"{path}: is a directory, but not a capture (no train-….json in it); give a file, or the folder that a "
                "server wrote"
            )
        updates: list[npt.NDArray[np.floating]] = []
        nodes: list[str] = []
        rounds: list[int] = []
        replies: list[Mapping[str, Any]] = []
        recipients: dict[tuple[str, int], tuple[str, ...]] = {}
        segments: tuple[Segment, ...] = ()
        for file in files:
            content, rows = _read(file)
            kind, number = file.stem.rpartition("-")[0], int(content["round"])
            recipients[kind, number] = tuple(content["asked"])
            layout = _segments(content["segments"])
            if layout and segments and layout != segments:
                raise InputError(
                    f"{file}: its tensors are not those of earlier rounds; capture each run in its own folder"
                )
            segments = layout or segments
            for reply in content["replies"]:
                replies.append({**reply, "round": number, "kind": kind})
                if reply["row"] is not None:
                    updates.append(rows[reply["row"]])
                    nodes.append(str(reply["node"]))
                    rounds.append(number)
        matrix = np.stack(updates) if updates else np.zeros((0, 0))
        return cls(matrix, tuple(nodes), np.array(rounds, dtype=np.int64), segments, tuple(replies), recipients)

    def senders(self) -> IntArray:
        """Number the senders, in the order of their first update."""
        return pd.factorize(np.array(self.nodes, dtype=object))[0].astype(np.int64)

    def attributes(self, values: Mapping[str, Mapping[str, object]], bins: int = 3) -> dict[str, Attribute]:
        """Return each update's attributes, given each node's: name → node → value.

        A node without a value is neither used for learning nor scored.
        """
        attributes = {}
        for name, by_node in values.items():
            value_of = {str(node): value for node, value in by_node.items()}
            if not set(value_of) & set(self.nodes):
                raise InputError(
                    f"{name!r}: none of its {len(value_of)} nodes has sent an update; nodes are ids like "
                    f"{self.nodes[0] if self.nodes else '(none were captured)'}"
                )
            column_of_values = pd.Series([value_of.get(node) for node in self.nodes])
            attributes[name] = Attribute.from_column(name, column_of_values, bins)
        return attributes

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
        """Return the view of the server that wrote the capture: it knows some nodes, and the others are its victims.

        Args:
            values: the nodes' attributes, for training the attacker and scoring it: name → node → value.
            how: which features of an update; see `fedveil.updates.features`.
            by_node: use the mean over a node's rounds, one vector per node.
            centred: subtract each round's mean, which says nothing about a single sender.
            bins: quantile classes of a continuous attribute.
            seed: the seed of the split into known nodes and victims.
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
        raise InputError(f"{path}: node {twice} is in more than one row; name each node once")
    return {node: value for node, value in zip(texts, values, strict=True) if not pd.isna(value)}


def _segments(layout: Sequence[Mapping[str, Any]]) -> tuple[Segment, ...]:
    segments: list[Segment] = []
    for entry in layout:
        start = segments[-1].stop if segments else 0
        shape = tuple(int(size) for size in entry["shape"])
        segments.append(Segment(str(entry["player"]), str(entry["name"]), shape, start, bool(entry["statistic"])))
    return tuple(segments)


def _read(file: Path) -> tuple[dict[str, Any], npt.NDArray[np.floating]]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        if content.get("format") != FORMAT:
            raise InputError(f"{file}: not a capture of this version of fedveil")
        rows: npt.NDArray[np.floating] = np.zeros((0, 0))
        if any(reply["row"] is not None for reply in content["replies"]):
            rows = load_file(file.with_suffix(".safetensors"))["updates"]
        for reply in content["replies"]:
            if reply["row"] is not None and not 0 <= reply["row"] < len(rows):
                raise InputError(f"{file}: a reply names row {reply['row']} of {len(rows)}; the capture is damaged")
        if len(rows) and rows.shape[1] != sum(int(np.prod(entry["shape"])) for entry in content["segments"]):
            raise InputError(f"{file}: its updates have {rows.shape[1]} numbers, but its tensors do not; it is damaged")
        return content, rows
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as fault:
        raise InputError(f"{file}: cannot be read as a capture ({type(fault).__name__}: {fault})") from None
