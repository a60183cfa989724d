"""The sentences state what the figures show, and no more."""

from __future__ import annotations

import re

import pytest
from synthetic_study import METHODS, Law

from fedveil.report import in_words
from fedveil.report.pairs import pair_of
from fedveil.report.words import shown


def words(results, task="income", attribute="sex"):
    return {sentence.about: sentence.text for sentence in in_words(results, task, attribute)}


def figure(results, method, strength=None, what="leakage"):
    frontier = pair_of(results, "income", "sex").frontier
    (point,) = [p for p in frontier.points if (p.method, p.strength) == (method, strength)]
    return shown(getattr(point, what))


def test_the_figures_stated_are_the_studys(study):
    results = study()
    sentences = words(results)
    assert figure(results, "none") in sentences["undefended"]
    assert figure(results, "none", what="utility") in sentences["undefended"]
    assert "guessing gives 0.50" in sentences["undefended"]
    assert "guessing 0.75" in sentences["undefended"]
    assert "100 devices with adult data" in sentences["undefended"]
    assert (
        "certified-channel (sigma 0.5) leaks least" in sentences["defence"]
        or "adversarial (strength 2)" in sentences["defence"]
    )
    assert "partial" not in sentences
    assert sentences["caveat"].startswith(
        "Figures not marked CERTIFIED are estimates against the attackers tried (boosting,"
    )
    assert in_words(results, "income", "sex") == in_words(results, "income", "sex")


def test_the_defence_is_chosen_on_validation_and_reported_with_its_test_figure(study):
    methods = METHODS | {"better": Law((1.0, 2.0), (0.5, 0.1), (0.98, 0.5))}
    results = study(methods=methods)
    sentence = words(results)["defence"]
    assert "better (strength 1) leaks least" in sentence  # strength 2 leaks less and has lost its use
    assert figure(results, "better", 1.0) in sentence
    assert re.search(r"at a cost of \S+ \[\S+, \S+\] points of income accuracy", sentence)


def test_nothing_beats_dropping_columns(study):
    sentence = words(study())["baseline"]
    assert sentence.startswith("Nothing tried here is shown to beat simply dropping columns")
    assert "worse at the same leakage: certified-channel (by " in sentence


def test_what_beats_dropping_columns_is_named(study):
    methods = METHODS | {"better": Law((1.0, 2.0), (0.7, 0.3), (1.5, 1.3))}
    sentence = words(study(methods=methods))["baseline"]
    assert sentence.startswith("At the same leakage, better (by ")
    assert "keeps more income accuracy than dropping columns" in sentence


def test_no_fall_is_claimed_where_none_can_be_shown(study):
    methods = {"none": METHODS["none"], "idle": Law((1.0,), (1.0,), (1.0,))}
    sentences = words(study(methods=methods))
    assert "no reduction is shown" in sentences["defence"]
    assert "has no figures here to compare with" in sentences["baseline"]
    assert sentences["certified"] == "Nothing here is proved about sex: no setting has a certificate."


def test_no_defence_stays_useful(study):
    methods = {"none": METHODS["none"], "blunt": Law((1.0,), (0.1,), (0.2,))}
    assert words(study(methods=methods))["defence"].startswith("No defence keeps nine tenths")


def test_the_cotrained_adversary_is_not_called_evidence(study):
    sentence = words(study())["cotrained"]
    assert "adversarial (strength 0.5)" in sentence
    assert sentence.endswith("the defence's own adversary is no evidence of privacy.")


def test_a_cotrained_adversary_as_good_as_others_is_not_blamed(study):
    methods = {"none": METHODS["none"], "game": Law((1.0,), (0.03,), (1.0,), cotrained=True)}
    assert words(study(methods=methods))["cotrained"].endswith("which here is no clear difference.")


def test_only_certificates_are_proved(study):
    sentences = words(study())
    assert sentences["certified"].startswith("Only certified-channel is proved: at sigma 4, no attacker can exceed")
    assert "balanced accuracy 0.60 " in sentences["certified"]  # Φ(1/4) = 0.5987, rounded to the safe side
    others = " ".join(text for about, text in sentences.items() if about != "certified")
    assert "proved" not in others
    assert "guarantee" not in others


def test_a_loose_certificate_says_nothing(study):
    methods = {"none": METHODS["none"], "loose": Law((0.01,), (0.9,), (0.9,), certified=True)}
    assert "too loose to exclude anything" in words(study(methods=methods))["certified"]


def test_a_partial_study_says_so_first(study):
    results = study(unfinished=["m3-1-seed1"], damaged=["m0-0-seed1"], without={"m2-1-seed0": ["leakage/sex"]})
    first = in_words(results, "income", "sex")[0]
    assert first.about == "partial"
    assert first.text.startswith(
        "This study is partial: 2 of 18 planned cells are not finished (1 damaged) and 1 finished lacks"
    )


def test_without_an_undefended_cell_no_reduction_is_claimed(study):
    methods = {name: law for name, law in METHODS.items() if name != "none"}
    sentences = words(study(methods=methods))
    assert "it is not known how much" in sentences["undefended"]
    assert "defence" not in sentences


@pytest.mark.parametrize("unfinished", [[f"m{m}-{k}-seed{s}" for m in range(4) for k in range(3) for s in (0, 1)]])
def test_a_study_without_a_finished_cell(study, unfinished):
    results = study(unfinished=unfinished)
    assert [sentence.about for sentence in in_words(results, "income", "sex")] == ["partial", "undefended"]


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_without_three_seeds_it_is_said_why_no_new_seed_is_predicted(study, seeds):
    sentence = words(study(seeds=seeds))["seeds"]
    verb = "is 1" if len(seeds) == 1 else "are 2"
    assert sentence == (
        f"What another seed's release would reveal is not predicted: that takes 3 seeds, and here there {verb}."
    )


def test_another_seeds_release_is_predicted_beside_the_headline(study):
    results = study(seeds=(0, 1, 2))
    pair = pair_of(results, "income", "sex")
    predicted = {(row.method, row.strength): row.leakage.new_seed for row in pair.rows if row.attacker == "retrained"}
    free, best = pair.undefended, pair.recommended
    assert free is not None
    assert best is not None
    sentence = words(results)["seeds"]
    assert f"at {shown(predicted[free.method, free.strength])} without a defence" in sentence
    assert f"at {shown(predicted[best.method, best.strength])} with {best.method} (" in sentence
    assert sentence.endswith("(95% prediction over seeds).")
    new = predicted[free.method, free.strength]
    assert new.high - new.low > free.leakage.high - free.leakage.low  # a further seed varies too


def test_without_an_undefended_or_useful_cell_nothing_is_predicted(study):
    methods = {name: law for name, law in METHODS.items() if name != "none"}
    assert "seeds" not in words(study(methods=methods))
