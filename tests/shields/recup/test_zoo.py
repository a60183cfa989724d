"""Zoo files: damage, another layout or another attribute is refused in one line; staleness is reported."""

import dataclasses
import json
import struct

import pytest
import torch
from safetensors.torch import save_file
from zoo_updates import gradients

from fedveil import __version__
from fedveil.core.errors import InputError
from fedveil.shields.recup import Fitting, Zoo, fit_zoo
from fedveil.shields.recup.seen import SeenRound, sketched, weights_digest
from fedveil.updates.segments import Segment


@pytest.fixture(scope="module")
def sent():
    return gradients(n=300, hidden=6)


@pytest.fixture(scope="module")
def zoo(sent):
    moved = sent.weights + 0.3 * torch.randn(len(sent.weights), generator=torch.Generator().manual_seed(1))
    return fit_zoo(
        sent.updates,
        sent.codes,
        sent.values,
        "u",
        sent.segments,
        widths=(9, 16),
        fitting=Fitting(most_epochs=2),
        started_from={5: moved, 1: sent.weights},
    )


@pytest.fixture
def file(zoo, tmp_path):
    zoo.save(tmp_path / "u.safetensors")
    return tmp_path / "u.safetensors"


def test_a_saved_zoo_reads_as_before(zoo, file, sent):
    again = Zoo.load(file)
    assert torch.equal(again.read(sent.updates[:20]), zoo.read(sent.updates[:20]))
    assert again.manifest == zoo.manifest
    assert (again.attribute, again.values, again.features) == ("u", sent.values, "max")
    assert again.segments == sent.segments
    assert torch.equal(again.prior, zoo.prior)
    assert again.staleness(sent.weights) == 0
    assert list(file.parent.iterdir()) == [file]
    file.with_name("second.safetensors").write_bytes(file.read_bytes())
    again.save(file)
    assert file.read_bytes() == file.with_name("second.safetensors").read_bytes()


def test_zoos_that_differ_are_told_apart_by_their_digest(zoo, file):
    assert repr(Zoo.load(file)) == repr(zoo)
    assert dataclasses.replace(zoo, mean=zoo.mean + 1).digest != zoo.digest
    assert dataclasses.replace(zoo, attribute="v").digest != zoo.digest


def test_the_manifest_is_complete(zoo, sent):
    manifest = json.loads(json.dumps(zoo.manifest))
    assert manifest["format"] == 1
    assert manifest["version"] == __version__
    assert manifest["attribute"] == "u"
    assert sum(manifest["prior"]) == pytest.approx(1)
    assert manifest["layout"][0] == {
        "player": "model",
        "name": "0.weight",
        "shape": list(sent.segments[0].shape),
        "start": 0,
        "statistic": False,
    }
    assert [member["hidden"] for member in manifest["members"]] == [[9, 9], [16, 16]]
    assert all(0 <= member["balanced_accuracy"]["low"] <= 1 for member in manifest["members"])
    assert [entry["round"] for entry in manifest["rounds"]] == [1, 5]
    assert manifest["rounds"][0]["digest"] == weights_digest(sent.weights)
    assert manifest["rounds"][0]["norm"] == pytest.approx(float(sent.weights.norm()), rel=1e-5)
    assert manifest["validation"]["even"] == 0.5


def test_a_file_cut_short_anywhere_is_refused(file):
    whole = file.read_bytes()
    header = 8 + struct.unpack("<Q", whole[:8])[0]
    lengths = {0, 1, 7, 8, 9, header // 2, header - 1, header, header + 1, len(whole) // 2, len(whole) - 1}
    for length in sorted(lengths):
        file.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"u\.safetensors: cut short, or not a zoo"):
            Zoo.load(file)


def test_a_file_with_trailing_bytes_is_refused(file):
    file.write_bytes(file.read_bytes() + b"\0")
    with pytest.raises(InputError, match="cut short, or not a zoo"):
        Zoo.load(file)


def test_every_flipped_bit_is_found(file):
    """Each bit of the first bytes of the header, and one bit of bytes at regular distances in the rest."""
    whole = file.read_bytes()
    header = 8 + struct.unpack("<Q", whole[:8])[0]
    positions = {*range(24), *range(24, header, 37), *range(header - 8, header + 8), *range(header, len(whole), 211)}
    for position in sorted(positions | {len(whole) - 1}):
        for bit in range(8) if position < 24 else [position % 8]:
            changed = bytearray(whole)
            changed[position] ^= 1 << bit
            file.write_bytes(changed)
            with pytest.raises(InputError, match=r"u\.safetensors: (altered|cut short|a safetensors file)"):
                Zoo.load(file)


def test_foreign_missing_and_other_files_are_refused(tmp_path, zoo):
    with pytest.raises(InputError, match="no such zoo; make one"):
        Zoo.load(tmp_path / "missing.safetensors")
    with pytest.raises(InputError, match="cannot be read"):
        Zoo.load(tmp_path)
    foreign = tmp_path / "foreign.safetensors"
    save_file({"weight": torch.ones(3)}, foreign)
    with pytest.raises(InputError, match="a safetensors file, but not a zoo"):
        Zoo.load(foreign)
    foreign.write_text("data: {source: adult}\n")
    with pytest.raises(InputError, match="cut short, or not a zoo"):
        Zoo.load(foreign)
    with pytest.raises(InputError, match="cannot be written"):
        zoo.save(tmp_path / "nowhere" / "u.safetensors")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["foreign.safetensors"]


def test_a_zoo_that_does_not_fit_together_is_refused_even_with_a_right_digest(zoo, tmp_path):
    path = tmp_path / "u.safetensors"
    broken = {
        "other shapes": {"sizes": ((9, 9), (16, 8))},
        "are inconsistent": {"scale": torch.zeros_like(zoo.scale)},
        "members are inconsistent": {"prior": zoo.prior / 2},
        "or members are inconsistent": {"features": "maxx"},
        "other features than the members read": {"features": "biases"},
    }
    for message, changes in broken.items():
        dataclasses.replace(zoo, **changes).save(path)
        with pytest.raises(InputError, match=message):
            Zoo.load(path)


def test_another_format_is_refused(zoo, tmp_path, monkeypatch):
    monkeypatch.setattr("fedveil.shields.recup.zoo.FORMAT", 2)
    zoo.save(tmp_path / "u.safetensors")
    monkeypatch.undo()
    with pytest.raises(InputError, match="in format 2, but this version reads 1"):
        Zoo.load(tmp_path / "u.safetensors")


def test_another_layout_or_attribute_is_refused(zoo, sent):
    zoo.check(sent.segments, "u")
    with pytest.raises(InputError, match="fitted for 'u', not for 'race'"):
        zoo.check(sent.segments, "race")
    segments = list(sent.segments)
    wider = [segments[0], Segment("model", "0.bias", (7,), segments[1].start), *segments[2:]]
    with pytest.raises(InputError, match=r"tensor 1 is model\.0\.bias \(7 from .*\) here and model\.0\.bias \(6 from"):
        zoo.check(wider, "u")
    with pytest.raises(InputError, match=r"3 tensors here and 4 there, from model\.2\.bias"):
        zoo.check(segments[:-1], "u")
    with pytest.raises(InputError, match="5 tensors here and 4 there"):
        zoo.check([*segments, Segment("model", "more", (2,), segments[-1].stop)], "u")
    with pytest.raises(InputError, match="tensor 0 is encoder"):
        zoo.check([dataclasses.replace(segment, player="encoder") for segment in segments], "u")


def test_staleness_grows_as_weights_move(zoo, sent):
    direction = torch.randn(len(sent.weights), generator=torch.Generator().manual_seed(7))
    direction *= sent.weights.norm() / direction.norm()
    nearest = [zoo.nearest_round(sent.weights + share * direction) for share in (0.0, 0.01, 0.05, 0.1)]
    assert [number for number, _ in nearest] == [1, 1, 1, 1]
    distances = [distance for _, distance in nearest]
    assert distances[0] == 0
    assert distances == sorted(distances)
    assert distances[2] == pytest.approx(0.05, rel=0.25)  # a sketch of 256: one deviation is at most 4.4%
    with pytest.raises(InputError, match="rows of"):
        zoo.staleness(sent.weights[:-1])


def test_distances_come_out_within_what_the_sketch_promises():
    segments = (Segment("model", "weight", (20_000,), 0),)
    generator = torch.Generator().manual_seed(3)
    weights = torch.randn(20_000, generator=generator)
    seen = SeenRound.of(1, weights, segments)
    ratios = []
    for trial in range(60):
        moved = torch.randn(20_000, generator=generator) * (torch.rand(20_000, generator=generator) < 0.5**trial + 0.01)
        true = float(moved.norm() / weights.norm())
        ratios.append(seen.distance(sketched(weights + moved, segments)) / true)
    assert sum(abs(ratio - 1) < 0.09 for ratio in ratios) >= 54
    assert sum(ratios) / len(ratios) == pytest.approx(1, abs=0.02)


def test_staleness_is_unknown_without_rounds(zoo, sent):
    assert dataclasses.replace(zoo, seen=()).staleness(sent.weights) is None


@pytest.mark.parametrize("bits", [8, 4])
def test_quantised_members_are_smaller_and_read_much_the_same(zoo, sent, tmp_path, bits):
    small = zoo.quantised(bits)
    small.save(tmp_path / "small.safetensors")
    again = Zoo.load(tmp_path / "small.safetensors")
    assert torch.equal(again.read(sent.updates[:20]), small.read(sent.updates[:20]))
    assert again.bits == again.manifest["bits"] == bits
    assert again.bytes == small.bytes < zoo.bytes * (0.5 if bits == 8 else 0.4)
    stored = (tmp_path / "small.safetensors").stat().st_size
    zoo.save(tmp_path / "large.safetensors")
    large = (tmp_path / "large.safetensors").stat().st_size
    assert large - stored == pytest.approx(zoo.bytes - small.bytes, abs=600)  # the rest is what headers say
    same = (small.read(sent.updates).argmax(dim=2) == zoo.read(sent.updates).argmax(dim=2)).float().mean()
    assert same > (0.97 if bits == 8 else 0.8)
    step = zoo.members[0][0].weight.abs().amax(dim=1, keepdim=True) / (2 ** (bits - 1) - 1)
    layer = small.members[0][0]
    assert bool(((layer.weight * layer.scale - zoo.members[0][0].weight).abs() <= step / 2 + 1e-7).all())
    updates = sent.updates[:3].clone().requires_grad_()
    again.read(updates).sum().backward()
    assert float(updates.grad.abs().sum()) > 0


def test_bits_are_checked(zoo):
    with pytest.raises(InputError, match="8, 4 bits; got 3"):
        zoo.quantised(3)
    with pytest.raises(InputError, match="in 8 bits already"):
        zoo.quantised(8).quantised(4)
