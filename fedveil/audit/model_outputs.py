"""What `fedveil audit` is given: a table of outputs, or a model file with data to score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedveil.audit.labelled_inputs import Wanted, outputs_of, read_inputs
from fedveil.audit.models import read_model
from fedveil.audit.outputs import Outputs
from fedveil.audit.reading import read_outputs
from fedveil.core.errors import InputError


@dataclass(frozen=True)
class ModelFile:
    """A model file and where its inputs come from; `path` is None where a table of outputs is audited.

    Attributes:
        path: `.onnx` or `.pt2`.
        data: the inputs: a table, an array, or a data source's name.
        output: which of its outputs.
        labels: the table of labels beside an array.
        key: which array of an .npz file.
        options: of a data source, "name=value".
        seed: of a data source's split.
    """

    path: Path | None
    data: str = ""
    output: str = ""
    labels: Path | None = None
    key: str = ""
    options: tuple[str, ...] = ()
    seed: int = 0

    def checked(self, outputs: Path | None, scores: Sequence[str], wanted: Wanted) -> Path:
        """Return the file that is audited, the table or the model; refuse both together, and neither."""
        if self.path is None:
            given = {
                "--data": self.data,
                "--labels": self.labels,
                "--features": wanted.features,
                "--output": self.output,
                "--key": self.key,
                "--option": self.options,
            }
            alone = [name for name, value in given.items() if value]
            if alone:
                raise InputError(f"{alone[0]} goes with --model; give a model file, or leave it out")
            if outputs is None or not scores:
                lacking = (
                    "a table of outputs (or --model with --data)" if outputs is None else "its score columns, --scores"
                )
                raise InputError(f"audit: give {lacking}")
            return outputs
        if outputs is not None or scores:
            what = f"{outputs}" if outputs is not None else "--scores"
            raise InputError(f"audit: {what} and --model are two ways to give scores; choose one")
        if not self.data:
            raise InputError("audit: --model needs --data, the inputs to score: a table, an array, or a data source")
        return self.path


def read_given(
    place: Path,
    scores: Sequence[str],
    scored: ModelFile,
    wanted: Wanted,
    *,
    raw: bool = False,
    classes: Sequence[str] | None = None,
) -> tuple[Outputs, list[str]]:
    """Return the outputs to audit, read or scored here, and sentences on how a model was used."""
    if scored.path is None:
        made = read_outputs(
            place,
            scores,
            wanted.target,
            wanted.sensitive,
            raw=raw,
            classes=classes,
            group=wanted.group or None,
            bins=wanted.bins,
        )
        return made, []
    model = read_model(scored.path, scored.output)
    inputs = read_inputs(
        scored.data, wanted, labels=scored.labels, key=scored.key, options=scored.options, seed=scored.seed
    )
    return outputs_of(model, inputs, raw=raw, classes=classes)
