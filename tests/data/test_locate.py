"""Finding and fetching files, with a real web server on this machine and the real downloader."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from fedveil.core.errors import InputError
from fedveil.data import AttributeData, PackagedCopy, PublishedFile, Source
from fedveil.data.locate import cache_folder, fetch, find, locate

CONTENT = b"some data\n" * 100


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Path]]:
    """Serve a folder; return its address and the folder."""
    folder = tmp_path / "web"
    folder.mkdir()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", folder
        server.shutdown()
        thread.join()


def source_at(address: str, packaged_copy: PackagedCopy | None = None, algorithm: str = "sha256") -> Source:
    class Some(Source):
        name = "some"
        description = "a source for tests"
        folder = "some"
        files = (
            PublishedFile("a.bin", address + "a.bin", f"{algorithm}:{hashlib.new(algorithm, CONTENT).hexdigest()}"),
        )
        packaged = packaged_copy

        def read(self, *args: Any, **kwargs: Any) -> AttributeData:
            raise NotImplementedError

    return Some()


@pytest.mark.parametrize("algorithm", ["sha256", "md5"])
def test_a_download_is_checked_and_kept(web, nowhere, algorithm):
    address, folder = web
    (folder / "a.bin").write_bytes(CONTENT)
    source = source_at(address, algorithm=algorithm)
    assert find(source) is None
    located = locate(source)
    assert located.where == "cache"
    assert located.files["a.bin"] == nowhere / "some" / "a.bin"
    assert located.files["a.bin"].read_bytes() == CONTENT
    (folder / "a.bin").unlink()
    assert locate(source).folder == nowhere / "some"  # from the cache: nothing is served any more


def test_a_file_without_a_published_hash_is_kept_as_it_comes(web, nowhere):
    address, folder = web
    (folder / "a.bin").write_bytes(b"whatever is served")

    class Unhashed(type(source_at(address))):  # type: ignore[misc]
        files = (PublishedFile("a.bin", address + "a.bin", ""),)

    located = locate(Unhashed())
    assert located.where == "cache"
    assert located.files["a.bin"].read_bytes() == b"whatever is served"


def test_a_corrupted_download_is_refused_and_not_kept(web, nowhere):
    address, folder = web
    (folder / "a.bin").write_bytes(CONTENT[:-1] + b"!")
    with pytest.raises(InputError, match=r"does not have the published sha256 hash .* FEDVEIL_DATA/some by hand"):
        locate(source_at(address))
    assert not any(path.is_file() for path in nowhere.rglob("*"))


def test_an_address_that_answers_404(web, nowhere):
    with pytest.raises(
        InputError, match=r"a\.bin answered 404; check the network, or put a\.bin into FEDVEIL_DATA/some"
    ):
        locate(source_at(web[0]))


def test_without_a_network_the_address_is_named(web, nowhere):
    with pytest.raises(InputError, match=r"http://127\.0\.0\.1:1/a\.bin cannot be reached"):
        locate(source_at("http://127.0.0.1:1/"))


def test_a_cache_that_cannot_be_written(web, nowhere):
    address, folder = web
    (folder / "a.bin").write_bytes(CONTENT)
    nowhere.write_text("a file where the folder should be")
    with pytest.raises(InputError, match="set FEDVEIL_CACHE to another folder"):
        locate(source_at(address))


def test_the_users_folder_comes_first(nowhere, tmp_path, monkeypatch):
    mine = tmp_path / "mine"
    (mine / "some").mkdir(parents=True)
    monkeypatch.setenv("FEDVEIL_DATA", str(mine))
    source = source_at("http://127.0.0.1:1/")
    assert find(source) is None
    (mine / "some" / "a.bin").write_bytes(b"my own, another version")
    located = locate(source)
    assert (located.where, located.folder) == ("folder", mine / "some")
    monkeypatch.setenv("FEDVEIL_DATA", str(tmp_path / "absent"))
    with pytest.raises(InputError, match=r"FEDVEIL_DATA names .*absent, which is not a folder"):
        find(source)


def test_a_folder_that_lacks_a_file_is_refused(nowhere, tmp_path, monkeypatch):
    from fedveil.data.sources.adult import Adult

    (tmp_path / "adult").mkdir()
    (tmp_path / "adult" / "adult.data").write_text("")
    monkeypatch.setenv("FEDVEIL_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"lacks adult\.test; complete the folder or remove it"):
        find(Adult())


def test_packages_are_read_without_import_and_a_part_does_not_satisfy_fetch(web, nowhere):
    address, folder = web
    (folder / "a.bin").write_bytes(CONTENT)
    inside = {"__init__.py": "pytest/__init__.py"}
    whole = source_at(address, PackagedCopy("pytest", inside))
    part = source_at(address, PackagedCopy("pytest", inside, complete=False))
    absent = source_at(address, PackagedCopy("no-such-distribution", inside))
    lacking = source_at(address, PackagedCopy("pytest", {"x": "pytest/no_such_file"}))
    assert locate(whole).where == locate(part).where == "package"
    assert find(absent) is find(lacking) is None
    assert fetch(whole).where == "package"
    assert fetch(part).where == "cache"
    assert locate(part).where == "cache"  # a complete copy, once present, is preferred to a part


def test_the_default_cache_is_a_folder_named_fedveil(monkeypatch):
    monkeypatch.delenv("FEDVEIL_CACHE", raising=False)
    assert cache_folder().name == "fedveil"
