"""The many small files of a data set, unpacked in a folder or inside the published archive, and pictures among them."""

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


def choose_place(folder: Path, unpacked: str, archives: Sequence[str]) -> Path:
    """Return the unpacked folder, or the first of the archives that is there."""
    if (folder / unpacked).is_dir():
        return folder / unpacked
    for name in archives:
        if (folder / name).is_file():
            return folder / name
    raise InputError(f"{folder}: lacks {' and '.join([f'{unpacked}/', *archives])}; put one of them there")


def list_members(place: Path, root: str, ending: str) -> list[str]:
    """Return the sorted paths, below the folder `root`, of a place's files that end so."""
    if place.is_dir():
        return sorted(path.relative_to(place).as_posix() for path in place.rglob(f"*{ending}"))
    with _archive_faults(place):
        inside = (_below(root, name) for name in _archive_names(place))
        return sorted(name for name in inside if name.endswith(ending))


def read_members(place: Path, root: str, names: Sequence[str]) -> Iterator[tuple[int, bytes]]:
    """Yield (index in `names`, content) of each named file, in the order that the place serves best.

    Args:
        place: an unpacked folder, a zip or a tar archive. Nothing is unpacked to the disk.
        root: the folder inside the archive that names are relative to.
        names: of the files; one that is absent is an error.
    """
    if place.is_dir():
        for index, name in enumerate(names):
            try:
                yield index, (place / name).read_bytes()
            except OSError as fault:
                raise InputError(f"{place / name}: cannot be read ({fault.strerror or fault})") from fault
        return
    awaited = {name: index for index, name in enumerate(names)}
    with _archive_faults(place):
        for name, content in _archived(place, root, awaited):
            yield awaited.pop(name), content
    if awaited:
        raise InputError(f"{place}: lacks {next(iter(awaited))} ({len(awaited)} files in all); fetch it again")


def read_pictures(
    place: Path, root: str, names: Sequence[str], box: Box | None, shape: tuple[int, int], *, centred: bool = False
) -> npt.NDArray[np.float32]:
    """Read pictures as (n, 3, height, width), each cut to a box and resized.

    Args:
        place: as in `read_members`.
        root: as in `read_members`.
        names: of the pictures.
        box: left, upper, right, lower; None for the largest square in the middle.
        shape: height and width.
        centred: pixels in [−1, 1]; else in [0, 1].
    """
    read = np.empty((len(names), 3, *shape), dtype=np.float32)
    for index, content in read_members(place, root, names):
        read[index] = picture(content, f"{place}/{names[index]}", box, shape)
    if centred:  # in place: all pictures of a data set take gigabytes
        read *= 2
        read -= 1
    return read


def picture(content: bytes, where: str, box: Box | None, shape: tuple[int, int]) -> npt.NDArray[np.float32]:
    """Return one picture as (3, height, width) in [0, 1]."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as fault:
        raise InputError(f"{where}: pictures need Pillow; install it: pip install '.[data]'") from fault
    try:
        with Image.open(io.BytesIO(content)) as opened:
            if box is None:
                left, upper = ((side - min(opened.size)) // 2 for side in opened.size)
                box = (left, upper, left + min(opened.size), upper + min(opened.size))
            if box[2] > opened.width or box[3] > opened.height:
                raise ValueError(f"{opened.width} × {opened.height} pixels, at least {box[2]} × {box[3]} are needed")
            small = opened.convert("RGB").crop(box).resize((shape[1], shape[0]), Image.Resampling.BILINEAR)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as fault:
        why = "unknown format" if isinstance(fault, UnidentifiedImageError) else fault
        raise InputError(f"{where}: cannot be read as a picture ({why}); fetch it again") from fault
    return np.asarray(small, dtype=np.float32).transpose(2, 0, 1) / np.float32(255)


def _archive_names(place: Path) -> list[str]:
    if zipfile.is_zipfile(place):
        with zipfile.ZipFile(place) as archive:
            return archive.namelist()
    with tarfile.open(place) as packed:
        return packed.getnames()


def _archived(place: Path, root: str, names: dict[str, int]) -> Iterator[tuple[str, bytes]]:
    if zipfile.is_zipfile(place):
        with zipfile.ZipFile(place) as archive:
            for name in archive.namelist():
                if _below(root, name) in names:
                    yield _below(root, name), archive.read(name)
        return
    with tarfile.open(place) as packed:
        for entry in packed:
            content = packed.extractfile(entry) if _below(root, entry.name) in names else None
            if content is not None:
                yield _below(root, entry.name), content.read()


def _below(root: str, name: str) -> str:
    """Return a member's path below the root, or nothing for one that lies elsewhere.

    >>> _below("data", "AudioMNIST-master/data/01/0_01_0.wav")
    '01/0_01_0.wav'
    """
    return f"/{name}".partition(f"/{root}/")[2]


class _archive_faults:  # noqa: N801 - used like a function
    """Tell in one line what is wrong with an archive."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, fault: BaseException | None, trace: object) -> None:
        faults = (OSError, EOFError, KeyError, RuntimeError, zlib.error, tarfile.TarError, zipfile.BadZipFile)
        if isinstance(fault, faults):
            raise InputError(f"{self.place}: is no whole archive ({fault}); fetch it again") from fault


@contextmanager
def told_as(path: Path, what: str) -> Iterator[None]:
    """Tell a list of labels that cannot be read in one line: which file, what it should be, what is wrong."""
    try:
        yield
    except (OSError, ValueError, StopIteration) as fault:
        why = str(fault).replace("\n", " ").strip() or "it ends after its head"
        raise InputError(f"{path}: cannot be read as {what} ({why}); fetch it again") from fault
