"""Writing a checkpoint: crashes, a full disk, the order in which files reach it, and nothing hashed twice."""

import hashlib
import os
from dataclasses import replace

import pytest
from saved_runs import federation, saved

from fedveil.federation import Run, begin
from fedveil.games import FedAvg


def test_a_crash_between_the_two_renames_loses_nothing(make_data, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    run = begin(federation(make_data()), FedAvg(hidden=(3,)))
    run.play(1).save(folder)
    run.play(2)
    real = os.replace

    def crash_at(which):
        calls = []

        def replacing(source, target):
            calls.append(source)
            if len(calls) == which:
                raise KeyboardInterrupt
            real(source, target)

        monkeypatch.setattr(os, "replace", replacing)

    def rounds_on_disk():
        monkeypatch.setattr(os, "replace", real)
        return len(Run.load(folder, federation(make_data()), FedAvg(hidden=(3,))).history)

    crash_at(2)
    with pytest.raises(KeyboardInterrupt):
        run.save(folder)
    assert not folder.exists()
    assert rounds_on_disk() == 1
    # Saving again must not delete the only good copy before the new one is complete.
    crash_at(2)
    with pytest.raises(KeyboardInterrupt):
        run.save(folder)
    assert rounds_on_disk() == 1
    run.save(folder)
    assert rounds_on_disk() == 2
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_crash_while_writing_keeps_the_old_one(make_data, tmp_path, monkeypatch):
    folder = saved(make_data, tmp_path / "run")
    run = Run.load(folder, federation(make_data()), FedAvg(hidden=(3,))).play(3)
    monkeypatch.setattr("fedveil.federation.checkpoint.save_file", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        run.save(folder)
    monkeypatch.undo()
    assert len(Run.load(folder, federation(make_data()), FedAvg(hidden=(3,))).history) == 2


@pytest.mark.skipif(os.name != "posix", reason="files are limited in size by setrlimit")
def test_a_full_disk_is_an_oserror_and_leaves_the_old_one_alone(make_data, tmp_path):
    import resource

    folder = tmp_path / "run"
    game = FedAvg(hidden=(400, 400))
    run = begin(federation(make_data()), game).play(1)
    run.save(folder)
    run.play(2)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(OSError, match="cannot be written") as fault:
            run.save(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "\n" not in str(fault.value)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert len(Run.load(folder, federation(make_data()), game).history) == 1
    run.save(folder)
    assert len(Run.load(folder, federation(make_data()), game).history) == 2


def test_everything_is_on_disk_before_the_old_checkpoint_is_removed(make_data, tmp_path, monkeypatch):
    folder = saved(make_data, tmp_path / "run")
    done = []
    real_sync, real_replace = os.fsync, os.replace

    def syncing(handle):
        done.append(("sync", os.readlink(f"/proc/self/fd/{handle}")))
        real_sync(handle)

    def replacing(source, target):
        done.append(("rename", str(source)))
        real_replace(source, target)

    monkeypatch.setattr(os, "fsync", syncing)
    monkeypatch.setattr(os, "replace", replacing)
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("no /proc here to name open files")
    saved(make_data, folder)
    fresh = str(tmp_path / ".run.new")
    assert done == [
        ("sync", f"{fresh}/state.safetensors"),
        ("sync", f"{fresh}/run.json"),
        ("sync", fresh),
        ("sync", str(tmp_path)),
        ("rename", str(folder)),
        ("sync", str(tmp_path)),
        ("rename", fresh),
        ("sync", str(tmp_path)),
    ]


def test_saving_again_does_not_hash_all_data_again(make_data, tmp_path, monkeypatch):
    hashed = []
    real = hashlib.sha256
    monkeypatch.setattr(hashlib, "sha256", lambda *data: hashed.append(1) or real(*data))
    together = federation(make_data())
    run = begin(together, FedAvg(hidden=(3,)))
    before = (together.data_digest, together.partition_digest)
    run.play(3, checkpoint=tmp_path / "run")
    baseline = len(hashed)
    run.save(tmp_path / "run")
    assert len(hashed) - baseline == 1  # the devices' own settings alone
    again = federation(make_data())
    assert (again.data_digest, again.partition_digest) == before
    other = replace(again, data=make_data(seed=7))
    assert other.data_digest != before[0]
