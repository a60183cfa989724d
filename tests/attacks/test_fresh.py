"""Attackers who learn from fresh people: every victim is scored once, by an attacker that never saw it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedveil.attacks import panel
from fedveil.attacks.attack import Attack
from fedveil.attacks.fresh import Halves, halves, some_people
from fedveil.attacks.judgement import FRESH
from fedveil.core import plugins
from fedveil.core.errors import InputError
from fedveil.data import Attribute
from fedveil.view import Pool, View

NAMES = ("a", "b")


def pool(rng, n, shift, groups=None):
    u = np.arange(n) % 2
    r = rng.normal(size=(n, 3))
    r[:, 0] += shift * (2 * u - 1)
    return Pool(r, {"u": Attribute("u", u, NAMES)}, groups)


def view(shifts, n=3000, seed=0):
    """Three pools; u shifts r by one amount for people the defence was fitted on, by another for everybody else."""
    rng = np.random.default_rng(seed)
    return View(pool(rng, n, shifts[0]), pool(rng, n // 3, shifts[1]), pool(rng, n, shifts[1]))


def judge(seen, fresh=True, attackers=("logistic",), **further):
    return panel(list(attackers), fresh=fresh, draws=200, **further).judge(seen, "u")


def test_attackers_of_fresh_people_read_what_the_fitted_people_do_not_show():
    """The people the defence was fitted on are balanced exactly; others are slightly off, with the opposite sign."""
    seen = view((-0.02, 0.4))
    judgement, panel_alone = judge(seen), judge(seen, fresh=False)
    assert [attacker.name for attacker in judgement.attackers] == ["logistic" + FRESH, "logistic"]
    assert judgement.worst.balanced_accuracy.estimate > 0.62  # Φ(0.4) = 0.655 is the optimum
    assert panel_alone.worst.balanced_accuracy.estimate < judgement.worst.balanced_accuracy.estimate - 0.05
    assert judgement.worst.balanced_accuracy.estimate < 0.69
    assert judgement.as_dict()["chosen"]["name"] == "logistic"
    assert "The one chosen on validation (logistic) reads" in judgement.in_words()[1]
    assert not any("chosen on validation" in line for line in panel_alone.in_words())
    assert judgement.draws["balanced_accuracy"][0] == judgement.worst.balanced_accuracy.estimate
    # The figure that chooses between releases is the panel's, which has never seen the victims.
    panel_s = panel_alone.worst.validation_balanced_accuracy
    assert (
        judgement.as_dict()["worst"]["validation_balanced_accuracy"]
        == panel_s
        != judgement.worst.validation_balanced_accuracy
    )


def test_where_the_panel_reads_more_its_figure_counts_and_both_are_reported():
    seen = view((0.8, 0.8), n=900)
    judgement, alone = judge(seen), judge(seen, fresh=False)
    assert {attacker.name for attacker in judgement.attackers} == {"logistic", "logistic" + FRESH}
    reads = [attacker.balanced_accuracy.estimate for attacker in judgement.attackers]
    assert reads[0] == max(reads)
    panel_s = next(attacker for attacker in judgement.attackers if attacker.name == "logistic")
    assert panel_s.balanced_accuracy.estimate == alone.worst.balanced_accuracy.estimate
    assert panel_s.balanced_accuracy == alone.worst.balanced_accuracy or judgement.worst is panel_s
    assert judgement.worst.balanced_accuracy.low <= judgement.attackers[1].balanced_accuracy.estimate


def test_fresh_attackers_join_by_themselves_where_a_defence_was_fitted_and_people_suffice():
    """The default that flattered: Attri-Fed was judged only by attackers who learned from its own training people."""
    seen = view((-0.02, 0.4), n=900)
    fitted = replace(seen, fitted=True)
    assert not any(attacker.name.endswith(FRESH) for attacker in judge(seen, fresh=None).attackers)
    assert judge(fitted, fresh=None).worst.name == "logistic" + FRESH
    assert not any(attacker.name.endswith(FRESH) for attacker in judge(fitted, fresh=False).attackers)
    few = replace(fitted, victims=fitted.victims.take(np.arange(60)))
    judgement = judge(few, fresh=None)
    assert [attacker.name for attacker in judgement.attackers] == ["logistic"]
    assert any("no attacker learned from fresh people" in note for note in judgement.notes)


def test_every_judgement_says_from_how_many_people_and_warns_where_more_would_read_more():
    rng = np.random.default_rng(0)
    wide = [pool(rng, n, 0.0) for n in (160, 400, 4000)]
    for part in wide:  # a weak trace in every one of 60 columns: the more people, the better it is learned
        shift = 0.12 * (2 * part.attributes["u"].codes[:, None] - 1)
        object.__setattr__(part, "vectors", rng.normal(size=(len(part), 60)) + shift)
    rising = judge(View(*wide), fresh=False)
    assert rising.learned_from == 160
    assert rising.still_rises
    assert any("learned from 160 people" in line and "still rising" in line for line in rising.in_words())
    easy = judge(view((1.0, 1.0), n=4000), fresh=False)
    assert not easy.still_rises
    assert any("would hardly read more" in line for line in easy.in_words())
    assert judge(view((1.0, 1.0), n=1000), fresh=True).as_dict()["from_half"] > 0.8


def test_fewer_people_are_whole_groups_of_every_value():
    rng = np.random.default_rng(0)
    some = some_people(pool(rng, 400, 0.0, np.arange(400) // 2 // 2), "u", 0.5, 0)
    assert len(some) == pytest.approx(200, abs=8)
    assert (np.unique(some.groups, return_counts=True)[1] == 4).all()


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_read_where_u_moves_nothing(seed):
    judgement = judge(view((0.0, 0.0), n=2000, seed=seed), attackers=("logistic", "boosting"))
    assert judgement.worst.balanced_accuracy.low <= 0.5 + 0.01
    assert judgement.worst.balanced_accuracy.estimate < 0.545
    assert judgement.p_value > 0.001


class Rote(Attack):
    """An attacker that memorises: 1 for the value of people it was shown, 0 for everybody else."""

    name = "rote"

    def fit(self, auxiliary, validation, classes):
        self.codes_ = {float(row[0]): code for row, code in zip(auxiliary.vectors, auxiliary.codes, strict=True)}
        assert not self.codes_.keys() & {float(row[0]) for row in validation.vectors}

    def scores(self, vectors):
        return np.array([np.arange(2) == self.codes_.get(float(row[0])) for row in vectors], dtype=np.float64)


def test_nobody_is_scored_by_an_attacker_who_learned_from_the_same_person(monkeypatch):
    monkeypatch.setattr(plugins, "load", lambda *_: Rote)
    monkeypatch.setattr(plugins, "registered", lambda _: {"rote": None})
    judgement = judge(view((0.0, 0.0), n=600), attackers=("rote",))
    assert {attacker.name for attacker in judgement.attackers} == {"rote", "rote" + FRESH}
    assert all(0.4 < attacker.balanced_accuracy.estimate < 0.6 for attacker in judgement.attackers)


def test_whole_groups_are_halved_and_values_stay_even():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), 5)
    codes = (groups % 3 == 0).astype(np.int64)
    half = halves(codes, groups, 0)
    assert all(len(set(half[groups == group])) == 1 for group in range(60))
    assert abs(codes[half == 0].mean() - codes[half == 1].mean()) < 0.1
    assert set(half) == {0, 1}
    seen = View(pool(rng, 300, 0.5), pool(rng, 300, 0.5), pool(rng, 300, 0.5, np.arange(300) // 2 % 40))
    assert judge(seen).groups == 40


def test_victims_keep_their_order_and_labels():
    seen = view((0.0, 1.5), n=900)
    kind = plugins.load("fedveil.attacks", "logistic")
    guesses = Halves.of(seen, "u", lambda p: p.vectors, 0).attempt("logistic", lambda: kind(seed=0)).victims
    np.testing.assert_array_equal(guesses.codes, seen.victims.attributes["u"].codes)
    assert (guesses.balanced == guesses.codes).mean() > 0.9  # Φ(1.5) = 0.933: guesses belong to their people


def test_a_value_too_rare_for_halves_is_refused_by_name():
    rng = np.random.default_rng(0)
    rare = pool(rng, 200, 0.0)
    codes = rare.attributes["u"].codes.copy()
    codes[:] = 0
    codes[:7] = 1
    rare.attributes["u"] = Attribute("u", codes, NAMES)
    with pytest.raises(InputError, match=r"'b' of 'u' has 7 test people, but halves need 8"):
        judge(View(pool(rng, 200, 0.0), pool(rng, 200, 0.0), rare))


def test_the_strongest_fresh_attacker_counts():
    """u moves a product only: no linear attacker reads it, boosting does."""
    rng = np.random.default_rng(0)
    u = np.arange(2400) % 2
    r = rng.normal(size=(2400, 3))
    r[:, 1] = np.abs(r[:, 1]) * np.sign(r[:, 0]) * (2 * u - 1)
    victims = Pool(r, {"u": Attribute("u", u, NAMES)})
    judgement = judge(View(pool(rng, 300, 0.0), pool(rng, 300, 0.0), victims), attackers=("logistic", "boosting"))
    assert judgement.worst.name == "boosting" + FRESH
    assert judgement.worst.balanced_accuracy.estimate > 0.9
