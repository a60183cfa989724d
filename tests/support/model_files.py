"""Model files for tests: small ones of several kinds, and archives built to run code when they are loaded."""

from __future__ import annotations

import io
import json
import pickle
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn


def save_pt2(network: nn.Module, path: Path, example: torch.Tensor, any_batch: bool = True) -> Path:
    shapes = ({0: torch.export.Dim("n", max=4096)},) if any_batch else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(network, (example,), dynamic_shapes=shapes), path)
    return path


def save_onnx(network: nn.Module, path: Path, example: torch.Tensor, any_batch: bool = True, outputs: int = 1) -> Path:
    names = [f"out{i}" for i in range(outputs)]
    axes = {name: {0: "n"} for name in ("x", *names)} if any_batch else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network, (example,), path, dynamo=False, input_names=["x"], output_names=names, dynamic_axes=axes
        )
    return path


class Payload:
    """Creates a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (f"open({str(self.marker)!r}, 'w').close()",)


def rebuilt(path: Path, changes: dict[str, Callable[[bytes], bytes]]) -> Path:
    """Rewrite an archive with some members changed or added (names without the root folder)."""
    with zipfile.ZipFile(path) as old:
        members = {info.filename: old.read(info) for info in old.infolist()}
    root = next(iter(members)).split("/")[0]
    for name, change in changes.items():
        members[f"{root}/{name}"] = change(members.get(f"{root}/{name}", b""))
    rebuilt = path.with_name("rebuilt.pt2")
    with zipfile.ZipFile(rebuilt, "w", zipfile.ZIP_STORED) as new:
        for name, content in members.items():
            new.writestr(name, content)
    return rebuilt


def with_json(change: Callable[[Any], None]) -> Callable[[bytes], bytes]:
    def changed(content: bytes) -> bytes:
        value = json.loads(content)
        change(value)
        return json.dumps(value).encode()

    return changed


def torch_pickle(marker: Path) -> bytes:
    buffer = io.BytesIO()
    torch.save((Payload(marker),), buffer)
    return buffer.getvalue()


ATTACKS_ON_TORCH = ("sample inputs", "pickled weight", "legacy weights", "opaque constant", "expression")
"""Changes to an archive that run code in torch.export.load of 2.13."""


def malicious(path: Path, marker: Path, how: str) -> Path:
    """Return an archive that creates the file `marker` if loading or running it executes code."""
    code = f"open({str(marker)!r}, 'w').close()"

    def pickled_weight(config: Any) -> None:
        config["config"]["0.weight"] |= {"use_pickle": True, "path_name": "weight_evil"}

    def pickled_constant(config: Any) -> None:
        meta = {"is_param": False, "use_pickle": True, "tensor_meta": None}
        config["config"]["evil"] = {"path_name": "opaque_obj_0", **meta}

    def expression(program: Any) -> None:
        sizes = program["graph_module"]["graph"]["tensor_values"]["input"]["sizes"]
        sizes[0] = {"as_expr": {"expr_str": f"exec({code!r})", "hint": None}}

    def call(program: Any) -> None:
        node = program["graph_module"]["graph"]["nodes"][0]
        node["target"] = "torch.os.system"
        node["inputs"] = [{"name": "command", "arg": {"as_string": f"touch '{marker}'"}, "kind": 1}]

    changes: dict[str, dict[str, Callable[[bytes], bytes]]] = {
        "sample inputs": {"data/sample_inputs/model.pt": lambda _: torch_pickle(marker)},
        "pickled weight": {
            "data/weights/model_weights_config.json": with_json(pickled_weight),
            "data/weights/weight_evil": lambda _: torch_pickle(marker),
        },
        "legacy weights": {"data/weights/model.pt": lambda _: torch_pickle(marker)},
        "opaque constant": {
            "data/constants/model_constants_config.json": with_json(pickled_constant),
            "data/constants/opaque_obj_0": lambda _: pickle.dumps(Payload(marker)),
        },
        "expression": {"models/model.json": with_json(expression)},
        "function by name": {"models/model.json": with_json(call)},
    }
    return rebuilt(path, changes[how])
