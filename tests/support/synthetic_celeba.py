"""Synthetic faces in CelebA's published layout."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

NAMES = ["5_o_Clock_Shadow", "Black_Hair", "Blond_Hair", "Brown_Hair", "Male", "Smiling", "Young"]
NAMES += ["Mouth_Slightly_Open", "Heavy_Makeup", "Wavy_Hair", "Attractive"]
FACES = 120


def label(face: int) -> dict[str, int]:
    """Return a face's attributes, 1 or -1 each."""
    values = dict.fromkeys(NAMES, -1)
    values["Male"] = 1 if face % 2 else -1
    values["Young"] = 1 if face % 4 < 2 else -1
    values["Smiling"] = 1 if face % 8 < 4 else -1
    for number, name in enumerate(NAMES[7:]):  # no two alike, and none like another attribute
        values[name] = 1 if face % 7 < 2 + number else -1
    if face % 10:  # every tenth has none of the three colours
        values[NAMES[1 + face % 3]] = 1
    return values


def part(face: int) -> int:
    """Return a face's published split."""
    return 0 if face < 80 else 1 if face < 100 else 2


def flat(face: int) -> np.ndarray:
    """Return one colour, 178 × 178."""
    return np.broadcast_to(np.array((2 * face, 255 - 2 * face, 50), np.uint8), (178, 178, 3))


def ramps(face: int) -> np.ndarray:
    """Return colours that grow across and down, at a different rate for each face."""
    grown = np.linspace(0, 1, 178)
    waves = [0.5 + 0.5 * np.sin(3 * (grown[:, None] * (face % 3 + k) + grown[None] * (face % 5 - k))) for k in range(3)]
    return (255 * np.stack(waves, axis=2)).astype(np.uint8)


def write_labels(folder: Path, head: str = str(FACES)) -> None:
    """Write the list of attributes."""
    rows = [f"{face + 1:06d}.jpg " + " ".join(f"{value:2d}" for value in label(face).values()) for face in range(FACES)]
    (folder / "list_attr_celeba.txt").write_text("\n".join([head, " ".join(NAMES) + " ", *rows]) + "\n")


def write_celeba(folder: Path, paint: Callable[[int], np.ndarray] = flat) -> None:
    """Write pictures and lists."""
    (folder / "img_align_celeba").mkdir(parents=True)
    for face in range(FACES):
        drawn = np.zeros((218, 178, 3), dtype=np.uint8)
        drawn[20:198] = paint(face)  # the middle square; the rims above and below are black
        held = io.BytesIO()
        Image.fromarray(drawn).save(held, "PNG")
        (folder / "img_align_celeba" / f"{face + 1:06d}.jpg").write_bytes(held.getvalue())
    write_labels(folder)
    listed = "".join(f"{face + 1:06d}.jpg {part(face)}\n" for face in range(FACES))
    (folder / "list_eval_partition.txt").write_text(listed)
