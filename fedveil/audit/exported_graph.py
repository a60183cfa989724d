"""An interpreter of `torch.export`'s graphs: a fixed list of operators on tensors, and arithmetic on lengths.

The graph comes as JSON (torch's `_export/serde/schema.py`): nodes in their order, each with a target such as
"torch.ops.aten.linear.default", named arguments and named results. Nothing else of the JSON is looked at; no Python
code is generated from it, as `torch.fx` would do.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from fedveil.audit.aten_operators import CHECKS, IN_PLACE, PLAIN, RANDOM_IN_TRAINING
from fedveil.audit.models import Port

DTYPES = {
    1: torch.uint8,
    2: torch.int8,
    3: torch.int16,
    4: torch.int32,
    5: torch.int64,
    6: torch.float16,
    7: torch.float32,
    8: torch.float64,
    12: torch.bool,
    13: torch.bfloat16,
}
"""Kinds of numbers by the schema's `ScalarType`."""

_MEMORY = {1: torch.contiguous_format, 2: torch.channels_last, 3: torch.channels_last_3d, 4: torch.preserve_format}

_ON_LENGTHS: Mapping[str, Callable[..., Any]] = {
    f"_operator.{name}": getattr(operator, name)
    for name in ("add", "sub", "mul", "floordiv", "mod", "neg", "eq", "ne", "lt", "le", "gt", "ge", "and_")
}


class Unreadable(Exception):  # noqa: N818 (a reason, told to the user as part of an InputError)
    """Why a file is not read or not run, as the middle of a sentence."""


class ExportedGraph:
    """A graph with its weights, ready to run."""

    def __init__(
        self, module: Mapping[str, Any], weights: Mapping[str, torch.Tensor], constants: Mapping[str, torch.Tensor]
    ) -> None:
        graph, signature = module["graph"], module["signature"]
        self._held: dict[str, torch.Tensor] = {}
        taken: list[str] = []
        for spec in signature["input_specs"]:
            ((kind, told),) = spec.items()
            if kind == "user_input":
                taken.append(told["arg"]["as_tensor"]["name"])
            elif kind in ("parameter", "buffer", "tensor_constant"):
                # buffers that a state dict leaves out (persistent=False) stand among the constants
                name = told[f"{kind}_name"]
                self._held[told["arg"]["name"]] = weights[name] if name in weights else constants[name]
            else:
                raise Unreadable(f"its graph takes an input of the kind {kind!r}, which is not read")
        if {kind for spec in signature["output_specs"] for kind in spec} != {"user_output"}:
            raise Unreadable("its graph changes its own weights or buffers from call to call")
        given = [spec["user_output"]["arg"]["as_tensor"]["name"] for spec in signature["output_specs"]]
        self.takes, self.gives = ([_port(name, graph["tensor_values"]) for name in names] for names in (taken, given))
        self._dtype = DTYPES.get(graph["tensor_values"][taken[0]]["dtype"], torch.float32) if taken else torch.float32
        self._steps = [step for node in graph["nodes"] if (step := _Step.of(node)) is not None]
        self._changes = any(step.in_place for step in self._steps)

    def run(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Return all outputs for one batch."""
        values: dict[str, Any] = {name: t.clone() if self._changes else t for name, t in self._held.items()}
        values[self.takes[0].name] = x.to(self._dtype)
        with torch.inference_mode():
            for step in self._steps:
                step.run(values)
        return [values[port.name] for port in self.gives]


class _Step:
    """One node: an operator, its arguments by name, the names of its results."""

    def __init__(self, target: str, call: Callable[..., Any], node: Mapping[str, Any], in_place: bool) -> None:
        self.target, self.call, self.in_place = target, call, in_place
        self.given = [(one["name"], one["arg"], one.get("kind") == 2) for one in node["inputs"]]
        self.results: Sequence[Mapping[str, Any]] = node["outputs"]

    @classmethod
    def of(cls, node: Mapping[str, Any]) -> _Step | None:
        """Return a node's step; None for a check of the exporter's."""
        target = str(node["target"])
        if target in _ON_LENGTHS:
            return cls(target, _ON_LENGTHS[target], node, False)
        found = re.fullmatch(r"torch\.ops\.aten\.([A-Za-z]\w*|_\w+)\.(\w+)", target)
        if found and found[1] in CHECKS:
            return None
        if not found or found[1] not in PLAIN | IN_PLACE or "out" in found[2].split("_"):
            raise Unreadable(f"calls {target[:80]!r}, which is not among the operators that are run")
        call = getattr(getattr(torch.ops.aten, found[1]), found[2], None)
        if not isinstance(call, torch._ops.OpOverload):
            raise Unreadable(f"calls {target[:80]!r}, which this torch ({torch.__version__}) does not have")
        for one in node["inputs"]:
            if one["name"] == RANDOM_IN_TRAINING.get(found[1]) and one["arg"].get("as_bool"):
                raise Unreadable(f"was exported in training mode ({found[1]} is at work): call .eval() first")
        return cls(target, call, node, found[1] in IN_PLACE)

    def run(self, values: dict[str, Any]) -> None:
        """Call the operator and keep its results by their names."""
        positional = [_value(arg, values) for _, arg, by_name in self.given if not by_name]
        named = {name: _value(arg, values) for name, arg, by_name in self.given if by_name}
        try:
            result = self.call(*positional, **named)
        except (RuntimeError, TypeError, ValueError, IndexError, MemoryError, ArithmeticError) as fault:
            said = " ".join(str(fault).split())[:120]
            raise Unreadable(f"{self.target.removeprefix('torch.ops.')} fails on the data ({said})") from fault
        results = [result] if len(self.results) == 1 else list(result)
        for told, one in zip(self.results, results, strict=True):
            ((kind, what),) = told.items()
            if kind == "as_tensors":
                values.update(zip((each["name"] for each in what), one, strict=True))
            elif kind == "as_tensor":
                values[what["name"]] = one
            elif kind in ("as_sym_int", "as_sym_bool"):
                values[what["as_name"]] = one


def _port(name: str, tensors: Mapping[str, Any]) -> Port:
    meta = tensors[name]
    dtype = str(DTYPES.get(meta["dtype"], "")).removeprefix("torch.").replace("bfloat16", "float32")  # numpy has none
    lengths = [length.get("as_int") for length in meta["sizes"]]  # None: a symbol, for any length
    return Port(name, dtype, tuple(one if isinstance(one, int) and one > 0 else None for one in lengths))


def _value(argument: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    """Return an argument: a value computed before, or a constant."""
    ((kind, what),) = argument.items()
    match kind:
        case "as_none":
            return None
        case "as_tensor":
            return values[what["name"]]
        case "as_tensors":
            return [values[one["name"]] for one in what]
        case "as_optional_tensors":
            return [values[one["as_tensor"]["name"]] if "as_tensor" in one else None for one in what]
        case "as_optional_tensor":
            return values[what["as_tensor"]["name"]] if "as_tensor" in what else None
        case "as_sym_int" | "as_sym_bool":
            return _length(what, values)
        case "as_sym_ints" | "as_sym_bools":
            return [_length(one, values) for one in what]
        case "as_scalar_type" if what in DTYPES:
            return DTYPES[what]
        case "as_memory_format" if what in _MEMORY:
            return _MEMORY[what]
        case "as_layout":
            return torch.strided
        case "as_device":
            return torch.device("cpu")  # wherever the model was exported
        case "as_int" | "as_ints" | "as_float" | "as_floats" | "as_bool" | "as_bools" | "as_string":
            return what
    raise Unreadable(f"its graph holds an argument of the kind {kind!r}, which is not read")


def _length(told: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    ((kind, what),) = told.items()
    return values[what] if kind == "as_name" else what
