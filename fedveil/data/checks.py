"""What every data set must satisfy before anything is trained or attacked on it."""

from __future__ import annotations

import numpy as np

from fedveil.core.errors import InputError
from fedveil.data.attribute import Attribute
from fedveil.data.attribute_data import AttributeData, Split


def checked(data: AttributeData) -> AttributeData:
    """Return the data, or say what is wrong with it.

    Refused: an attribute (or target) with a single value, for there is nothing to infer; an attribute that
    equals the target under other names, for hiding one would be losing the other; a split without records
    of some value, for nothing can be learned or measured of it there.
    """
    labels = [("attribute", attribute) for attribute in data.attributes.values()]
    if data.y is not None:
        labels.append(("target", data.y))
    labels += [("task", label) for label in data.tasks.values()]
    for split in (Split.TRAIN, Split.TEST):
        if not len(data.rows(split)):
            raise InputError(f"{data.name}: there are no {split.name.lower()} records; change the split")
    for kind, label in labels:
        _refuse_single_value(kind, label, data.name)
        _refuse_missing_class(kind, label, data)
        if kind == "attribute" and data.y is not None:
            _refuse_equal(label, data.y, data.name)
    return data


def _refuse_single_value(kind: str, label: Attribute, where: str) -> None:
    seen = [value for value, count in zip(label.values, label.counts, strict=True) if count]
    if len(seen) < 2:
        what = f"only the value {seen[0]!r}" if seen else "no value at all"
        raise InputError(f"{where}: {kind} {label.name!r} has {what}; at least two are needed")


def _refuse_missing_class(kind: str, label: Attribute, data: AttributeData) -> None:
    for split in Split:
        rows = data.rows(split)
        if not len(rows):
            continue
        counts = label.take(rows).counts
        if (counts == 0).any():
            absent = int(np.argmin(counts))
            raise InputError(
                f"{data.name}: {kind} {label.name!r} has no record of value {label.values[absent]!r} in the "
                f"{split.name.lower()} split ({label.counts[absent]} in all); merge or leave out rare values, "
                "or split otherwise"
            )


def _refuse_equal(attribute: Attribute, target: Attribute, where: str) -> None:
    known = attribute.known & target.known
    if not known.any():
        return
    pairs = len(np.unique(attribute.codes[known] * len(target.values) + target.codes[known]))
    if pairs == len(np.unique(attribute.codes[known])) == len(np.unique(target.codes[known])):
        raise InputError(
            f"{where}: attribute {attribute.name!r} and target {target.name!r} determine each other in every record; "
            "choose another target"
        )
