"""Pictures side by side: as PNG in JSON, and as a self-contained page."""

from __future__ import annotations

import base64
import html
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
STYLE = """
.grid { border-collapse: separate; border-spacing: .5rem .9rem; width: auto; }
.grid th, .grid td { border: 0; padding: 0; text-align: center; vertical-align: top; font-size: .8rem; }
.grid thead th { vertical-align: bottom; max-width: 8rem; }
.grid img { display: block; width: 6rem; height: auto; image-rendering: pixelated; margin: 0 auto .25rem; }
.grid .number { display: block; white-space: nowrap; }
"""


@dataclass(frozen=True)
class ShownPicture:
    """A picture as PNG in base64, and the lines below it."""

    png: str
    lines: Sequence[str]


@dataclass(frozen=True)
class Column:
    """What is shown of each victim under one defence; None if nothing was sent."""

    title: str
    pictures: Sequence[ShownPicture | None]


@dataclass(frozen=True)
class Grid:
    """Pictures in rows of victims: the original, as PNG in base64, and a column for each defence."""

    title: str
    originals: Sequence[str]
    columns: Sequence[Column]
    caption: str


def to_pixels(image: npt.NDArray[np.floating[Any]], box: tuple[float, float] = (0.0, 1.0)) -> Pixels:
    """Return (channels, height, width) numbers as (height, width, 3) bytes; one channel is grey."""
    low, high = box
    scaled = np.clip((np.asarray(image, dtype=np.float64) - low) / (high - low), 0, 1)
    colours = np.repeat(scaled, 3, axis=0) if len(scaled) == 1 else scaled[:3]
    return np.rint(255 * colours.transpose(1, 2, 0)).astype(np.uint8)


def to_png(pixels: Pixels) -> str:
    """Return a PNG in base64.

    >>> to_png(np.zeros((1, 1, 3), np.uint8))[:8]
    'iVBORw0K'
    """
    height, width, _ = pixels.shape
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)  # 0: each line as it is
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines, 9)),
        (b"IEND", b""),
    ]
    chunks = [
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in parts
    ]
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(chunks)).decode()


def from_png(text: str) -> Pixels:
    """Return the pixels of a picture that `to_png` made.

    >>> from_png(to_png(np.arange(12, dtype=np.uint8).reshape(2, 2, 3)))[1, 0].tolist()
    [6, 7, 8]
    """
    data = base64.b64decode(text)
    width, height = struct.unpack(">II", data[16:24])
    length = struct.unpack(">I", data[33:37])[0]
    lines = np.frombuffer(zlib.decompress(data[41 : 41 + length]), np.uint8).reshape(height, 1 + 3 * width)
    return lines[:, 1:].reshape(height, width, 3)


def page(title: str, lead: Sequence[str], grids: Sequence[Grid]) -> str:
    """Return a page with a table of pictures for each grid."""
    from fedveil import __version__

    style = files("fedveil.report").joinpath("style.css").read_text(encoding="utf-8").replace("\r\n", "\n")
    words = "".join(f'<p class="lead">{html.escape(line)}</p>' for line in lead)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f'<meta name="generator" content="fedveil {html.escape(__version__)}">\n'
        f"<title>{html.escape(title)}</title>\n<style>{style}{STYLE}</style>\n</head>\n<body>\n"
        '<header class="masthead"><p class="kicker">fedveil · reconstruction from updates</p>'
        f"<h1>{html.escape(title)}</h1>{words}</header>\n<main>\n{''.join(map(_section, grids))}</main>\n"
        "</body>\n</html>\n"
    )


def _section(grid: Grid) -> str:
    name = html.escape(grid.title)
    heads = "".join(f'<th scope="col">{html.escape(column.title)}</th>' for column in grid.columns)
    lines = []
    for row, original in enumerate(grid.originals):
        victim = f"{grid.title}, victim {row + 1}"
        cells = [_cell(original, f"{victim}: the original picture", ())]
        for column in grid.columns:
            picture = column.pictures[row]
            if picture is None:
                cells.append("<td>nothing was sent</td>")
                continue
            alt = f"{victim}: reconstruction, {column.title}; {', '.join(picture.lines)}"
            cells.append(_cell(picture.png, alt, picture.lines))
        lines.append(f'<tr><th scope="row">victim {row + 1}</th>{"".join(cells)}</tr>')
    return (
        f'<section><h2>{name}</h2><figure><div class="scroll" role="region" aria-label="{name}" tabindex="0">'
        f'<table class="grid"><caption class="hidden">{name}: originals and reconstructions</caption>'
        f'<thead><tr><td></td><th scope="col">original</th>{heads}</tr></thead><tbody>{"".join(lines)}</tbody></table>'
        f"</div><figcaption>{html.escape(grid.caption)}</figcaption></figure></section>\n"
    )


def _cell(png: str, alt: str, lines: Sequence[str]) -> str:
    under = "".join(f'<span class="number">{html.escape(line)}</span>' for line in lines)
    return f'<td><img src="data:image/png;base64,{png}" alt="{html.escape(alt)}">{under}</td>'
