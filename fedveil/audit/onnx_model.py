"""A model in an ONNX file, run by onnxruntime on the CPU.

An ONNX file is a graph of named operators. onnxruntime loads code for custom operators only if a program registers a
library; none is registered here, so a file that needs other operators is refused. Weights in further files are read
from the model's folder and below; onnxruntime refuses absolute paths, `..` and links that leave it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from fedveil.audit.scoring_model import ADVICE, Numbers, Port, ScoringModel
from fedveil.core.errors import InputError

_DTYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(bool)": "bool",
} | {f"tensor({sign}int{bits})": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}

_ONLY_FATAL = 4
"""onnxruntime's log level; faults in a file are raised as exceptions anyway."""


class OnnxModel(ScoringModel):
    """An ONNX file's graph."""

    def __init__(self, path: Path, output: str = "") -> None:
        try:
            import onnxruntime
        except ImportError:
            raise InputError(f"{path}: ONNX files need onnxruntime; install it: pip install 'fedveil[audit]'") from None
        options = onnxruntime.SessionOptions()
        options.log_severity_level = _ONLY_FATAL
        try:
            self._session: Any = onnxruntime.InferenceSession(
                str(path), sess_options=options, providers=["CPUExecutionProvider"]
            )
        except Exception as fault:  # onnxruntime's exceptions share no other base class
            raise InputError(f"{path}: {_why(fault)}") from fault
        super().__init__(
            path,
            [_port(entry) for entry in self._session.get_inputs()],
            [_port(entry) for entry in self._session.get_outputs()],
            output,
        )

    def answers(self, x: Numbers) -> Numbers:
        """Run the graph on one batch."""
        try:
            scores: Numbers = self._session.run([self.gives.name], {self.takes.name: x})[0]
        except Exception as fault:
            raise InputError(
                f"{self.path}: cannot score the data ({_essence(fault)}); check the inputs' shape"
            ) from fault
        return scores


def _port(entry: Any) -> Port:
    shape = tuple(length if isinstance(length, int) and length > 0 else None for length in entry.shape)
    return Port(entry.name, _DTYPES.get(entry.type, ""), shape or None)  # onnxruntime shows an unstated shape as []


def _why(fault: Exception) -> str:
    """Return in plain words why a file was refused."""
    reason = _essence(fault)
    if "is not a registered function/op" in reason:
        return (
            f"needs operators that are not ONNX's ({reason}); their libraries are never loaded; {ADVICE} without them"
        )
    if "xternal data" in reason:
        return f"its weights lie in a file that is missing or outside the model's folder ({reason}); put them beside it"
    if "Protobuf parsing failed" in reason or "No graph was found" in reason:
        return "not an ONNX file, or incomplete; export or fetch it again"
    return f"onnxruntime cannot load it ({reason}); {ADVICE}"


def _essence(fault: Exception) -> str:
    """Return onnxruntime's message without its prefix, lines of its source, and paths."""
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", str(fault))
    text = re.sub(r"Load model from .*? failed:\s*", "", text)
    text = re.sub(r"\S*onnxruntime_src\S*( .*?\))?\s*|\w+\.cc:\d+ \w+ ", "", text)
    return " ".join(text.split())[:160].rstrip(" .;,")
