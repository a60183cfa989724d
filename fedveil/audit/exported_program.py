"""A model in a `.pt2` file of `torch.export.save`, read and run without torch's loader.

`torch.export.load` (2.13) is not for files from others: it unpickles sample inputs, constants and some weights with
`weights_only=False`, loads compiled libraries that lie in the archive, and gives the text expressions of shapes to
`sympify`, which evaluates them as Python. Here the archive is a zip file of which three members are read as JSON and
the weights as plain bytes; no other member is used. The graph is run by `ExportedGraph`, which knows a fixed list of
operators.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from fedveil.audit.exported_graph import DTYPES, ExportedGraph, Unreadable
from fedveil.audit.models import ADVICE, Numbers, ScoringModel
from fedveil.core.errors import InputError

_SCHEMA = 8
"""The generation of the format, as torch 2.8 and later write it; others are refused, not guessed at."""


class ExportedProgram(ScoringModel):
    """A `torch.export` archive's graph with its weights."""

    def __init__(self, path: Path, output: str = "") -> None:
        try:
            with zipfile.ZipFile(path) as archive:
                self._graph = _read(archive)
        except Unreadable as fault:
            raise InputError(f"{path}: {fault}; {ADVICE}") from fault
        except (zipfile.BadZipFile, OSError, EOFError) as fault:
            raise InputError(
                f"{path}: not a file of torch.export.save, or not a whole one ({fault}); {ADVICE}"
            ) from fault
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError, RecursionError) as fault:
            said = f"{type(fault).__name__}: {' '.join(str(fault).split())[:120]}"
            raise InputError(f"{path}: its graph or weights cannot be read ({said}); {ADVICE}") from fault
        super().__init__(path, self._graph.takes, self._graph.gives, output)
        self._place = [port.name for port in self._graph.gives].index(self.gives.name)

    def answers(self, x: Numbers) -> Numbers:
        """Run the graph on one batch."""
        try:
            answer = self._graph.run(torch.from_numpy(x.copy()))[self._place]
            made: Numbers = answer.to(torch.float64).numpy()
        except Unreadable as fault:
            raise InputError(f"{self.path}: {fault}; check the inputs' shape, or {ADVICE}") from fault
        except (KeyError, TypeError, ValueError, AttributeError) as fault:
            raise InputError(
                f"{self.path}: its graph cannot be run ({type(fault).__name__}: {fault}); {ADVICE}"
            ) from fault
        return made


def _read(archive: zipfile.ZipFile) -> ExportedGraph:
    members = {info.filename: info for info in archive.infolist()}
    roots = [
        name.removesuffix("/archive_format") for name in members if name.count("/") == 1 and "/archive_format" in name
    ]
    if len(roots) != 1 or archive.read(f"{roots[0]}/archive_format") != b"pt2":
        old = "serialized_exported_program.json" in members
        raise Unreadable(
            "of a torch before 2.8, whose weights are pickled" if old else "not a file of torch.export.save"
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
        raise Unreadable(f"holds {len(models)} models, not one")
    name = models[0].removeprefix(f"{root}/models/").removesuffix(".json")
    program = json.loads(archive.read(models[0]))
    version = program["schema_version"]["major"]
    if version != _SCHEMA:
        raise Unreadable(f"written in schema {version} of torch.export, not {_SCHEMA}")
    weights = _tensors(archive, f"{root}/data/weights/", f"{name}_weights_config.json")
    constants = _tensors(archive, f"{root}/data/constants/", f"{name}_constants_config.json")
    return ExportedGraph(program["graph_module"], weights, constants)


def _tensors(archive: zipfile.ZipFile, folder: str, config: str) -> dict[str, torch.Tensor]:
    """Return the tensors that a config lists, from their plain bytes."""
    if folder + config not in archive.namelist():
        raise Unreadable("keeps its weights as one pickle, as some older versions of torch did")
    listed: Mapping[str, Any] = json.loads(archive.read(folder + config))["config"]
    found = {}
    for name, payload in listed.items():
        if payload["use_pickle"] or payload["tensor_meta"] is None:
            raise Unreadable(f"keeps {name!r} as a pickle, which could run code when read")
        meta = payload["tensor_meta"]
        if meta["dtype"] not in DTYPES:
            raise Unreadable(f"{name!r} holds numbers of a kind that is not read (kind {meta['dtype']})")
        data = bytearray(archive.read(folder + payload["path_name"]))
        flat = (
            torch.frombuffer(data, dtype=DTYPES[meta["dtype"]]) if data else torch.zeros(0, dtype=DTYPES[meta["dtype"]])
        )
        sizes, strides = ([length["as_int"] for length in meta[key]] for key in ("sizes", "strides"))
        found[name] = torch.as_strided(
            flat, sizes, strides, meta["storage_offset"]["as_int"]
        )  # torch checks the bounds
    return found
