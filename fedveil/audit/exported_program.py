"""A model in a `.pt2` file of `torch.export.save`, read and run without torch's loader.

`torch.export.load` (2.13) is not safe for files from others: it unpickles sample inputs, constants and some weights
with `weights_only=False`, loads compiled libraries that lie in the archive, and passes the text expressions of shapes
to `sympify`, which evaluates them as Python. Here the archive is a zip file of which three members are read as JSON and
the weights as plain bytes; no other member is used.

The graph is JSON (torch's `_export/serde/schema.py`): nodes in their order, each with a target such as
"torch.ops.aten.linear.default", named arguments and named results. It is run by an interpreter with a fixed list of
operators on tensors, and arithmetic on lengths. No other part of the JSON is looked at, and no Python code is generated
from it, as `torch.fx` would do.
"""

from __future__ import annotations

import json
import operator
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from fedveil.audit.scoring_model import ADVICE, Numbers, Port, ScoringModel
from fedveil.core.errors import InputError

_SCHEMA = 8
"""The generation of the format, as torch 2.8 and later write it; others are refused."""

_DTYPES = {
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


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


_PLAIN = _words(
    """
    abs acos acosh adaptive_avg_pool1d adaptive_avg_pool2d _adaptive_avg_pool2d adaptive_max_pool2d add addmm
    addmv alias all amax amin any arange argmax argmin asin asinh atan atan2 atanh avg_pool1d avg_pool2d baddbmm
    batch_norm bitwise_and bitwise_not bitwise_or bmm cat ceil celu chunk clamp clamp_max clamp_min clone
    constant_pad_nd contiguous conv1d conv2d conv3d conv_transpose1d conv_transpose2d convolution copy cos cosh
    cumsum detach div dot dropout einsum elu embedding eq erf exp expand expand_as expm1 feature_dropout flatten
    flip floor floor_divide fmod full full_like gather ge gelu glu group_norm gru gt hardsigmoid hardswish
    hardtanh index index_select instance_norm isinf isnan layer_norm le leaky_relu lift_fresh_copy linear log
    log10 log1p log2 log_sigmoid log_softmax _log_softmax logical_and logical_not logical_or logical_xor logit
    logsumexp lstm lt masked_fill matmul max max_pool1d max_pool2d max_pool2d_with_indices max_pool3d maximum
    mean min minimum mish mm movedim mul mv nan_to_num narrow _native_batch_norm_legit_no_training
    native_group_norm native_layer_norm ne neg new_full new_ones new_zeros norm numpy_T one_hot ones ones_like
    outer pad permute pixel_shuffle pow prelu prod reciprocal relu relu6 remainder repeat reshape rms_norm roll
    round rsqrt rsub scalar_tensor scaled_dot_product_attention select selu sigmoid sign silu sin sinh slice
    softmax _softmax softplus softshrink sort split split_with_sizes sqrt square squeeze stack std sub
    sum sym_numel sym_size t tan tanh threshold tile to _to_copy topk transpose tril triu true_divide
    trunc type_as unbind unflatten unsqueeze upsample_bilinear2d upsample_nearest2d var view where zeros
    zeros_like
    """
)
"""aten's operators that a graph may call and that leave their inputs unchanged; all others are refused.

They compute tensors from tensors. Operators that open files (`from_file`), access raw storage (`as_strided`, `set_`),
leave checks out (`_unsafe…`) or draw random numbers are not among them.
"""

_IN_PLACE = _words(
    """
    add_ sub_ mul_ div_ relu_ relu6_ hardtanh_ hardswish_ hardsigmoid_ leaky_relu_ elu_ celu_ selu_ silu_ mish_
    sigmoid_ tanh_ clamp_ clamp_min_ masked_fill_ dropout_ detach_
    """
)
"""Operators that change their input, as nn.ReLU(inplace=True) does."""

_CHECKS = _words(
    """
    _assert_scalar _assert_tensor_metadata _assert_async sym_constrain_range sym_constrain_range_for_size
    """
)
"""The exporter's assertions about shapes; they have no results, and are skipped."""

_RANDOM_IN_TRAINING = {
    "batch_norm": "training",
    "dropout": "train",
    "dropout_": "train",
    "feature_dropout": "train",
    "gru": "train",
    "lstm": "train",
}
"""Operators whose results are random, or depend on the batch, if the argument named here is true."""


class Unreadable(Exception):  # noqa: N818 (a reason, shown to the user as part of an InputError)
    """Why a file cannot be read or run, as the middle of a sentence."""


class ExportedProgram(ScoringModel):
    """A `torch.export` archive's graph with its weights."""

    def __init__(self, path: Path, output: str = "") -> None:
        try:
            with zipfile.ZipFile(path) as archive:
                self._graph = _read(archive)
        except Unreadable as fault:
            raise InputError(f"{path}: {fault}; {ADVICE}") from fault
        except (zipfile.BadZipFile, OSError, EOFError) as fault:
            raise InputError(f"{path}: not a file of torch.export.save, or incomplete ({fault}); {ADVICE}") from fault
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError, RecursionError) as fault:
            reason = f"{type(fault).__name__}: {' '.join(str(fault).split())[:120]}"
            raise InputError(f"{path}: its graph or weights cannot be read ({reason}); {ADVICE}") from fault
        super().__init__(path, self._graph.takes, self._graph.gives, output)
        self._index = [port.name for port in self._graph.gives].index(self.gives.name)

    def answers(self, x: Numbers) -> Numbers:
        """Run the graph on one batch."""
        try:
            output = self._graph.run(torch.from_numpy(x.copy()))[self._index]
            scores: Numbers = output.to(torch.float64).numpy()
        except Unreadable as fault:
            raise InputError(f"{self.path}: {fault}; check the inputs' shape, or {ADVICE}") from fault
        except (KeyError, TypeError, ValueError, AttributeError) as fault:
            raise InputError(
                f"{self.path}: its graph cannot be run ({type(fault).__name__}: {fault}); {ADVICE}"
            ) from fault
        return scores


def _read(archive: zipfile.ZipFile) -> ExportedGraph:
    members = {info.filename: info for info in archive.infolist()}
    roots = [
        name.removesuffix("/archive_format") for name in members if name.count("/") == 1 and "/archive_format" in name
    ]
    if len(roots) != 1 or archive.read(f"{roots[0]}/archive_format") != b"pt2":
        old = "serialized_exported_program.json" in members
        raise Unreadable(
            "written by a torch before 2.8, whose weights are pickled" if old else "not a file of torch.export.save"
        )
    root = roots[0]
    if any(info.compress_type != zipfile.ZIP_STORED for info in members.values()):
        raise Unreadable("holds compressed members, which torch.export.save never writes")
    if f"{root}/byteorder" in members and archive.read(f"{root}/byteorder") != b"little":
        raise Unreadable("its weights are not little-endian")
    models = [name for name in members if name.startswith(f"{root}/models/") and name.endswith(".json")]
    if not models:
        raise Unreadable("holds no graph; compiled code in such archives (AOTInductor) is never run")
    if len(models) > 1:
        raise Unreadable(f"holds {len(models)} models instead of one")
    name = models[0].removeprefix(f"{root}/models/").removesuffix(".json")
    program = json.loads(archive.read(models[0]))
    version = program["schema_version"]["major"]
    if version != _SCHEMA:
        raise Unreadable(f"has schema {version} of torch.export, not {_SCHEMA}")
    weights = _tensors(archive, f"{root}/data/weights/", f"{name}_weights_config.json")
    constants = _tensors(archive, f"{root}/data/constants/", f"{name}_constants_config.json")
    return ExportedGraph(program["graph_module"], weights, constants)


def _tensors(archive: zipfile.ZipFile, folder: str, config: str) -> dict[str, torch.Tensor]:
    """Return the tensors that a config lists, from their plain bytes."""
    if folder + config not in archive.namelist():
        raise Unreadable("keeps its weights as one pickle, as some older versions of torch did")
    listed: Mapping[str, Any] = json.loads(archive.read(folder + config))["config"]
    tensors = {}
    for name, payload in listed.items():
        if payload["use_pickle"] or payload["tensor_meta"] is None:
            raise Unreadable(f"keeps {name!r} as a pickle, which could run code when read")
        meta = payload["tensor_meta"]
        if meta["dtype"] not in _DTYPES:
            raise Unreadable(f"{name!r} holds numbers of a kind that is not read (kind {meta['dtype']})")
        data, dtype = bytearray(archive.read(folder + payload["path_name"])), _DTYPES[meta["dtype"]]
        flat = torch.frombuffer(data, dtype=dtype) if data else torch.zeros(0, dtype=dtype)
        sizes, strides = ([length["as_int"] for length in meta[key]] for key in ("sizes", "strides"))
        # torch checks the bounds
        tensors[name] = torch.as_strided(flat, sizes, strides, meta["storage_offset"]["as_int"])
    return tensors


class ExportedGraph:
    """A graph with its weights, ready to run."""

    def __init__(
        self, module: Mapping[str, Any], weights: Mapping[str, torch.Tensor], constants: Mapping[str, torch.Tensor]
    ) -> None:
        graph, signature = module["graph"], module["signature"]
        self._weights: dict[str, torch.Tensor] = {}
        inputs: list[str] = []
        for spec in signature["input_specs"]:
            ((kind, source),) = spec.items()
            if kind == "user_input":
                inputs.append(source["arg"]["as_tensor"]["name"])
            elif kind in ("parameter", "buffer", "tensor_constant"):
                # buffers that a state dict leaves out (persistent=False) are stored among the constants
                name = source[f"{kind}_name"]
                self._weights[source["arg"]["name"]] = weights[name] if name in weights else constants[name]
            else:
                raise Unreadable(f"its graph takes an input of the kind {kind!r}, which is not read")
        if {kind for spec in signature["output_specs"] for kind in spec} != {"user_output"}:
            raise Unreadable("its graph changes its own weights or buffers from call to call")
        outputs = [spec["user_output"]["arg"]["as_tensor"]["name"] for spec in signature["output_specs"]]
        tensors = graph["tensor_values"]
        self.takes, self.gives = ([_port(name, tensors) for name in names] for names in (inputs, outputs))
        self._dtype = _DTYPES.get(tensors[inputs[0]]["dtype"], torch.float32) if inputs else torch.float32
        self._steps = [step for node in graph["nodes"] if (step := _Step.of(node)) is not None]
        self._changes = any(step.in_place for step in self._steps)

    def run(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Return all outputs for one batch."""
        values: dict[str, Any] = {name: t.clone() if self._changes else t for name, t in self._weights.items()}
        values[self.takes[0].name] = x.to(self._dtype)
        with torch.inference_mode():
            for step in self._steps:
                step.run(values)
        return [values[port.name] for port in self.gives]


class _Step:
    """One node: an operator, its arguments by name, the names of its results."""

    def __init__(self, target: str, call: Callable[..., Any], node: Mapping[str, Any], in_place: bool) -> None:
        self.target, self.call, self.in_place = target, call, in_place
        self.arguments = [(entry["name"], entry["arg"], entry.get("kind") == 2) for entry in node["inputs"]]
        self.results: Sequence[Mapping[str, Any]] = node["outputs"]

    @classmethod
    def of(cls, node: Mapping[str, Any]) -> _Step | None:
        """Return a node's step; None for one of the exporter's assertions."""
        target = str(node["target"])
        if target in _ON_LENGTHS:
            return cls(target, _ON_LENGTHS[target], node, False)
        match = re.fullmatch(r"torch\.ops\.aten\.([A-Za-z]\w*|_\w+)\.(\w+)", target)
        name, overload = match.groups() if match else ("", "")
        if name in _CHECKS:
            return None
        if name not in _PLAIN | _IN_PLACE or "out" in overload.split("_"):
            raise Unreadable(f"calls {target[:80]!r}, which is not among the operators that are run")
        call = getattr(getattr(torch.ops.aten, name), overload, None)
        if not isinstance(call, torch._ops.OpOverload):
            raise Unreadable(f"calls {target[:80]!r}, which this torch ({torch.__version__}) does not have")
        for entry in node["inputs"]:
            if entry["name"] == _RANDOM_IN_TRAINING.get(name) and entry["arg"].get("as_bool"):
                raise Unreadable(f"was exported in training mode ({name} is active): call .eval() first")
        return cls(target, call, node, name in _IN_PLACE)

    def run(self, values: dict[str, Any]) -> None:
        """Call the operator and add its results to the values by name."""
        positional = [_value(arg, values) for _, arg, by_name in self.arguments if not by_name]
        named = {name: _value(arg, values) for name, arg, by_name in self.arguments if by_name}
        try:
            result = self.call(*positional, **named)
        except (RuntimeError, TypeError, ValueError, IndexError, MemoryError, ArithmeticError) as fault:
            reason = " ".join(str(fault).split())[:120]
            raise Unreadable(f"{self.target.removeprefix('torch.ops.')} fails on the data ({reason})") from fault
        results = [result] if len(self.results) == 1 else list(result)
        for entry, value in zip(self.results, results, strict=True):
            ((kind, names),) = entry.items()
            if kind == "as_tensors":
                values.update(zip((tensor["name"] for tensor in names), value, strict=True))
            elif kind == "as_tensor":
                values[names["name"]] = value
            elif kind in ("as_sym_int", "as_sym_bool"):
                values[names["as_name"]] = value


def _port(name: str, tensors: Mapping[str, Any]) -> Port:
    meta = tensors[name]
    dtype = str(_DTYPES.get(meta["dtype"], "")).removeprefix("torch.").replace("bfloat16", "float32")  # numpy has none
    lengths = [length.get("as_int") for length in meta["sizes"]]  # None: a symbol, for any length
    return Port(name, dtype, tuple(length if isinstance(length, int) and length > 0 else None for length in lengths))


def _value(argument: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    """Return an argument: a value computed before, or a constant."""
    ((kind, what),) = argument.items()
    match kind:
        case "as_none":
            return None
        case "as_tensor":
            return values[what["name"]]
        case "as_tensors":
            return [values[tensor["name"]] for tensor in what]
        case "as_optional_tensors":
            return [values[item["as_tensor"]["name"]] if "as_tensor" in item else None for item in what]
        case "as_optional_tensor":
            return values[what["as_tensor"]["name"]] if "as_tensor" in what else None
        case "as_sym_int" | "as_sym_bool":
            return _length(what, values)
        case "as_sym_ints" | "as_sym_bools":
            return [_length(length, values) for length in what]
        case "as_scalar_type" if what in _DTYPES:
            return _DTYPES[what]
        case "as_memory_format" if what in _MEMORY:
            return _MEMORY[what]
        case "as_layout":
            return torch.strided
        case "as_device":
            return torch.device("cpu")  # wherever the model was exported
        case "as_int" | "as_ints" | "as_float" | "as_floats" | "as_bool" | "as_bools" | "as_string":
            return what
    raise Unreadable(f"its graph holds an argument of the kind {kind!r}, which is not read")


def _length(length: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    ((kind, what),) = length.items()
    return values[what] if kind == "as_name" else what
