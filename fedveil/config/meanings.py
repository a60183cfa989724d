"""What parts and their settings mean, in a line each: read off docstrings."""

from __future__ import annotations

import inspect
import re

# What settings mean whose class has no `Attributes:` that say so.
COMMON = {
    "attribute": "the sensitive attribute to hide",
    "strength": "how much hiding counts against the task; what strengths vary unless `varies` says otherwise",
    "hidden": "sizes of the hidden layers",
    "width": "how many numbers the representation has",
    "adversary_hidden": "sizes of the adversary's hidden layers",
    "adversary_steps": "steps of the adversary for each step of the others",
    "share_adversary": "whether the server averages the adversary, too, or each device keeps its own",
    "optimiser": "how players descend their losses",
    "local_epochs": "passes over its records that a device makes in a round",
    "batch_size": "records in a step",
    "patience": "stop after so many rounds without a better one; null: never early",
    "devices": "how many; the federation's number if unsaid",
    "per_device": "how many shards each device gets",
    "by": "what records are sorted by: label, a sensitive attribute, or null for not at all",
    "sigma": "the noise's deviation σ",
    "radius": "the norm R to which a representation is clipped",
    "columns": "how many to leave out, the most telling first",
    "trim": "how many values to leave out at either end of each coordinate",
    "hostile": "how many hostile devices to expect",
    "keep": "of how many of the best updates to take the mean",
    "learning_rate": "the step's length",
    "momentum": "how much of the last step goes into the next",
    "weight_decay": "how strongly weights are drawn to 0",
    "beta1": "how slowly the mean of gradients forgets",
    "beta2": "how slowly the mean of squared gradients forgets",
    "epsilon": "added to the divisor, against division by 0",
}


def summary(kind: type) -> str:
    """Return the first line of a class's docstring."""
    return (inspect.getdoc(kind) or "").partition("\n")[0]


def meanings(kind: type) -> dict[str, str]:
    """Return what each setting means: as the docstring's `Attributes:` say, or as all parts mean it."""
    section = re.search(r"^Attributes:\n((?:    .*\n?|\n)+)", inspect.getdoc(kind) or "", re.MULTILINE)
    entries = re.findall(r"^    (\w[\w, ]*): (.*(?:\n        .*)*)", section[1], re.MULTILINE) if section else []
    told = {name: " ".join(text.split()).rstrip(".") for several, text in entries for name in several.split(", ")}
    return COMMON | told
