"""A model in an ONNX file, run by onnxruntime on the CPU.

An ONNX file is a graph of named operators. onnxruntime loads code for operators of its own only where a program
registers a library; none is registered here, so that a file that asks for other operators is refused. Weights kept in
further files are read from the model's folder and below; onnxruntime refuses absolute paths, `..` and links that leave
it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from fedveil.audit.models import ADVICE, Numbers, Port, ScoringModel
from fedveil.core.errors import InputError

_DTYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(bool)": "bool",
} | {f"tensor({sign}int{bits})": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}

_ONLY_FATAL = 4
"""onnxruntime's level of log messages: what is wrong with a file comes as an exception, too."""


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
        except Exception as fault:  # onnxruntime's own kinds share no base but this
            raise InputError(f"{path}: {_why(fault)}") from fault
        super().__init__(
            path,
            [_port(one) for one in self._session.get_inputs()],
            [_port(one) for one in self._session.get_outputs()],
            output,
        )

    def answers(self, x: Numbers) -> Numbers:
        """Run the graph on one batch."""
        try:
            (answer,) = self._session.run([self.gives.name], {self.takes.name: x})
        except Exception as fault:
            raise InputError(f"{self.path}: cannot score the data ({_said(fault)}); check the inputs' shape") from fault
        made: Numbers = answer
        return made


def _port(one: Any) -> Port:
    shape = tuple(length if isinstance(length, int) and length > 0 else None for length in one.shape)
    return Port(one.name, _DTYPES.get(one.type, ""), shape or None)  # onnxruntime shows an unstated shape as []


def _why(fault: Exception) -> str:
    """Say in our words why a file was refused."""
    said = _said(fault)
    if "is not a registered function/op" in said:
        return f"asks for operators that are not ONNX's ({said}); libraries of them are never loaded; {ADVICE} without"
    if "xternal data" in said:
        return f"its weights lie in a file that is missing or outside the model's folder ({said}); put them beside it"
    if "Protobuf parsing failed" in said or "No graph was found" in said:
        return "not an ONNX file, or not a whole one; export or fetch it again"
    return f"onnxruntime cannot load it ({said}); {ADVICE}"


def _said(fault: Exception) -> str:
    """Return the telling part of onnxruntime's message: no prefix, no places in its source, no paths."""
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", str(fault))
    text = re.sub(r"Load model from .*? failed:\s*", "", text)
    text = re.sub(r"\S*onnxruntime_src\S*( .*?\))?\s*|\w+\.cc:\d+ \w+ ", "", text)
    return " ".join(text.split())[:160].rstrip(" .;,")
