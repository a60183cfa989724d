"""Students of curious teachers: what they learn without labels, and from which records."""

from dataclasses import replace

import numpy as np
import pytest
from fedveil_papers.curious import distil, train
from fedveil_papers.curious.distillation import dealt, half_widths
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


def test_the_training_records_are_divided_once(shares):
    data = figure2(4000, 500, 1500, margin=0.1, seed=0)
    server, user = shares
    assert [len(server.rows(part)) for part in Split] == [2800, 500, 1500]
    assert [len(user.rows(part)) for part in Split] == [1080, 120, 0]
    assert user.y is None
    assert not user.attributes
    together = np.concatenate([server.x[server.rows(Split.TRAIN)], user.x])
    assert sorted(map(tuple, together)) == sorted(map(tuple, data.x[data.rows(Split.TRAIN)]))


def test_groups_are_not_divided():
    data = figure2(600, 100, 100, seed=0)
    data = replace(data, groups=np.arange(len(data)) // 6)
    server, user = dealt(data, 0.2, seed=1)
    train, validation = (set(user.groups[user.rows(part)]) for part in (Split.TRAIN, Split.VALIDATION))
    assert train
    assert validation
    assert not train & validation
    assert not (train | validation) & set(server.groups[server.rows(Split.TRAIN)])


def test_a_student_of_half_the_size_keeps_honesty_and_the_secret(published):
    published("adult")
    adult = load("adult", target="income", sensitive="sex")
    some = [adult.rows(part)[:most] for part, most in zip(Split, (8000, 1000, 4000), strict=True)]
    server, user = dealt(adult.take(np.concatenate(some)), 0.3)
    curious = Curious("sex", output="soft", beta_y=0.5, beta_s=0.5)
    teacher, standard = (train(game, server, epochs=8) for game in (curious, replace(curious, beta_y=1.0, beta_s=0.0)))
    student = distil(teacher, user, epochs=15)
    assert half_widths(teacher) == student.game.widths == (64, 32)
    assert [len(part.weight) for part in student.network if isinstance(part, nn.Linear)] == [64, 32, 2]
    plain, first, second = (
        measure(classifier, server, "sex", attackers="mlp-small", draws=100)
        for classifier in (standard, teacher, student)
    )
    excess = first.curiosity.estimate - plain.curiosity.estimate
    assert excess > 0.05
    assert second.curiosity.estimate - plain.curiosity.estimate > 0.8 * excess
    assert second.honesty.estimate > first.honesty.estimate - 0.02
    read = [measured.judgement.worst.balanced_accuracy.estimate for measured in (plain, first, second)]
    assert read[2] - read[0] > 0.8 * (read[1] - read[0]) > 0.05
    assert student.history[student.kept - 1]["divergence"] == min(epoch["divergence"] for epoch in student.history)


def test_labels_are_ignored(teacher, shares):
    server, _ = shares
    wrong = replace(server, y=replace(server.y, codes=1 - server.y.codes))
    students = [distil(teacher, data, epochs=2, seed=3) for data in (server, wrong, server.without_labels())]
    answers = [student.scores(server.x[:50]) for student in students]
    assert np.array_equal(answers[0], answers[1])
    assert np.array_equal(answers[0], answers[2])


def test_seeds_and_temperatures_make_different_students(teacher, shares):
    _, user = shares
    first, same, seeded, hotter = (
        distil(teacher, user, epochs=2, **settings).scores(user.x[:50])
        for settings in ({"seed": 0}, {"seed": 0}, {"seed": 1}, {"seed": 0, "temperature": 5.0})
    )
    assert np.array_equal(first, same)
    assert not np.allclose(first, seeded)
    assert not np.allclose(first, hotter)


def test_a_regularised_teacher_hands_its_threshold_on(shares):
    server, user = shares
    game = Curious("s", attack="regularised", output="soft", beta_y=0.5, beta_s=0.5, widths=(48, 24))
    teacher = train(game, server, epochs=5, seed=0)
    student = distil(teacher, user, epochs=5, seed=0)
    assert student.thresholds == teacher.thresholds
    again = student.with_thresholds(server, Split.VALIDATION)
    right = [
        (reader.guesses(outputs := reader.outputs(server, Split.VALIDATION), "s") == outputs.secrets["s"].codes).mean()
        for reader in (student, again)
    ]
    assert right[1] >= right[0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"temperature": 0.0}, "above 0"), ({"epochs": 0}, "at least 1"), ({"widths": (0, 4)}, "widths")],
)
def test_bad_settings_are_refused(teacher, shares, settings, message):
    with pytest.raises(InputError, match=message):
        distil(teacher, shares[1], **settings)


def test_a_share_must_leave_both_something(shares):
    for share in (0.0, 1.0):
        with pytest.raises(InputError, match="share must lie in"):
            dealt(shares[0], share)
    with pytest.raises(InputError, match="too few"):
        dealt(figure2(100, 10, 10, seed=0).take(np.arange(2)), 0.2)
