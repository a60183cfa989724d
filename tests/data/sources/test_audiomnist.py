"""AudioMNIST from a folder and from the archive, with published and synthetic clips."""

from __future__ import annotations

import io
import json
import shutil

import numpy as np
import pytest
from scipy.io import wavfile

import fedveil.data
from fedveil.core.errors import InputError
from fedveil.data import Split
from fedveil.data.sources.audiomnist import spectrogram

SPEAKERS = 20
NATIVE = (3, 4)  # a man and the only native woman


def tone(hertz: float, rate: int = 8000, seconds: float = 0.5) -> bytes:
    held = io.BytesIO()
    wave = 20000 * np.sin(2 * np.pi * hertz * np.arange(int(rate * seconds)) / rate)
    wavfile.write(held, rate, wave.astype(np.int16))
    return held.getvalue()


def meta() -> dict[str, dict[str, object]]:
    return {
        f"{speaker:02d}": {
            "gender": "female" if speaker % 2 == 0 else "male",
            "native speaker": "yes" if speaker in NATIVE else "no",
            "accent": ("German", "german", "Danish")[speaker % 3],
            "age": 30,
        }
        for speaker in range(1, SPEAKERS + 1)
    }


@pytest.fixture
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "data" / "audiomnist" / "data"
    for speaker in range(1, SPEAKERS + 1):
        clips = folder / f"{speaker:02d}"
        clips.mkdir(parents=True)
        for digit in range(10):
            (clips / f"{digit}_{speaker:02d}_0.wav").write_bytes(tone(300 * (digit + 1)))
    (folder / "audioMNIST_meta.txt").write_text(json.dumps(meta()))
    monkeypatch.setenv("FEDVEIL_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("FEDVEIL_CACHE", str(tmp_path / "cache"))
    return folder


def load(**options):
    return fedveil.data.load("audiomnist", **({"target": "digit", "sensitive": "sex", "size": 28} | options))


def test_the_published_clips(published):
    published("audiomnist")
    data = load(sensitive=["sex", "accent"])
    assert data.x.shape[1:] == (1, 28, 28)
    assert data.attributes["sex"].prior == pytest.approx(0.8)
    assert data.y.prior == pytest.approx(0.1)
    assert data.facts["speakers"] == 60
    women = data.attributes["sex"].codes == 1
    for split in Split:
        rows = data.rows(split)
        assert 0 < women[rows].sum() < len(rows)
        assert not set(data.groups[rows]) & set(data.groups[data.split != split])


def test_identity_of_the_published_speakers_is_split_at_random(published):
    published("audiomnist")
    data = load(sensitive="identity")
    assert len(data.attributes["identity"].values) == 4
    assert data.attributes["identity"].prior == pytest.approx(46 / 60)
    assert data.groups is None
    assert str(data.facts["split"]).startswith("random")


def test_a_tone_appears_at_its_frequency_and_time(folder):
    data = load(size=224)
    assert data.x.shape == (10 * SPEAKERS, 1, 224, 224)
    for row in (0, 4, 9):
        hertz = 300 * (data.y.codes[row] + 1)
        strength = data.x[row, 0]
        assert strength[:, 112].argmax() == pytest.approx(hertz / (8000 / 455), abs=1)
        assert strength.max() == 1
        assert strength[:, :20].max() == 0  # the half second lies in the middle of silence


def test_another_rate_makes_the_same_picture(folder):
    path = folder / "01" / "4_01_0.wav"
    first = load()
    path.write_bytes(tone(1500, rate=48000))
    second = load()
    np.testing.assert_allclose(second.x[4], first.x[4], atol=0.25)  # only the edges' faint clicks differ
    assert np.abs(second.x[4] - first.x[4]).mean() < 0.02


def test_silence_and_size():
    assert not spectrogram(np.zeros(8000, dtype=np.float32), 56).any()


def test_speakers_are_whole_unless_identity_is_asked_for(folder):
    data = load()
    assert data.facts["split"] == "by speaker"
    assert all(len(set(data.split[data.groups == group])) == 1 for group in set(data.groups))
    identity = load(sensitive=["identity", "sex"])
    assert identity.groups is None
    assert identity.attributes["identity"].counts.tolist() == [90, 10, 90, 10]
    assert identity.attributes["identity"].values[3] == "female × native"
    assert load(whole_speakers=False).groups is None
    with pytest.raises(InputError, match="identity cannot be split by speaker"):
        load(sensitive="identity", whole_speakers=True)
    assert load(sensitive="accent").attributes["accent"].counts[1] == 10 * sum(s % 3 < 2 for s in range(1, 21))


def test_the_archive_serves_as_well(folder):
    unpacked = load()
    root = folder.parents[2] / "packed"
    shutil.copytree(folder, root / "AudioMNIST-master" / "data")
    shutil.rmtree(folder)
    shutil.make_archive(str(folder.parent / "AudioMNIST-master"), "zip", root)
    packed = load()
    np.testing.assert_array_equal(packed.x, unpacked.x)
    np.testing.assert_array_equal(packed.split, unpacked.split)
    (folder.parent / "AudioMNIST-master.zip").write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"AudioMNIST-master\.zip: is not a complete archive"):
        load()


@pytest.mark.parametrize("content", [b"", b"no sound", tone(500)[:30], tone(500)[:44], tone(500, rate=4000)])
def test_an_unreadable_clip(folder, content):
    (folder / "02" / "5_02_0.wav").write_bytes(content)
    with pytest.raises(InputError, match=r"02/5_02_0\.wav: cannot be read as a sound") as fault:
        load()
    assert "\n" not in str(fault.value)


def test_a_clip_in_stereo_or_with_odd_numbers(folder):
    path = folder / "02" / "5_02_0.wav"
    wavfile.write(path, 8000, np.zeros((100, 2), dtype=np.int16))
    with pytest.raises(InputError, match="one channel"):
        load()
    wavfile.write(path, 8000, np.full(100, np.nan, dtype=np.float32))
    with pytest.raises(InputError, match="NaN or infinite samples"):
        load()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "holds no speakers"),
        (json.dumps({"01": 3}), "speaker 01 has no usable 'gender'"),
        (json.dumps({"01": meta()["01"] | {"native speaker": "maybe"}}), "no usable 'native speaker'"),
        (json.dumps({"01": meta()["01"]}), "says nothing about speaker 02"),
    ],
)
def test_broken_facts_about_speakers(folder, text, message):
    (folder / "audioMNIST_meta.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        load()


def test_sizes_limits_and_unknown_names(folder):
    with pytest.raises(InputError, match="size must be one of 8, 14, 16, 28, 32, 56, 112, 224, got 100"):
        load(size=100)
    with pytest.raises(InputError, match="limit must be at least 1"):
        load(limit=0)
    with pytest.raises(InputError, match="no sensitive attribute 'age'"):
        load(sensitive="age")
    assert len(load(limit=190)) == 190
    for clip in folder.glob("*/*.wav"):
        clip.unlink()
    with pytest.raises(InputError, match="holds no clips"):
        load()
