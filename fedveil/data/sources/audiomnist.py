"""AudioMNIST: spoken digits as spectrograms; the task is the digit, the attributes describe the speaker."""

from __future__ import annotations

import io
import json
import math
import re
import struct
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.io import wavfile
from scipy.signal import resample_poly, stft

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.data.archives import choose_container, list_members, read_members
from fedveil.data.attribute import Attribute, intersect
from fedveil.data.attribute_data import AttributeData
from fedveil.data.locate import locate
from fedveil.data.source import PublishedFile, Source
from fedveil.data.splits import joint_strata, random_part, random_split

_ARCHIVE = "AudioMNIST-master.zip"
_FOLDER = "data"
_META = "audioMNIST_meta.txt"
_CLIP = re.compile(r"(\d\d)/(\d)_\1_\d+\.wav")
RATE = 8000
"""Samples per second; a clip is placed in the middle of one second, so this is also the number of its samples."""
WINDOW, STEP = 455, 35
"""Window and step of the Fourier transform, in samples, as in the data set's paper."""
LARGEST = 224
"""Rows and columns of the full spectrogram: the lowest frequencies, up to 3.9 kHz, and the middle of the second."""
DECIBELS = 80.0
"""A point this far below a clip's loudest one counts as silence."""

Floats = npt.NDArray[np.float32]


class AudioMNIST(Source):
    """30,000 spoken English digits of 60 speakers, as spectrograms of 1 × size × size in [0, 1].

    Clips are resampled to 8 kHz and centred in a second of silence; 1 is a clip's loudest point, 0 is 80 dB below it.

    Speakers are the groups, and each stays in one split, so that an attacker cannot profit from knowing a voice. That
    is impossible for `identity` (sex × native speaker), since only one speaker is a native woman. With `identity`,
    records are split individually, `groups` is None and `facts["split"]` says so: attackers then hear voices
    that they learned from, and their accuracy says less about strangers. Sex, split by speaker, is the sounder test.
    """

    name = "audiomnist"
    description = "AudioMNIST, spoken digits as spectrograms: the digit; sex, identity, accent"
    licence = "MIT"
    citation = (
        "Becker, Ackermann, Lapuschkin, Müller & Samek (2018). Interpreting and Explaining Deep Neural Networks for "
        "Classification of Audio Signals"
    )
    attributes = ("identity", "sex", "accent")
    targets = ("digit",)
    folder = "audiomnist"
    # GitHub builds the archive on demand, and no hash of it is published.
    files = (PublishedFile(_ARCHIVE, "https://github.com/soerenab/AudioMNIST/archive/refs/heads/master.zip", ""),)
    unpacked = (f"{_FOLDER}/{_META}",)

    def read(
        self,
        target: str | None,
        sensitive: Sequence[str],
        seed: int,
        validation: float = 0.1,
        test: float = 0.2,
        limit: int | None = None,
        size: int = 112,
        whole_speakers: bool | None = None,
    ) -> AttributeData:
        """Read the clips and compute spectrograms.

        Args:
            target: "digit" or None.
            sensitive: any of identity (sex × native speaker, 4 values), sex, accent (German or another).
            seed: for the split and for the random part.
            validation: share of validation records.
            test: share of test records.
            limit: how many records to take, at random (default: all).
            size: rows and columns, a divisor of 224; the RecUP-FL paper's network takes 224 (30,000 clips: 6 GB).
            whole_speakers: keep each speaker in one split (default: yes, unless identity is protected).
        """
        if size < 8 or LARGEST % size:
            divisors = [side for side in range(8, LARGEST + 1) if LARGEST % side == 0]
            raise InputError(f"{self.name}: size must be one of {', '.join(map(str, divisors))}, got {size}")
        whole = "identity" not in sensitive if whole_speakers is None else whole_speakers
        if whole and "identity" in sensitive:
            raise InputError(
                f"{self.name}: identity cannot be split by speaker, since only one speaker is a native woman; "
                "set whole_speakers to false, or protect sex"
            )
        located = locate(self)
        # The unpacked file lies one folder deeper than the archive.
        folder = located.folder
        container = choose_container(folder, _FOLDER, [_ARCHIVE]) if _ARCHIVE in located.files else folder
        names = [name for name in list_members(container, _FOLDER, ".wav") if _CLIP.fullmatch(name)]
        if not names:
            raise InputError(f"{container}: holds no clips named like 01/0_01_0.wav; complete it or fetch it again")
        names = [names[row] for row in random_part(len(names), limit, seed, self.name)]
        people = read_speakers(container)
        speakers = [name[:2] for name in names]
        unlisted = sorted(set(speakers) - set(people))
        if unlisted:
            raise InputError(f"{container}: {_META} says nothing about speaker {unlisted[0]}; fetch it again")
        labels = {name: _attribute(name, [people[speaker] for speaker in speakers]) for name in sensitive}
        digits = Attribute("digit", np.array([int(name[3]) for name in names]), tuple("0123456789"))
        groups: IntArray | None = np.array([int(speaker) for speaker in speakers], dtype=np.int64) if whole else None
        strata = joint_strata([*labels.values()] if whole else [*labels.values(), digits])
        return AttributeData(
            x=_spectrograms(container, names, size),
            attributes=labels,
            split=random_split(len(names), seed=seed, validation=validation, test=test, strata=strata, groups=groups),
            y=digits if target else None,
            groups=groups,
            name=self.name,
            facts={
                "found_in": located.where,
                "speakers": len(set(speakers)),
                "split": "by speaker" if whole else "random: a speaker may be in several splits",
            },
        )


def read_speakers(container: Path) -> dict[str, Mapping[str, object]]:
    """Read the facts about each speaker, by number."""
    (_, content), *_ = read_members(container, _FOLDER, [_META])
    where = container / _META
    try:
        people: object = json.loads(content)
    except ValueError as fault:
        raise InputError(f"{where}: is not JSON ({fault}); fetch it again") from fault
    needed = {"gender": ("male", "female"), "native speaker": ("yes", "no"), "accent": None}
    if not isinstance(people, dict):
        raise InputError(f"{where}: holds no speakers by number; fetch it again")
    for number, facts in people.items():
        for fact, values in needed.items():
            value = facts.get(fact) if isinstance(facts, dict) else None
            if not isinstance(value, str) or (values and value not in values):
                raise InputError(f"{where}: speaker {number} has no usable {fact!r} ({value!r}); fetch it again")
    return people


def _attribute(name: str, speakers: Sequence[Mapping[str, object]]) -> Attribute:
    def binary(fact: str, value: str, names: tuple[str, str]) -> Attribute:
        codes = np.array([str(facts[fact]).lower() == value for facts in speakers], dtype=np.int64)
        return Attribute(name, codes, names)

    if name == "accent":
        return binary("accent", "german", ("another", "German"))
    sex = binary("gender", "female", ("male", "female"))
    if name == "sex":
        return sex
    both = intersect([sex, binary("native speaker", "yes", ("not native", "native"))])
    return Attribute(name, both.codes, both.values)


def _spectrograms(container: Path, names: Sequence[str], size: int) -> Floats:
    spectrograms = np.empty((len(names), 1, size, size), dtype=np.float32)
    for index, content in read_members(container, _FOLDER, names):
        spectrograms[index, 0] = spectrogram(_second(content, f"{container}/{names[index]}"), size)
    return spectrograms


def spectrogram(second: Floats, size: int) -> Floats:
    """Return the power of each frequency (rows, lowest first) over time; 0 to 1 is a range of 80 dB."""
    power = np.abs(stft(second, fs=RATE, nperseg=WINDOW, noverlap=WINDOW - STEP)[2]) ** 2
    start = (power.shape[1] - LARGEST) // 2
    power = power[:LARGEST, start : start + LARGEST]
    pool = LARGEST // size
    power = power.reshape(size, pool, size, pool).mean(axis=(1, 3))
    loudest = power.max()
    if loudest == 0:
        return np.zeros((size, size), dtype=np.float32)
    below = 10 * np.log10(np.maximum(power / loudest, 10 ** (-DECIBELS / 10)))
    return np.asarray(1 + below / DECIBELS, dtype=np.float32)


def _second(content: bytes, where: str) -> Floats:
    """Return a clip at 8 kHz, centred in one second; a longer clip is cut at both ends."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", wavfile.WavFileWarning)  # about chunks that are not sound
            rate, sound = wavfile.read(io.BytesIO(content))
        if sound.ndim != 1 or not len(sound) or rate < RATE:
            raise ValueError(f"one channel at {RATE} Hz or more is needed; shape {sound.shape}, {rate} Hz")
    except (ValueError, EOFError, struct.error) as fault:
        raise InputError(f"{where}: cannot be read as a sound ({fault}); fetch it again") from fault
    samples = sound.astype(np.float32)
    if not np.isfinite(samples).all():
        raise InputError(f"{where}: holds NaN or infinite samples; fetch it again")
    if rate != RATE:
        common = math.gcd(rate, RATE)
        samples = resample_poly(samples, RATE // common, rate // common)
    start = max(0, (len(samples) - RATE) // 2)
    samples = samples[start : start + RATE]
    second = np.zeros(RATE, dtype=np.float32)
    lead = (RATE - len(samples)) // 2
    second[lead : lead + len(samples)] = samples
    return second
