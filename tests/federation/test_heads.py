"""Heads of several kinds: the best is chosen on validation, and scored on people it has never seen."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from fedveil.core.errors import InputError
from fedveil.data import Attribute, AttributeData, Split
from fedveil.federation import Federation
from fedveil.federation.heads import HEADS, Lesson, fit_kind
from fedveil.games import Adam, Autoencoder, FedAvg, Game
from fedveil.shields import CertifiedChannel, Kind

ALL = ("mlp", "boosting", "logistic")


@dataclass(frozen=True)
class Open(Game):
    """Releases x itself; there are no players."""

    name = "open"

    def players(self, shape):
        return {}

    def stages(self, shape):
        return ()

    def represent(self, play):
        return play.x


def people(n=1500, seed=0):
    """Two tasks on the same x: one that is linear, one (exclusive or) that no linear head can do."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)).astype(np.float32)
    linear = (x[:, 0] + 0.5 * x[:, 1] > 0).astype(np.int64)
    either = ((x[:, 1] > 0) ^ (x[:, 2] > 0)).astype(np.int64)
    return AttributeData(
        x,
        {"either": Attribute("either", either, ("no", "yes"))},
        (np.arange(n) % 3).astype(np.int8),
        y=Attribute("linear", linear, ("no", "yes")),
    )


@pytest.fixture(scope="module")
def run():
    return Federation(people(), devices=3).play(Open())


def test_the_best_head_on_validation_is_chosen_and_all_are_reported(run):
    linear, either = run.fit_head("linear", "either", heads=("logistic", "boosting"), draws=100)
    assert linear.head == "logistic"
    assert either.head == "boosting"
    assert either.heads["logistic"] < 0.6 < 0.9 < either.heads["boosting"]
    for utility in (linear, either):
        assert set(utility.heads) == {"logistic", "boosting"}
        assert utility.validation_accuracy == utility.heads[utility.head] == max(utility.heads.values())
        assert utility.accuracy.estimate > 0.9
        figures = utility.as_dict()
        assert figures["head"] == utility.head
        assert figures["heads"] == utility.heads
        assert figures["validation_accuracy"] == utility.validation_accuracy
        assert "draws" not in figures


def test_theorem_1s_constants_are_those_of_what_was_released(run):
    (linear,) = run.fit_head("linear", heads=("logistic",), draws=100)
    test = run.federation.data.x[run.federation.data.rows(Split.TEST)].astype(np.float64)
    assert linear.constants.radius == pytest.approx(float(np.linalg.norm(test, axis=1).max()))
    distances = np.linalg.norm(test[:, None] - test[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    assert 1 / (2 * linear.constants.radius) < linear.constants.lipschitz <= 1 / distances.min() + 1e-9
    assert linear.as_dict()["constants"]["radius"] == linear.constants.radius


def test_the_choice_does_not_look_at_test_people(run):
    data = run.federation.data
    codes = data.y.codes.copy()
    test = data.rows(Split.TEST)
    codes[test] = 1 - codes[test]
    turned = Federation(replace(data, y=Attribute("linear", codes, data.y.values)), devices=3).play(Open())
    before, after = (played.fit_head("linear", heads=ALL, draws=100)[0] for played in (run, turned))
    assert before.heads == after.heads
    assert before.head == after.head
    assert after.accuracy.estimate == pytest.approx(1 - before.accuracy.estimate)


def test_a_heads_figures_do_not_depend_on_the_others_tried(run):
    """A head fitted alone equals the same head fitted among several."""
    every = run.fit_head("either", heads=ALL, draws=100)[0]
    for kind in ALL:
        (alone,) = run.fit_head("either", heads=(kind,), draws=100)
        assert alone.heads[kind] == every.heads[kind]
        if kind == every.head:
            np.testing.assert_array_equal(alone.draws, every.draws)
            assert alone == replace(every, heads=alone.heads)


def test_ties_go_to_the_head_named_first():
    constant = replace(people(300), x=np.zeros((300, 3), dtype=np.float32))
    run = Federation(constant, devices=3).play(Open())
    for heads in (ALL, ALL[::-1]):
        (utility,) = run.fit_head("linear", heads=heads, draws=100)
        assert len(set(utility.heads.values())) == 1
        assert utility.head == heads[0]


def test_draws_are_paired_over_runs(run):
    """The same people are drawn for another representation, so differences vary less than unpaired ones."""
    (utility,) = run.fit_head("linear", draws=300)
    assert utility.draws.shape == (301,)
    assert utility.draws[0] == utility.accuracy.estimate
    assert utility.draws[1:].std() == pytest.approx(
        np.sqrt(utility.accuracy.estimate * (1 - utility.accuracy.estimate) / 500), rel=0.2
    )
    noisy = Federation(people(), devices=3, shield=CertifiedChannel(0.05, 10.0)).play(Open())
    (other,) = noisy.fit_head("linear", draws=300)
    difference = utility.draws - other.draws
    unpaired = np.sqrt(utility.draws[1:].var() + other.draws[1:].var())
    assert difference[1:].std() < 0.9 * unpaired


def test_repeating_gives_the_same_figures(run):
    first, second = (run.fit_head("either", heads=ALL, seed=3, draws=100) for _ in range(2))
    assert first == second
    np.testing.assert_array_equal(first[0].draws, second[0].draws)


@pytest.mark.parametrize("kind", ALL)
def test_labels_that_training_people_lack_are_never_guessed_and_do_no_harm(kind):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    codes = np.where(x[:, 0] > 0, 3, 1)
    held_out = codes.copy()
    held_out[:5] = 0
    posterior = fit_kind(kind, Lesson((x, codes), (x, held_out), 4, 0))(x)
    assert posterior.shape == (200, 4)
    assert np.isfinite(posterior).all()
    np.testing.assert_allclose(np.exp(posterior).sum(axis=1), 1, atol=1e-6)
    assert (posterior.argmax(axis=1) == codes).mean() > 0.95
    sure = fit_kind(kind, Lesson((x, np.full(200, 2)), (x, held_out), 4, 0))(x)
    assert (sure.argmax(axis=1) == 2).all()


def test_misspelt_heads_tasks_and_unlabelled_splits_are_refused(run):
    with pytest.raises(InputError, match="did you mean 'boosting'"):
        run.fit_head("linear", heads=("bosting",))
    with pytest.raises(InputError, match="no head is named"):
        run.fit_head("linear", heads=())
    with pytest.raises(InputError, match="did you mean 'linear'"):
        run.fit_head("liner")
    data = run.federation.data
    for split in Split:
        codes = np.where(data.split == split, -1, data.y.codes)
        bare = Federation(replace(data, y=Attribute("linear", codes, data.y.values)), devices=3).play(Open())
        with pytest.raises(InputError, match=f"no labelled records in {split.name.lower()}"):
            bare.fit_head("linear")
    assert set(HEADS) == set(ALL)


def test_a_model_s_own_outputs_are_scored_like_a_head():
    data = people()
    run = Federation(data, devices=3).play(FedAvg(hidden=(8,), optimiser=Adam(0.02)), rounds=5)
    utility = run.score_outputs(draws=200)
    for split, figure in ((Split.TEST, utility.accuracy.estimate), (Split.VALIDATION, utility.validation_accuracy)):
        guesses = run.release(split, Kind.OUTPUT).argmax(axis=1)
        assert figure == pytest.approx((guesses == data.y.codes[data.rows(split)]).mean())
    assert utility.accuracy.estimate > 0.9
    assert (utility.task, utility.head, utility.heads) == ("linear", "model", {"model": utility.validation_accuracy})
    assert utility.draws.shape == (201,)
    assert set(utility.by_group["either"]) == {"no", "yes"}
    with pytest.raises(InputError, match="releases no representations"):
        run.fit_head("linear")


def test_outputs_that_cannot_be_scored_are_refused():
    class Wide(FedAvg):
        def outputs(self, play):
            return super().outputs(play).repeat(1, 2)

    data = people(90)
    with pytest.raises(InputError, match="one score per value"):
        Federation(data, devices=2).play(Wide(hidden=(3,)), rounds=1).score_outputs()
    with pytest.raises(InputError, match="it has none"):
        Federation(data.without_labels(), devices=2).play(Autoencoder(hidden=(3,)), rounds=1).score_outputs()
    with pytest.raises(InputError, match="no task head"):
        Federation(data, devices=2).play(Autoencoder(hidden=(3,)), rounds=1).score_outputs()
