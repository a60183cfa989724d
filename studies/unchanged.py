"""Whether figures are the same, bit for bit, before and after a change of the code.

    python studies/unchanged.py record before/     # with the code as it is: results, and files of every kind
    python studies/unchanged.py compare before/    # with the code as it has become

What is recorded: the study studies/smoke.yaml, the demo, a small cell of each paper's preset, a zoo, a ledger, an
audit, and a study that was stopped halfway. `compare` computes everything again and lists every figure that differs;
it also opens the files that the older code wrote (run directories, a checkpoint, the zoo, the ledger). Figures are
bit-identical on one machine with one number of threads, so records are not carried from one machine to another.
Exit code 1 if anything differs. About five minutes on two cores.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
VOLATILE = ("second", "time", "picture", "version", "revision", "code", "peak", "file", "digest_of_code", "evidence")
"""Keys, or parts of keys, that say when, where, by which code or in which words, and not what."""

TABLE2 = {
    "name": "unchanged-tappfl",
    "data": {"source": "adult", "target": "income", "sensitive": ["sex"], "records": 4000},
    "federation": {"devices": 20, "fraction": 0.5, "rounds": 3},
    "methods": [
        {
            "name": "tappfl",
            "game": {
                "kind": "tappfl",
                "attribute": "sex",
                "networks": "light",
                "privacy_steps": 3,
                "local_epochs": 2,
                "batch_size": 50,
                "optimiser": {"kind": "adam", "learning_rate": 0.003},
            },
            "strengths": [0.5],
        },
        {
            "name": "transport",
            "game": "undefended",
            "shield": {"kind": "transport", "attribute": "sex", "codes": 50},
        },
    ],
    "drop_columns": [8],
    "heads": ["mlp", "boosting"],
    "attacks": {"panel": ["logistic", "boosting", "mlp-small"], "draws": 200, "decensoring": True, "fresh": True},
}
STOPPED = {
    "name": "unchanged-stopped",
    "data": {"source": "synthetic", "target": "y", "sensitive": ["u"], "options": {"n": 600}},
    "federation": {"devices": 5, "rounds": 400},
    "methods": [{"name": "adversarial", "game": {"kind": "adversarial", "attribute": "u"}, "strengths": [1]}],
    "drop_columns": [1],
    "attacks": {"panel": ["logistic"], "draws": 100},
    "checkpoint_seconds": 0,
}
ZOO = {
    "name": "unchanged-zoo",
    "data": {
        "source": "synthetic",
        "target": "y",
        "sensitive": ["u"],
        "options": {"n": 3000, "bits": 0.9, "overlap": 0.9, "validation": 0.4, "test": 0.1},
    },
    "federation": {"devices": 30, "rounds": 3, "partition": {"kind": "dirichlet", "alpha": 0.1, "by": "u"}},
    "methods": [{"name": "plain", "game": {"kind": "fedavg", "hidden": [8], "batch_size": 10}}],
}
WIDE = [1e-12, 10.0]
EXPERIMENTS: dict[str, dict[str, Any]] = {
    "recup/single-attribute": {
        "kind": "update-curves",
        "cases": [
            {
                "name": "Adult sex",
                "source": "adult",
                "attributes": ["sex"],
                "rounds": [1],
                "length": 10,
                "people": {"train": 600, "validation": 300, "test": 600},
            }
        ],
        "methods": [
            {
                "name": "DP-Gaussian",
                "shield": {"kind": "dp-gaussian", "clip": None},
                "setting": "sigma",
                "norms": [0.3],
                "span": WIDE,
            },
            {
                "name": "RecUP as printed",
                "shield": {"kind": "recup"},
                "setting": "epsilon",
                "norms": [0.3],
                "span": WIDE,
                "zoo": {"members": 2, "widths": [128, 160]},
            },
            {"name": "unread", "shield": {"kind": "unread"}, "setting": "relative", "values": [0.3]},
            {"name": "mingle", "shield": {"kind": "mingle", "attribute": "sex"}, "setting": "budget", "values": [0.1]},
        ],
        "static": [["max", "stru-nn"]],
        "adaptive": [["max", "forest"], ["recovered", "forest"]],
        "draws": 100,
    },
    "curious/adult": {
        "kind": "curious-tables",
        "data": {"source": "adult", "sensitive": ["sex", "race"], "options": {"tasks": False}},
        "epochs": 1,
        "runs": 1,
        "draws": 100,
        "settings": {"Std": {"beta_y": 1.0, "beta_s": 0.0}, "RawHBC (.7, .3)": {"beta_y": 0.7, "beta_s": 0.3}},
        "blocks": [
            {"name": "income and sex", "target": "income", "secrets": ["sex"], "settings": ["Std", "RawHBC (.7, .3)"]}
        ],
    },
    "attri-fed/figure2": {
        "kind": "attri-fed",
        "data": {"source": "coloured_digits", "target": "digit", "attribute": "colour", "test": 1000},
        "participants": [2],
        "samples": 300,
        "game": {
            "width": 3,
            "reach": 2,
            "prior": "joint",
            "rounding": 1.0,
            "encoders": "shared",
            "rate_per_input": False,
            "lam": 0.0,
            "beta": 0.3,
            "gamma": 0.3,
            "initial_rounds": 3,
            "private_rounds": 3,
            "federated_rounds": 2,
            "steps": 3,
            "growth": 3.0,
            "start": 0.02,
            "privatiser_steps": 2,
            "optimiser": {"kind": "adam", "learning_rate": 0.003},
        },
        "methods": [{"name": "eeo", "game": {"variant": "eeo"}}],
    },
}


def fedveil(*arguments: object, folder: Path) -> str:
    """Run one command to its end and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "fedveil", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    if done.returncode:
        sys.exit(f"fedveil {' '.join(map(str, arguments))}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every figure of a JSON value with its path, except times and paths."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not any(word in str(key).lower() for word in VOLATILE):
                yield from flat(item, f"{path}/{key}")
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from flat(item, f"{path}/{number}")
    else:
        yield path, value


def figures_of_study(folder: Path) -> dict[str, Any]:
    """Return what a study's directory holds: every figure of its results, and digests of its arrays."""
    figures: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.name == "result.json":
            figures |= {f"{name}{key}": value for key, value in flat(json.loads(path.read_text()))}
        elif path.suffix == ".safetensors" and not name.startswith("flower"):
            figures[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif path.name == "metrics.jsonl":
            for number, line in enumerate(path.read_text().splitlines()):
                figures |= {f"{name}:{number}{key}": value for key, value in flat(json.loads(line))}
    results = json.loads((folder / "results.json").read_text())
    figures |= {f"results.json{key}": value for key, value in flat(results.get("rows", results.get("cells")))}
    return figures


def study(values: dict[str, Any] | Path, name: str) -> Callable[[Path], dict[str, Any]]:
    """Return a function that runs a study into a folder and returns its figures."""

    def measure(folder: Path) -> dict[str, Any]:
        path = values if isinstance(values, Path) else folder / f"{name}.yaml"
        if not isinstance(values, Path):
            path.write_text(json.dumps(values))
        fedveil("run", path, "--out", folder / name, folder=folder)
        return figures_of_study(folder / name)

    return measure


def demo(folder: Path) -> dict[str, Any]:
    """Run the demo."""
    fedveil("demo", "--out", folder / "demo", folder=folder)
    return figures_of_study(folder / "demo")


def zoo(folder: Path) -> dict[str, Any]:
    """Build a zoo."""
    path = folder / "zoo.yaml"
    path.write_text(json.dumps(ZOO))
    out = folder / "u.safetensors"
    words = ["zoo", "build", path, "--attribute", "u", "--rounds", "1,3", "--members", "2", "--widths", "16-32"]
    output = fedveil(*words, "--shadows", "60", "--out", out, "--json", folder=folder)
    return {**dict(flat(json.loads(output))), "weights": weights_of(out)}


def weights_of(file: Path) -> str:
    """Return a digest of a safetensors file's tensors."""
    from safetensors.numpy import load_file

    digest = hashlib.sha256()
    for name, array in sorted(load_file(file).items()):
        digest.update(name.encode() + array.tobytes())
    return digest.hexdigest()


def ledger(folder: Path) -> dict[str, Any]:
    """Write a ledger, and let the command read it."""
    from fedveil.flower.ledger import Ledger, Totals
    from fedveil.flower.spending import Cost

    kept = Ledger(folder / "ledger.jsonl")
    for path in (kept.path, kept.head):
        path.unlink(missing_ok=True)
    with kept.claimed():
        state = kept.read()
        kept.begin(state)
        for number in range(1, 4):
            state = kept.append(
                state,
                run=7,
                message=f"message-{number}",
                kind="update",
                shield="dp-gaussian",
                costs=[Cost("gaussian", 0.5)],
                told=["num-examples"],
                totals=Totals(updates=number, figures=0, epsilon=0.5 * number, delta=1e-5),
                policy="f" * 64,
            )
    return read_ledger(folder)


def read_ledger(folder: Path) -> dict[str, Any]:
    """Return what the command says about a ledger, without the last entry's digest, which depends on the time."""
    shown = json.loads(fedveil("ledger", folder / "ledger.jsonl", "--json", folder=folder))
    return {key: value for key, value in flat(shown) if key != "/last"}


def audit(folder: Path) -> dict[str, Any]:
    """Audit made-up outputs whose scores carry s."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    s, y = rng.integers(0, 2, (2, 2000))
    predicted = np.where(rng.random(2000) < 0.1, 1 - y, y)
    certain = np.where(np.where(rng.random(2000) < 0.2, 1 - s, s), 0.95, 0.7)
    p0 = np.where(predicted == 0, certain, 1 - certain)
    table = pd.DataFrame({"p0": p0, "p1": 1 - p0, "y": y, "s": np.where(s, "m", "f")})
    table.to_csv(folder / "outputs.csv", index=False)
    words = ["audit", folder / "outputs.csv", "--scores", "p0,p1", "--target", "y", "--sensitive", "s"]
    output = fedveil(*words, "--out", folder / "audit.html", "--json", folder=folder)
    return dict(flat(json.loads(output)))


def experiment(name: str) -> Callable[[Path], dict[str, Any]]:
    """Return a function that measures a small form of a preset's experiment in this process."""

    def measure(folder: Path) -> dict[str, Any]:
        from fedveil_papers.kinds import make_experiment

        make_experiment(EXPERIMENTS[name], name).run(folder / name.replace("/", "-"))
        parts = sorted((folder / name.replace("/", "-") / "parts").glob("*.json"))
        listed = [dict(flat(json.loads(part.read_text())["figures"])) for part in parts]
        listed.sort(key=lambda part: json.dumps(part, sort_keys=True))
        return {f"{number}{key}": value for number, part in enumerate(listed) for key, value in part.items()}

    return measure


def stopped(folder: Path) -> dict[str, Any]:
    """Stop a study once it has a checkpoint; keep its directory, and return the figures of a copy run to its end."""
    path = folder / "stopped.yaml"
    path.write_text(json.dumps(STOPPED))
    begun = subprocess.Popen(
        [sys.executable, "-m", "fedveil", "run", str(path), "--out", str(folder / "stopped")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    while begun.poll() is None and not list((folder / "stopped").glob("cells/*/checkpoint")):
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(begun.pid, signal.SIGKILL)
    begun.wait()
    if not list((folder / "stopped").glob("cells/*/checkpoint")):
        sys.exit("the study ended before it could be stopped; give it more rounds")
    return continued(folder)


def continued(folder: Path) -> dict[str, Any]:
    """Continue a copy of the stopped study and return its figures."""
    with tempfile.TemporaryDirectory() as temporary:
        shutil.copytree(folder / "stopped", Path(temporary) / "stopped")
        fedveil("run", folder / "stopped.yaml", "--out", Path(temporary) / "stopped", folder=folder)
        return figures_of_study(Path(temporary) / "stopped")


MEASURES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "smoke": study(HERE / "smoke.yaml", "smoke"),
    "demo": demo,
    "tappfl/table2": study(TABLE2, "table2"),
    **{name: experiment(name) for name in EXPERIMENTS},
    "zoo": zoo,
    "ledger": ledger,
    "audit": audit,
    "stopped": stopped,
}
OPENED: dict[str, Callable[[Path], dict[str, Any]]] = {"ledger": read_ledger, "stopped": continued}
"""What older code wrote, read by this code; finished run directories are opened by `report`."""


def main() -> None:
    """Record, or compare."""
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in ("record", "compare"):
        sys.exit(__doc__)
    # Libraries read the number of threads when they are first imported, which happens while measuring.
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    before = Path(sys.argv[2]).resolve()
    wanted = sys.argv[3].split(",") if len(sys.argv) == 4 else list(MEASURES)
    if sys.argv[1] == "record":
        before.mkdir(parents=True, exist_ok=True)
        for name in wanted:
            figures = timed(name, MEASURES[name], before)
            (before / f"figures-{name.replace('/', '-')}.json").write_text(json.dumps(figures, indent=0, default=str))
        return
    differing = 0
    for name in wanted:
        expected = json.loads((before / f"figures-{name.replace('/', '-')}.json").read_text())
        with tempfile.TemporaryDirectory() as temporary:
            differing += compared(name, expected, timed(name, MEASURES[name], Path(temporary)))
        if name in OPENED:
            differing += compared(f"{name}, as older code wrote it", expected, OPENED[name](before))
    for name in ("smoke", "demo", "table2"):
        if (before / name / "results.json").exists():
            fedveil("report", before / name, "--out", before / f"{name}-by-this-code.html", folder=before)
            print(f"{name}: the older run directory is opened")
    sys.exit(1 if differing else 0)


def timed(name: str, measure: Callable[[Path], dict[str, Any]], folder: Path) -> dict[str, Any]:
    """Measure, and print how long it took."""
    started = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        figures = measure(folder)
    print(f"{name}: {len(figures)} figures, {time.perf_counter() - started:.0f} s", flush=True)
    return json.loads(json.dumps(figures, default=str))


def compared(name: str, before: dict[str, Any], after: dict[str, Any]) -> int:
    """Print what differs and return how many figures do; sentences in other words are listed, and do not count."""
    differing = [key for key in {**before, **after} if before.get(key, "absent") != after.get(key, "absent")]
    reworded = [key for key in differing if _is_sentence(before.get(key)) and _is_sentence(after.get(key))]
    figures = [key for key in differing if key not in reworded]
    for key in [*figures, *reworded][:20]:
        print(f"  {name}: {key}: {before.get(key, 'absent')!r} before, {after.get(key, 'absent')!r} now")
    same = "the same" if not figures else f"{len(figures)} of {len(before)} figures differ"
    print(f"{name}: {same}" + (f"; {len(reworded)} sentences are in other words" if reworded else ""), flush=True)
    return len(figures)


def _is_sentence(value: object) -> bool:
    """Return whether a value is a text of several words, such as an assumption of a certificate."""
    return isinstance(value, str) and value.count(" ") >= 3


if __name__ == "__main__":
    main()
