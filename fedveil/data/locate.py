"""Where a data set's files are: in the user's folder, in our cache, in an installed package, or on the network."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from fedveil.core.errors import InputError
from fedveil.data.source import PublishedFile, Source

_TIMEOUT = 30.0
"""Seconds without an answer after which a download is abandoned."""


@dataclass(frozen=True)
class Found:
    """A data set's files: where they were found ("folder", "cache" or "package"), and their paths by name."""

    where: str
    files: Mapping[str, Path]

    @property
    def folder(self) -> Path:
        """The folder of the first file."""
        return next(iter(self.files.values())).parent


def find(source: Source) -> Found | None:
    """Look for all of a source's files on this machine: FEDVEIL_DATA first, then our cache, then packages."""
    return _in_folder(source) or _in_cache(source) or _in_package(source)


def locate(source: Source) -> Found:
    """Find a source's files, or download them."""
    return find(source) or download(source)


def fetch(source: Source) -> Found:
    """Return the files of the whole data set, downloaded if a package has only a partial copy."""
    located = find(source)
    partial = located and located.where == "package" and not (source.packaged and source.packaged.complete)
    return download(source) if located is None or partial else located


def download(source: Source) -> Found:
    """Download a source's files into our cache; each is checked against its hash, if one is published."""
    return Found("cache", {file.name: _download(source, file) for file in source.files})


def cache_folder() -> Path:
    """Return the folder of downloads: FEDVEIL_CACHE, or the operating system's folder for caches."""
    chosen = os.environ.get("FEDVEIL_CACHE")
    if chosen:
        return Path(chosen)
    import pooch

    return Path(pooch.os_cache("fedveil"))


def _in_folder(source: Source) -> Found | None:
    chosen = os.environ.get("FEDVEIL_DATA")
    if not chosen:
        return None
    if not Path(chosen).is_dir():
        raise InputError(f"FEDVEIL_DATA names {chosen}, which is not a folder; correct or unset it")
    folder = Path(chosen) / source.folder
    missing: list[str] = []
    for names in ([file.name for file in source.files], source.unpacked):
        paths = {name: _matched(folder, name) for name in names}
        absent = [name for name, path in paths.items() if not path.is_file()]
        if names and not absent:
            return Found("folder", paths)
        # A folder in which nothing matches a pattern is incomplete as well.
        incomplete = len(absent) < len(names) or (folder.is_dir() and any("*" in name for name in names))
        missing += absent if incomplete else []
    if missing:  # better to refuse than to read the data silently from elsewhere
        raise InputError(f"{folder}: lacks {', '.join(missing)}; complete the folder or remove it")
    return None


def _matched(folder: Path, name: str) -> Path:
    """Return the path of a file, or the first match of a pattern: the least deeply nested, then the first by name."""
    matches = folder.glob(name) if "*" in name else ()
    return min(matches, key=lambda path: (len(path.parts), path), default=folder / name)


def _in_cache(source: Source) -> Found | None:
    paths = {file.name: cache_folder() / source.folder / file.name for file in source.files}
    return Found("cache", paths) if paths and all(path.is_file() for path in paths.values()) else None


def _in_package(source: Source) -> Found | None:
    if source.packaged is None:
        return None
    try:
        listed = metadata.distribution(source.packaged.distribution).files or []
    except metadata.PackageNotFoundError:
        return None
    paths_inside = {str(file).replace("\\", "/"): Path(str(file.locate())) for file in listed}
    paths = {name: paths_inside.get(inside) for name, inside in source.packaged.files.items()}
    present = {name: path for name, path in paths.items() if path is not None and path.is_file()}
    return Found("package", present) if len(present) == len(paths) else None


def _download(source: Source, file: PublishedFile) -> Path:
    import pooch
    import requests

    folder = cache_folder() / source.folder
    by_hand = f"put {file.name} into FEDVEIL_DATA/{source.folder} by hand"
    pooch.get_logger().setLevel("WARNING")
    fetcher = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=_TIMEOUT)
    try:
        path = pooch.retrieve(file.url, known_hash=file.hash or None, fname=file.name, path=folder, downloader=fetcher)
    except requests.exceptions.RequestException as fault:
        answer = getattr(fault, "response", None)
        why = f"answered {answer.status_code}" if answer is not None else "cannot be reached"
        raise InputError(f"{source.name}: {file.url} {why}; check the network, or {by_hand}") from fault
    except ValueError as fault:  # pooch's error for a wrong hash; it has deleted the file
        raise InputError(
            f"{source.name}: {file.url} does not have the published {file.hash.partition(':')[0]} hash (the download "
            f"is broken or was changed, and was deleted); try again, or {by_hand}"
        ) from fault
    except OSError as fault:
        raise InputError(
            f"{source.name}: cannot write to {folder} ({fault.strerror or fault}); set FEDVEIL_CACHE to another folder"
        ) from fault
    return Path(path)
