"""Reading the many small files of a data set, such as pictures, from an unpacked folder or the published archive.

A *container* below is either of the two: the folder, or a zip or tar archive. Nothing is unpacked to the disk.
"""

from __future__ import annotations

import io
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedveil.core.errors import InputError

Box = tuple[int, int, int, int]
"""Left, upper, right and lower edge of a part of a picture, in pixels."""


def choose_container(folder: Path, unpacked: str, archives: Sequence[str]) -> Path:
    """Return the unpacked folder inside `folder` if it exists, or else the first of the archives that does."""
    if (folder / unpacked).is_dir():
        return folder / unpacked
    for name in archives:
        if (folder / name).is_file():
            return folder / name
    raise InputError(f"{folder}: lacks {' and '.join([f'{unpacked}/', *archives])}; put one of them there")


def list_members(container: Path, root: str, ending: str) -> list[str]:
    """Return the sorted paths, relative to the folder `root`, of all files with this ending."""
    if container.is_dir():
        return sorted(path.relative_to(container).as_posix() for path in container.rglob(f"*{ending}"))
    with _archive_faults(container):
        paths = (_below(root, name) for name in _archive_names(container))
        return sorted(path for path in paths if path.endswith(ending))


def read_members(container: Path, root: str, names: Sequence[str]) -> Iterator[tuple[int, bytes]]:
    """Yield (index in `names`, content) of each named file, in the order in which the container is read fastest.

    Args:
        container: an unpacked folder, a zip or a tar archive.
        root: the folder inside the archive that names are relative to.
        names: the files to read; one that is absent is an error.
    """
    if container.is_dir():
        for index, name in enumerate(names):
            try:
                yield index, (container / name).read_bytes()
            except OSError as fault:
                raise InputError(f"{container / name}: cannot be read ({fault.strerror or fault})") from fault
        return
    index_of = {name: index for index, name in enumerate(names)}
    with _archive_faults(container):
        for name, content in _archived(container, root, index_of):
            yield index_of.pop(name), content
    if index_of:
        raise InputError(f"{container}: lacks {next(iter(index_of))} ({len(index_of)} files in total); fetch it again")


def read_pictures(
    container: Path, root: str, names: Sequence[str], box: Box | None, shape: tuple[int, int], *, centred: bool = False
) -> npt.NDArray[np.float32]:
    """Read pictures as (n, 3, height, width), each cut to a box and resized.

    Args:
        container: as in `read_members`.
        root: as in `read_members`.
        names: the pictures' files.
        box: the part to cut out; None for the largest square in the middle.
        shape: height and width.
        centred: pixels in [−1, 1]; else in [0, 1].
    """
    pixels = np.empty((len(names), 3, *shape), dtype=np.float32)
    for index, content in read_members(container, root, names):
        pixels[index] = picture(content, f"{container}/{names[index]}", box, shape)
    if centred:  # in place: all pictures of a data set take gigabytes
        pixels *= 2
        pixels -= 1
    return pixels


def picture(content: bytes, where: str, box: Box | None, shape: tuple[int, int]) -> npt.NDArray[np.float32]:
    """Return one picture as (3, height, width) in [0, 1]."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as fault:
        raise InputError(f"{where}: pictures need Pillow; install it: pip install 'fedveil[data]'") from fault
    try:
        with Image.open(io.BytesIO(content)) as opened:
            if box is None:
                left, upper = ((side - min(opened.size)) // 2 for side in opened.size)
                box = (left, upper, left + min(opened.size), upper + min(opened.size))
            if box[2] > opened.width or box[3] > opened.height:
                raise ValueError(f"{opened.width} × {opened.height} pixels, at least {box[2]} × {box[3]} are needed")
            resized = opened.convert("RGB").crop(box).resize((shape[1], shape[0]), Image.Resampling.BILINEAR)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as fault:
        why = "unknown format" if isinstance(fault, UnidentifiedImageError) else fault
        raise InputError(f"{where}: cannot be read as a picture ({why}); fetch it again") from fault
    return np.asarray(resized, dtype=np.float32).transpose(2, 0, 1) / np.float32(255)


@contextmanager
def reading_as(path: Path, what: str) -> Iterator[None]:
    """Turn a fault in reading a list of labels into one line: which file, what it should be, and what is wrong."""
    try:
        yield
    except (OSError, ValueError, StopIteration) as fault:
        why = str(fault).replace("\n", " ").strip() or "it ends after its first lines"
        raise InputError(f"{path}: cannot be read as {what} ({why}); fetch it again") from fault


def _archive_names(archive: Path) -> list[str]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            return zipped.namelist()
    with tarfile.open(archive) as packed:
        return packed.getnames()


def _archived(archive: Path, root: str, names: dict[str, int]) -> Iterator[tuple[str, bytes]]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for name in zipped.namelist():
                if _below(root, name) in names:
                    yield _below(root, name), zipped.read(name)
        return
    with tarfile.open(archive) as packed:
        for entry in packed:
            content = packed.extractfile(entry) if _below(root, entry.name) in names else None
            if content is not None:
                yield _below(root, entry.name), content.read()


def _below(root: str, name: str) -> str:
    """Return the path of an archive's member relative to the root; empty if it lies elsewhere.

    >>> _below("data", "AudioMNIST-master/data/01/0_01_0.wav")
    '01/0_01_0.wav'
    """
    return f"/{name}".partition(f"/{root}/")[2]


@contextmanager
def _archive_faults(archive: Path) -> Iterator[None]:
    """Turn a fault in reading an archive into a one-line `InputError`."""
    try:
        yield
    except (OSError, EOFError, KeyError, RuntimeError, zlib.error, tarfile.TarError, zipfile.BadZipFile) as fault:
        raise InputError(f"{archive}: is not a complete archive ({fault}); fetch it again") from fault
