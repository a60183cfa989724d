"""Students of curious teachers: what they learn without labels, and from whose records."""

from dataclasses import replace

import numpy as np
import pytest
from fedveil_papers.curious import distil, train
from fedveil_papers.curious.distillation import dealt, half
from fedveil_papers.curious.figure2 import figure2
from fedveil_papers.curious.measuring import measure
from torch import nn

from fedveil.core.errors import InputError
from fedveil.data import Split, load
from fedveil.games.curious import Curious


@pytest.fixture(scope="module")
def shares():
    return dealt(figure2(4000, 500, 1500, margin=0.1, seed=0), 0.3, seed=0)


@pytest.fixture(scope="module")
def teacher(shares):
    game = Curious("s", output="soft", beta_y=0.5, beta_s=0.5, widths=(48, 24))
    return train(game, shares[0], epochs=3, seed=0)


def test_the_training_people_are_dealt_out_once(shares):
    data = figure2(4000, 500, 1500, margin=0.1, seed=0)
    server, user = shares
    assert [len(server.rows(part)) for part in Split] == [2800, 500, 1500]
    assert [len(user.rows(part)) for part in Split] == [1080, 120, 0]
    assert user.y is None
    assert not user.attributes
    theirs = np.concatenate([server.x[server.rows(Split.TRAIN)], user.x])
    assert sorted(map(tuple, theirs)) == sorted(map(tuple, data.x[data.rows(Split.TRAIN)]))


def test_people_stay_whole():
    data = figure2(600, 100, 100, seed=0)
    data = replace(data, groups=np.arange(len(data)) // 6)
    server, user = dealt(data, 0.2, seed=1)
    own, held = (set(user.groups[user.rows(part)]) for part in (Split.TRAIN, Split.VALIDATION))
    assert own
    assert held
    assert not own & held
    assert not (own | held) & set(server.groups[server.rows(Split.TRAIN)])


def test_a_student_of_half_the_size_keeps_honesty_and_the_secret(published):
    published("adult")
    adult = load("adult", target="income", sensitive="sex")
    some = [adult.rows(part)[:most] for part, most in zip(Split, (8000, 1000, 4000), strict=True)]
    server, user = dealt(adult.take(np.concatenate(some)), 0.3)
    curious = Curious("sex", output="soft", beta_y=0.5, beta_s=0.5)
    teacher, standard = (train(game, server, epochs=8) for game in (curious, replace(curious, beta_y=1.0, beta_s=0.0)))
    student = distil(teacher, user, epochs=15)
    assert half(teacher) == student.game.widths == (64, 32)
    assert [len(part.weight) for part in student.network if isinstance(part, nn.Linear)] == [64, 32, 2]
    plain, first, second = (
        measure(one, server, "sex", attackers="mlp-small", draws=100) for one in (standard, teacher, student)
    )
    excess = first.curiosity.estimate - plain.curiosity.estimate
    assert excess > 0.05
    assert second.curiosity.estimate - plain.curiosity.estimate > 0.8 * excess
    assert second.honesty.estimate > first.honesty.estimate - 0.02
    read = [one.judgement.worst.balanced_accuracy.estimate for one in (plain, first, second)]
    assert read[2] - read[0] > 0.8 * (read[1] - read[0]) > 0.05
    assert student.history[student.kept - 1]["divergence"] == min(one["divergence"] for one in student.history)


def test_labels_are_never_looked_at(teacher, shares):
    server, _ = shares
    wrong = replace(server, y=replace(server.y, codes=1 - server.y.codes))
    students = [distil(teacher, one, epochs=2, seed=3) for one in (server, wrong, server.without_labels())]
    answers = [one.scores(server.x[:50]) for one in students]
    assert np.array_equal(answers[0], answers[1])
    assert np.array_equal(answers[0], answers[2])


def test_seeds_and_temperatures_make_different_students(teacher, shares):
    _, user = shares
    one, same, seeded, hotter = (
        distil(teacher, user, epochs=2, **told).scores(user.x[:50])
        for told in ({"seed": 0}, {"seed": 0}, {"seed": 1}, {"seed": 0, "temperature": 5.0})
    )
    assert np.array_equal(one, same)
    assert not np.allclose(one, seeded)
    assert not np.allclose(one, hotter)


def test_a_regularised_teacher_hands_its_threshold_on(shares):
    server, user = shares
    game = Curious("s", attack="regularised", output="soft", beta_y=0.5, beta_s=0.5, widths=(48, 24))
    teacher = train(game, server, epochs=5, seed=0)
    student = distil(teacher, user, epochs=5, seed=0)
    assert student.thresholds == teacher.thresholds
    again = student.with_thresholds(server, Split.VALIDATION)
    right = [
        (one.guesses(outputs := one.outputs(server, Split.VALIDATION), "s") == outputs.secrets["s"].codes).mean()
        for one in (student, again)
    ]
    assert right[1] >= right[0]


@pytest.mark.parametrize(
    ("told", "said"), [({"temperature": 0.0}, "above 0"), ({"epochs": 0}, "at least 1"), ({"widths": (0, 4)}, "widths")]
)
def test_bad_settings_are_told(teacher, shares, told, said):
    with pytest.raises(InputError, match=said):
        distil(teacher, shares[1], **told)


def test_a_share_must_leave_both_something(shares):
    for share in (0.0, 1.0):
        with pytest.raises(InputError, match="share must lie in"):
            dealt(shares[0], share)
    with pytest.raises(InputError, match="too few"):
        dealt(figure2(100, 10, 10, seed=0).take(np.arange(2)), 0.2)
