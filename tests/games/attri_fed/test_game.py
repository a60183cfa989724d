"""games.AttriFed: its losses, its stages, its variants, and what it releases."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedveil.core.errors import InputError
from fedveil.data import Attribute, AttributeData, Split
from fedveil.federation import Federation, begin
from fedveil.federation.release import release, senders
from fedveil.games import DataShape, Play
from fedveil.games.attri_fed import AttriFed

SHAPE = DataShape((6,), 3, {"colour": 4})
ROUNDS = {"initial_rounds": 2, "private_rounds": 3, "federated_rounds": 2}
SMALL = {"width": 3, "steps": 2, "batch_size": 20, "privatiser_steps": 2, **ROUNDS}


def data(n: int = 240) -> AttributeData:
    rng = np.random.default_rng(0)
    v, u = (np.concatenate([np.arange(k), rng.integers(0, k, n - k)]) for k in (3, 4))
    x = rng.normal(0, 0.3, (n, 6)).astype(np.float32)
    x[np.arange(n), v] += 2
    x[:, 3] += u
    split = np.repeat([0, 1, 2], [n // 2, n // 4, n - n // 2 - n // 4]).astype(np.int8)
    colour = Attribute("colour", u, tuple("abcd"))
    return AttributeData(x, {"colour": colour}, split, y=Attribute("v", v, tuple("012")))


def play(game: AttriFed) -> tuple[Play, dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    outputs = {
        "encoder": torch.randn(5, 3, generator=generator) * 2,
        "head": torch.randn(5, 3, generator=generator),
        "helper": torch.randn(5, 3, generator=generator),
        "rate": torch.rand(5, 3, generator=generator) * 4,
        "privatiser:colour": torch.randn(5, 4, generator=generator),
    }
    columns = {"x": torch.zeros(5, 6), "y": torch.tensor([0, 1, 2, 0, 1]), "u:colour": torch.tensor([0, 1, 2, 3, 0])}
    return Play(columns, None, {}, lambda who, x: outputs[who], lambda shape: torch.full((5, *shape), 0.5)), outputs


def surprise(logits: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    return -logits.log_softmax(dim=1)[range(len(codes)), codes]


@pytest.mark.parametrize(("variant", "gamma"), [("eeo", 0.7), ("eco", 0.0), ("bound", 0.0)])
def test_the_last_privatising_loss_is_the_corrected_equation_20(variant, gamma):
    game = AttriFed("colour", variant=variant, lam=0.4, beta=0.3, gamma=0.7, **SMALL)
    stage = [candidate for candidate in game.stages(SHAPE) if candidate.name.startswith("privatise")][-1]
    now, outputs = play(game)
    y, u = now.data["y"], now.data["u:colour"]
    rate = outputs["rate"].sum(dim=1) * math.log(2)
    helped, served, read = (
        surprise(outputs["helper"], y),
        surprise(outputs["head"], y),
        surprise(outputs["privatiser:colour"], u),
    )
    if variant == "bound":
        wanted = served + 0.3 * (rate + helped)
    else:
        wanted = served + 0.7 * rate / 6 + 0.3 * helped - gamma * read
    assert torch.allclose(stage.moves[0].loss(now), wanted, atol=1e-6)


def test_weights_grow_by_steps_and_end_at_one():
    game = AttriFed("colour", variant="bound", beta=1.0, start=0.01, growth=2.0, **SMALL | {"steps": 3})
    losses = []
    for stage in game.stages(SHAPE):
        if stage.name.startswith("privatise"):
            now, outputs = play(game)
            extra = outputs["rate"].sum(dim=1) * math.log(2) + surprise(outputs["helper"], now.data["y"])
            grown = stage.moves[0].loss(now) - surprise(outputs["head"], now.data["y"])
            losses.append(float((grown / extra).mean()))
    assert losses == pytest.approx([0.01, 0.02, 1.0], rel=1e-4)


def test_stages_read_and_share_what_they_say():
    by_name = {stage.name: stage for stage in AttriFed("colour", **SMALL).stages(SHAPE)}
    assert list(by_name) == ["initialise", "opponents", "privatise 1", "privatise 2", "federate"]
    assert by_name["initialise"].reads == {"x", "y"}
    assert all(not by_name[name].shared for name in by_name if name != "federate")
    assert by_name["federate"].shared == {"head"}
    assert by_name["federate"].reads == {"x", "y"}
    assert [stage.name for stage in AttriFed("colour", variant="none", **SMALL).stages(SHAPE)] == [
        "initialise",
        "federate",
    ]
    common = {stage.name: stage for stage in AttriFed("colour", encoders="shared-start", **SMALL).stages(SHAPE)}
    assert common["initialise"].shared == {"encoder", "head"}
    assert not common["privatise 1"].shared


@pytest.mark.parametrize("encoders", ["own", "shared-start", "shared"])
@pytest.mark.parametrize("variant", ["none", "eco", "eeo", "bound"])
def test_every_variant_plays_and_sends_whole_numbers(variant, encoders):
    game = AttriFed("colour", variant=variant, encoders=encoders, reach=3, **SMALL)
    run = begin(Federation(data(), devices=3, device="cpu"), game).play()
    sent = release(run, Split.TEST)
    if variant == "none":
        assert (sent != np.round(sent)).any()
    else:
        assert (sent == np.round(sent)).all()
        assert np.abs(sent).max() <= 3
    assert (len(np.unique(senders(run, Split.TEST))) > 1) == (
        encoders == "own" or (encoders == "shared-start" and variant != "none")
    )


def test_rounding_by_rate_sends_the_cheapest_cell_nearby():
    game = AttriFed("colour", reach=1, rounding=0.5, **SMALL | {"width": 1})
    bits = torch.tensor([[4.0], [1.0], [2.0]])  # of −1, 0 and 1
    encoded = torch.atanh(torch.tensor([[-0.99], [-0.6], [0.4], [0.8], [0.99]]))
    now = Play({"x": torch.zeros(5, 6)}, None, {}, lambda who, x: encoded if who == "encoder" else bits, torch.rand)
    # ‖ŷ − c‖² + ½·bits: −.6 costs .16 + 2 as −1 and .36 + .5 as 0; .8 costs .64 + .5 as 0 and .04 + 1 as 1.
    assert game.represent(now).flatten().tolist() == [0.0, 0.0, 0.0, 1.0, 1.0]
    nearest = replace(game, rounding=0.0)
    assert nearest.represent(now).flatten().tolist() == [-1.0, -1.0, 0.0, 1.0, 1.0]


def test_rounding_by_rate_sends_fewer_cells_and_fits_the_prior_to_them():
    cells = {}
    for rounding in (0.0, 3.0):
        game = AttriFed(
            "colour", variant="bound", prior="joint", rounding=rounding, reach=2, encoders="shared", **SMALL
        )
        run = begin(Federation(data(), devices=3, device="cpu"), game).play()
        cells[rounding] = len(np.unique(release(run, Split.TRAIN), axis=0))
        last = game.stages(SHAPE)[-1]
        assert last.shared == ({"head", "rate"} if rounding else {"head"})
    assert cells[3.0] < cells[0.0]


@pytest.mark.parametrize("rounding", [0.0, 0.3])
@pytest.mark.parametrize("encoders", ["own", "shared"])
def test_both_engines_play_it_alike(encoders, rounding):
    prior = "joint" if rounding else "factorised"
    game = AttriFed(
        "colour", encoders=encoders, rounding=rounding, prior=prior, reach=2, **SMALL | dict.fromkeys(ROUNDS, 1)
    )
    runs = [
        begin(Federation(data(120), devices=2, engine=engine, dtype="float64", device="cpu"), game).play()
        for engine in ("plain", "stacked")
    ]
    assert np.array_equal(*(release(run, Split.TEST) for run in runs))
    assert torch.allclose(*(run.shared["head"] for run in runs), atol=1e-8)


def test_devices_that_missed_a_stage_send_nothing_where_others_have_played_all():
    few = SMALL | dict.fromkeys(("initial_rounds", "federated_rounds"), 1) | {"private_rounds": 2}
    game = AttriFed("colour", rounding=0.3, prior="joint", reach=2, **few)
    run = Federation(data(), devices=12, fraction=0.09, device="cpu", seed=1).play(game)
    encoders, priors = (set(run.local[name].slot_of) for name in ("encoder", "rate"))
    assert encoders - priors  # some have an encoder and no prior to round by, others a prior and no trained encoder
    assert priors - encoders
    assert set(senders(run, Split.TEST).tolist()) == encoders & priors


def test_a_device_with_one_value_only_still_plays():
    alike = data()
    colour = alike.attributes["colour"].codes.copy()
    run = Federation(alike, devices=3, device="cpu")
    colour[run.partition.device(0)] = 1
    changed = replace(alike, attributes={"colour": Attribute("colour", colour, tuple("abcd"))})
    done = Federation(changed, devices=3, device="cpu").play(AttriFed("colour", **SMALL))
    assert np.isfinite(release(done, Split.TEST)).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gamma": -1.0}, "gamma must not be negative"),
        ({"beta": -0.1}, "beta must not be negative"),
        ({"lam": float("nan")}, "lam must not be negative"),
        ({"variant": "both"}, "variant 'both' is not known"),
        ({"encoders": "mine"}, "encoders 'mine'"),
        ({"networks": "huge"}, "networks 'huge'"),
        ({"width": 0}, "at least 1"),
        ({"reach": 3000}, "reach must be at most 2047"),
        ({"prior": "other"}, "prior 'other'"),
        ({"rounding": -1.0}, "rounding must not be negative"),
        ({"prior": "joint"}, "send fewer"),
        ({"rounding": 0.5}, "send fewer"),
        ({"private_rounds": 0}, "at least 1"),
        ({"start": 0.0}, "start must lie"),
        ({"attribute": ()}, "at least one attribute"),
    ],
)
def test_bad_settings_are_refused_in_one_line(settings, message):
    with pytest.raises(InputError, match=message):
        AttriFed(**{"attribute": "colour", **settings})


def test_an_unknown_attribute_is_answered_with_the_nearest_name():
    with pytest.raises(InputError, match="colour"):
        AttriFed("color").players(SHAPE)
