"""A file is always the complete old one or the complete new one, whatever happens in between."""

import os

import pytest

from fedveil.core.files import write_atomically


@pytest.mark.parametrize("content", ["naïve →", b"\x00\xff", "", b""])
def test_text_and_bytes_are_written_whole(tmp_path, content):
    path = tmp_path / "file"
    for _ in range(2):  # to a new path, and over an existing file
        write_atomically(path, content)
        assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("where", ["fsync", "replace"])
@pytest.mark.parametrize("fault", [OSError("disk full"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, where, fault):
    path = tmp_path / "file"
    write_atomically(path, "old")

    def fail(*_):
        raise fault

    monkeypatch.setattr(os, where, fail)
    with pytest.raises(type(fault)):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_an_oserror(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        write_atomically(tmp_path / "nowhere" / "file", "x")


@pytest.mark.skipif(os.name != "posix", reason="files are limited in size by setrlimit")
def test_a_real_write_that_fails_half_way_leaves_the_old_file(tmp_path):
    import resource

    path = tmp_path / "file"
    write_atomically(path, "old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            write_atomically(path, 20_000 * b"x")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_content_is_flushed_before_the_rename_and_the_name_after_it(tmp_path, monkeypatch):
    done = []
    real_sync, real_replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: done.append("sync") or real_sync(handle))
    monkeypatch.setattr(os, "replace", lambda *paths: done.append("rename") or real_replace(*paths))
    write_atomically(tmp_path / "file", "x")
    assert done == ["sync", "rename", "sync"]
