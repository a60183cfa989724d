import numpy as np
import pytest

from fedveil.attacks import FULL, Panel, panel
from fedveil.attacks.panel import holm
from fedveil.core import plugins
from fedveil.core.errors import InputError
from fedveil.data import Attribute, intersect, load
from fedveil.view import View


def attribute(codes, name="u"):
    return Attribute.from_column(name, np.asarray(codes))


def view_of(vectors, codes, **options):
    return View.of_vectors(vectors, {"u": attribute(codes)}, **options)


@pytest.fixture(scope="module")
def shifted():
    """Two thousand vectors whose first coordinate is shifted by u: the optimum is Φ(.75) = .773."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, 2000)
    vectors = rng.normal(size=(2000, 6))
    vectors[:, 0] += 1.5 * codes
    return vectors, codes


@pytest.mark.parametrize("name", FULL)
def test_every_attacker_reads_a_shift(name, shifted):
    judgement = Panel(attackers=(name,), draws=200).judge(view_of(*shifted))
    assert 0.68 < judgement.worst.balanced_accuracy.estimate < 0.85
    assert judgement.p_value < 1e-6
    assert judgement.worst.auc.estimate > 0.78


@pytest.mark.parametrize("name", [name for name in FULL if name != "logistic"])
def test_every_attacker_but_the_linear_one_reads_an_exclusive_or(name):
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(3000, 2))
    codes = (vectors[:, 0] * vectors[:, 1] > 0).astype(int)
    assert Panel(attackers=(name,), draws=100).judge(view_of(vectors, codes)).worst.balanced_accuracy.estimate > 0.9


def test_nothing_is_read_from_noise():
    rng = np.random.default_rng(2)
    judgements = [
        panel("quick", draws=100, seed=seed).judge(view_of(rng.normal(size=(600, 4)), rng.integers(0, 2, 600)))
        for seed in range(8)
    ]
    assert sum(judgement.p_value < 0.05 for judgement in judgements) <= 2
    assert all(judgement.mutual_information_bits.low < 0.02 for judgement in judgements)


def test_a_weighted_attacker_sees_what_an_unweighted_one_misses():
    rng = np.random.default_rng(3)
    codes = (rng.random(6000) < 0.1).astype(int)
    vectors = rng.normal(size=(6000, 3))
    vectors[:, 0] += 0.8 * codes
    judgement = Panel(attackers=("logistic",), draws=100).judge(view_of(vectors, codes))
    assert judgement.worst.balanced_accuracy.estimate > 0.62
    assert (
        judgement.worst.accuracy.estimate >= judgement.prior.estimate - 0.01
    )  # judged by accuracy, it guesses the prior


def test_the_same_seed_gives_the_same_figures_to_the_last_bit(shifted):
    first, second = (panel("full", draws=100, seed=5).judge(view_of(*shifted, seed=5)) for _ in range(2))
    assert first == second
    assert first != panel("full", draws=100, seed=6).judge(view_of(*shifted, seed=6))


def test_victims_labels_are_read_for_scoring_only(shifted):
    vectors, codes = shifted
    view = view_of(vectors, codes)
    guessed = []
    for victims in (view.victims.attributes["u"].codes, 1 - view.victims.attributes["u"].codes):
        swapped = View(
            view.auxiliary,
            view.validation,
            type(view.victims)(view.victims.vectors, {"u": Attribute("u", victims, ("0", "1"))}),
        )
        attackers = panel("quick", draws=100).judge(swapped).attackers
        guessed.append({attacker.name: attacker.balanced_accuracy.estimate for attacker in attackers})
    # With the victims' labels flipped the same guesses are right exactly where they were wrong.
    for name, estimate in guessed[0].items():
        assert estimate + guessed[1][name] == pytest.approx(1)


def test_multi_valued_continuous_and_unlabelled(shifted):
    vectors, _ = shifted
    age = vectors[:, 1] * 10 + 40
    age[::10] = np.nan
    view = View.of_vectors(vectors, {"age": Attribute.from_column("age", age)})
    judgement = Panel(attackers=("boosting",), draws=100).judge(view)
    assert len(judgement.classes) == 3
    assert judgement.unlabelled == 200
    assert judgement.prior.estimate == pytest.approx(1 / 3, abs=0.02)
    assert judgement.worst.balanced_accuracy.estimate > 0.9


def test_several_attributes_and_their_intersection_are_corrected_for_multiplicity(shifted):
    vectors, codes = shifted
    rng = np.random.default_rng(4)
    attributes = {"u": attribute(codes), "coin": attribute(rng.integers(0, 2, len(codes)), "coin")}
    joint = intersect(list(attributes.values()))
    view = View.of_vectors(vectors, {**attributes, joint.name: joint})
    judges = Panel(attackers=("logistic",), draws=200)
    judgements = judges.judge_all(view)
    assert [j.attribute for j in judgements][-1] == "coin"
    assert all(j.confidence == pytest.approx(1 - 0.05 / 3) for j in judgements)
    assert all(j.adjusted_p_value >= j.p_value for j in judgements)
    assert judgements[-1].adjusted_p_value > 0.05
    alone = judges.judge(view, "u")
    together = next(j for j in judgements if j.attribute == "u")
    assert together.worst.balanced_accuracy.estimate == alone.worst.balanced_accuracy.estimate
    assert together.worst.balanced_accuracy.low < alone.worst.balanced_accuracy.low


def test_leakage_beyond_what_the_attacker_knew():
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 2, 4000)
    background = rng.normal(size=(4000, 1)) + codes[:, None]
    repeats = background + 0.01 * rng.normal(size=background.shape)  # adds nothing to what is known
    adds = rng.normal(size=(4000, 1)) + codes[:, None]
    judgements = {
        name: Panel(attackers=("logistic",), draws=300).judge(view_of(vectors, codes, given=background)).beyond
        for name, vectors in {"repeats": repeats, "adds": adds}.items()
    }
    assert judgements["repeats"].balanced_accuracy.low <= 0.005
    assert judgements["repeats"].mutual_information_bits.low < 0.002
    assert judgements["adds"].balanced_accuracy.low > 0.02
    assert judgements["adds"].mutual_information_bits.low > 0.05


def test_what_is_written_in_a_small_difference_of_large_columns_is_read():
    rng = np.random.default_rng(6)
    codes, base = rng.integers(0, 2, 3000), rng.normal(size=3000)
    vectors = np.c_[base, base + 0.01 * (codes - 0.5), rng.normal(size=(3000, 6))]
    assert panel("quick", draws=100).judge(view_of(vectors, codes)).worst.balanced_accuracy.estimate > 0.99


def test_given_columns_that_confuse_do_not_weaken_the_attacker():
    rng = np.random.default_rng(7)
    codes = rng.integers(0, 2, 2000)
    vectors = rng.normal(size=(2000, 3)) + codes[:, None]
    alone = panel(["logistic"], draws=100).judge(view_of(vectors, codes)).worst.balanced_accuracy.estimate
    names = np.eye(600)[rng.integers(0, 600, 2000)]
    confused = panel(["logistic"], draws=100).judge(view_of(vectors, codes, given=names))
    assert confused.worst.balanced_accuracy.estimate > alone - 0.02
    looks = ("", " (vectors alone)", " (given columns alone)")
    assert {attacker.name for attacker in confused.attackers} == {f"logistic{look}" for look in looks}


def test_the_headline_is_not_below_what_given_columns_alone_reveal():
    rng = np.random.default_rng(8)
    codes = rng.integers(0, 2, 400)
    given = (codes + rng.normal(size=400))[:, None]
    judgement = panel(["logistic"], draws=100).judge(view_of(rng.normal(size=(400, 300)), codes, given=given))
    assert judgement.beyond is not None
    assert judgement.worst.balanced_accuracy.estimate >= judgement.beyond.baseline.balanced_accuracy.estimate


@pytest.mark.parametrize("name", FULL)
def test_few_records_that_say_everything_are_read_with_certainty(name):
    codes = np.arange(60) % 2
    vectors = np.c_[2.0 * codes - 1, np.random.default_rng(8).normal(size=60)]
    judgement = panel([name], draws=100).judge(view_of(vectors, codes))
    assert judgement.worst.balanced_accuracy.estimate == 1
    assert judgement.worst.balanced_accuracy.low < 0.9  # eighteen victims prove little
    assert judgement.mutual_information_bits.estimate > 0.9


def test_groups_reach_the_intervals_the_power_and_the_splits():
    rng = np.random.default_rng(9)
    person = np.repeat(np.arange(120), 25)
    codes = (np.arange(120) % 2)[person]
    vectors = (rng.normal(size=(120, 3)) + 0.7 * (np.arange(120) % 2)[:, None])[person] + 0.01 * rng.normal(
        size=(3000, 3)
    )
    grouped = panel(["logistic"], draws=300).judge(view_of(vectors, codes, groups=person))
    loose = panel(["logistic"], draws=300).judge(view_of(vectors, codes))
    assert grouped.groups == 36
    assert grouped.worst.balanced_accuracy.high - grouped.worst.balanced_accuracy.low > 0.15
    assert loose.worst.balanced_accuracy.high - loose.worst.balanced_accuracy.low < 0.1
    assert grouped.detectable_advantage > 3 * loose.detectable_advantage
    assert grouped.p_value > loose.p_value


@pytest.mark.parametrize(
    ("scores", "message"),
    [("np.full((len(vectors), 2), np.nan)", "NaN"), ("np.zeros((len(vectors), 3))", "shape"), ("np.zeros(3)", "shape")],
)
def test_a_broken_attacker_is_refused_and_not_taken_for_harmless(third_party, shifted, scores, message):
    third_party(
        "fedveil.attacks",
        "import numpy as np\nfrom fedveil.attacks import Attack\nclass Theirs(Attack):\n    name = 'broken'\n"
        f"    def fit(self, *_): pass\n    def scores(self, vectors): return {scores}\n",
    )
    with pytest.raises(InputError, match=message):
        panel(["theirs"], draws=100).judge(view_of(*shifted))


def test_scores_of_any_offset_are_welcome(third_party, shifted):
    third_party(
        "fedveil.attacks",
        "import numpy as np\nfrom fedveil.attacks import Attack\nclass Theirs(Attack):\n    name = 'far'\n"
        "    def fit(self, *_): pass\n"
        "    def scores(self, vectors): return np.stack([0 * vectors[:, 0], vectors[:, 0] + 1e5], 1)\n",
    )
    assert panel(["theirs"], draws=100).judge(view_of(*shifted)).worst.balanced_accuracy.estimate > 0.7


def test_constant_and_extreme_vectors_run_through_every_attacker():
    codes = np.arange(300) % 2
    for vectors in (np.full((300, 3), 7.0), np.where(codes, 1e200, -1e200)[:, None] * np.ones((1, 2))):
        judgement = panel("full", draws=100).judge(view_of(vectors, codes))
        assert 0 <= judgement.worst.balanced_accuracy.estimate <= 1
    assert judgement.worst.balanced_accuracy.estimate == 1


def test_holm():
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_a_third_party_s_attack_joins_by_entry_point(third_party, shifted):
    third_party(
        "fedveil.attacks",
        "import numpy as np\nfrom fedveil.attacks import Attack\nclass Theirs(Attack):\n    name = 'theirs'\n"
        "    def fit(self, auxiliary, validation, classes): pass\n"
        "    def scores(self, vectors): return np.stack([-vectors[:, 0], vectors[:, 0]], 1)\n",
    )
    assert "theirs" in plugins.registered("fedveil.attacks")
    judgement = panel(["theirs"], draws=100).judge(view_of(*shifted))
    assert judgement.worst.balanced_accuracy.estimate > 0.72


def test_a_third_party_s_attack_of_another_kind_is_refused(third_party, shifted):
    third_party("fedveil.attacks", "class Theirs:\n    pass\n")
    with pytest.raises(InputError, match="is not a fedveil"):
        panel(["theirs"], draws=100).judge(view_of(*shifted))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: panel("fulll"), "did you mean 'full'"),
        (lambda: panel(["boostin"]).judge(view_of(np.eye(30), np.arange(30) % 2)), "did you mean 'boosting'"),
        (lambda: panel([]), "at least one"),
        (lambda: Panel(draws=3), "at least 100"),
        (lambda: panel().judge(view_of(np.eye(30), np.zeros(30))), "one value"),
        (lambda: panel().judge(view_of(np.eye(30), np.arange(30) % 2), "v"), "no attribute 'v'"),
        (lambda: panel().judge(view_of(np.eye(30), [0] * 29 + [1])), "missing from"),
    ],
)
def test_what_cannot_be_judged_is_refused_in_one_line(make, message):
    with pytest.raises(InputError, match=message) as fault:
        make()
    assert "\n" not in str(fault.value)


def test_a_judgement_keeps_its_strongest_attacker_s_draws_and_does_not_print_them():
    data = load("synthetic", sensitive="u", n=900, bits=0.3)
    first, again = (panel(["logistic"], draws=150).judge(View.of_data(data)) for _ in range(2))
    assert set(first.draws) == {"balanced_accuracy", "accuracy"}
    for name, draws in first.draws.items():
        figure = getattr(first.worst, name)
        assert draws.shape == (151,)
        assert draws[0] == figure.estimate
        assert np.quantile(draws[1:], 0.025) == pytest.approx(figure.low)
        np.testing.assert_array_equal(draws, again.draws[name])
    assert first == again
    assert "draws" not in first.as_dict()
    assert "draws" not in repr(first)
