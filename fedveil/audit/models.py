"""A vendor's model file as a function from inputs to scores; nothing in the file is executed as code.

`.onnx` files run in onnxruntime on the CPU. `.pt2` files (`torch.export.save`) run in fedveil's own interpreter, since
torch's loader unpickles, evaluates expressions and calls any function that the file names.
"""

from __future__ import annotations

from pathlib import Path

from fedveil.audit.onnx_model import OnnxModel
from fedveil.audit.scoring_model import ScoringModel
from fedveil.core.errors import InputError


def read_model(path: str | Path, output: str = "") -> ScoringModel:
    """Read a model file by its ending, `.onnx` or `.pt2`; `output` chooses among several outputs."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in (".onnx", ".pt2"):
        raise InputError(
            f"{path}: not a model file by its name; give .onnx, or .pt2 of torch.export.save "
            "(pickled models could run code, and are not read)"
        )
    if not path.is_file():
        raise InputError(f"{path}: {'is a folder; give a file' if path.is_dir() else 'no such file; check the path'}")
    if suffix == ".onnx":
        return OnnxModel(path, output)
    from fedveil.audit.exported_program import ExportedProgram  # torch takes seconds to load

    return ExportedProgram(path, output)
