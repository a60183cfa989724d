"""Games that hide nothing: the inputs themselves, and an encoder trained on the task alone."""

import numpy as np
import pytest
import torch

from fedveil.attacks import panel
from fedveil.attacks.cotrained import judge_cotrained
from fedveil.core import plugins
from fedveil.core.errors import InputError
from fedveil.core.models import mlp
from fedveil.data import Split, load
from fedveil.federation import Federation, Run, begin
from fedveil.games import SGD, Adam, AdversarialTraining, Raw, Undefended
from fedveil.shields import CertifiedChannel


@pytest.fixture(scope="module")
def data():
    return load("synthetic", target="y", sensitive="u", n=1500, bits=0.5, overlap=0.3, validation=0.15, test=0.25)


@pytest.mark.parametrize("engine", ["plain", "stacked"])
def test_raw_releases_the_inputs_and_nobody_plays(data, engine):
    run = Federation(data, devices=5, engine=engine).play(Raw(), rounds=7)
    assert run.history == []
    assert run.paths == {}
    for split in Split:
        np.testing.assert_array_equal(run.release(split), data.x[data.rows(split)])
    view = run.view("representations")
    assert view.victims.vectors.shape == (len(data.rows(Split.TEST)), 16)
    judged = panel(["logistic"], draws=100).judge(view)
    assert judged.worst.balanced_accuracy.estimate > 0.8
    (utility,) = run.fit_head("y", draws=100)
    assert utility.accuracy.estimate > utility.prior + 0.1


def test_raw_has_no_outputs_no_adversary_and_no_updates(data):
    run = Federation(data, devices=5).play(Raw(), record=[1], shadows=3)
    for ask, message in (
        (lambda: run.view("outputs"), "raw has no task head"),
        (run.score_outputs, "raw has no task head"),
        (lambda: judge_cotrained(run, "u"), "raw trains no adversary"),
        (lambda: run.view("updates"), "no updates were recorded"),
    ):
        with pytest.raises(InputError, match=message):
            ask()


def test_a_run_that_nobody_plays_is_saved_loaded_and_played_again(data, tmp_path):
    channel = CertifiedChannel(1.0)
    run = Federation(data, devices=5, shield=channel).play(Raw(), rounds=2, checkpoint=tmp_path / "a")
    run.save(tmp_path / "b")
    for folder in ("a", "b"):
        resumed = Run.load(tmp_path / folder, Federation(data, devices=5, shield=channel), Raw()).play(3)
        np.testing.assert_array_equal(resumed.release(Split.TEST), run.release(Split.TEST))
    with pytest.raises(InputError, match="another run: game"):
        Run.load(tmp_path / "a", Federation(data, devices=5, shield=channel), Undefended())


@pytest.mark.parametrize("engine", ["plain", "stacked"])
@pytest.mark.parametrize("optimiser", [SGD(0.05), Adam(0.01)])
def test_undefended_is_adversarial_training_at_strength_0(data, engine, optimiser):
    options = {"hidden": (8,), "width": 4, "optimiser": optimiser, "local_epochs": 2, "batch_size": 40}
    games = (Undefended(**options), AdversarialTraining("u", 0.0, **options))
    bare, nought = (Federation(data, 4, engine=engine, dtype="float64").play(game, 3) for game in games)
    for name in ("encoder", "head"):
        torch.testing.assert_close(bare.shared[name], nought.shared[name], rtol=0, atol=1e-12)
    assert [r.losses["encoder+head"] for r in bare.history] == pytest.approx(
        [r.losses["encoder+head"] for r in nought.history]
    )
    assert {f.name: f.default for f in Undefended.__dataclass_fields__.values()}.items() <= {
        f.name: f.default for f in AdversarialTraining.__dataclass_fields__.values()
    }.items()


def test_both_engines_agree_on_the_undefended(data):
    runs = [
        Federation(data, 4, fraction=0.7, engine=engine, dtype="float64").play(Undefended(hidden=(6,), width=3), 5)
        for engine in ("plain", "stacked")
    ]
    for name in runs[0].shared:
        torch.testing.assert_close(runs[0].shared[name], runs[1].shared[name], rtol=0, atol=1e-9)


def test_the_undefended_serves_its_task_and_reads_no_attribute(data):
    game = Undefended(width=8, optimiser=Adam(5e-3))
    (stage,) = game.stages(None)
    assert stage.reads == {"x", "y"}
    run = Federation(data, devices=5).play(game, rounds=6)
    (on_y,) = run.fit_head("y", draws=100)
    assert on_y.accuracy.estimate > on_y.prior + 0.1
    assert run.score_outputs(draws=100).accuracy.estimate > on_y.prior + 0.1
    with pytest.raises(InputError, match="undefended trains no adversary"):
        judge_cotrained(run, "u")
    with pytest.raises(InputError, match="no target"):
        begin(Federation(data.without_labels(), devices=5), game)


def test_the_undefended_takes_another_encoder(data):
    game = Undefended(width=5, encoder=lambda generator: mlp([16, 5], generator))
    assert Federation(data, devices=5).play(game, rounds=1).release(Split.TEST).shape[1] == 5


def test_baselines_are_found_by_name():
    assert plugins.load("fedveil.games", "raw") is Raw
    assert plugins.load("fedveil.games", "undefended") is Undefended
