"""The laboratory: clients, runs, what attackers see, and how a shield changes that."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from fedveil_papers.recup.laboratory import Laboratory, Point, Task, make_task
from fedveil_papers.recup.laboratory.matching import at_norm, relative_norm
from fedveil_papers.recup.laboratory.sending import Sender
from fedveil_papers.recup.laboratory.training import train
from small_task import small_data

from fedveil.config import Policy, shield_for
from fedveil.core.errors import InputError
from fedveil.data import Split
from fedveil.federation.aggregation import Median
from fedveil.shields import DPGaussian, Identity, Kind, Shield, ShieldError, Sparsify

READS = [("max", "logistic"), ("recovered", "logistic")]


@pytest.fixture(scope="module")
def lab(task):
    return Laboratory(task, rounds=(1, 20), static=READS[:1], adaptive=READS, pool=READS[1:], draws=100)


def test_without_a_shield_learning_is_unharmed_and_u_is_read(lab):
    point = lab.measure("none")
    assert point.kept == 1
    assert point.damage[1]["relative_l2"] == 0
    assert point.worst("u").balanced_accuracy.estimate > 0.9
    assert {reading.mode for reading in point.readings} == {"static", "retrained", "pooled"}
    assert lab.undefended.losses[21] < 0.7 * lab.undefended.losses[1]


def test_the_shield_of_a_policy_by_default_is_read_less():
    task = Task(small_data(), "adult", rate=1.0, momentum=0.5, clients=60)
    shield = shield_for(Policy(hide={"u": 1.0}, shield={"kind": "recommended", "change": 0.5}))
    lab = Laboratory(task, static=(), adaptive=[("recovered", "logistic")], draws=100)
    bare, defended = lab.measure("none"), lab.measure("recommended", shield)
    read = [point.worst("u").balanced_accuracy.estimate for point in (bare, defended)]
    assert read[1] < read[0] - 0.05
    assert np.isfinite(defended.kept)


def test_no_share_of_learning_is_kept_if_the_undefended_loss_rose(task):
    # A server that steps uphill: the undefended loss rises, and a ratio of two rises is not a share of anything.
    rising = Laboratory(
        replace(task, rate=-1.0), rounds=(1,), static=READS[:1], adaptive=READS[:1], length=3, draws=100
    )
    assert rising.undefended.reduction < 0
    for point in (rising.measure("none"), rising.measure("noise", DPGaussian(0.01, clip=None))):
        assert point.losses
        assert point.kept is None
        assert point.validation_kept is None
        assert Point.of(point.as_dict()).kept is None


def test_static_attackers_on_clean_updates_are_the_retrained_ones(lab):
    point = lab.measure("none")
    static, retrained = (
        [reading for reading in point.read("u", mode) if reading.features == "max"] for mode in ("static", "retrained")
    )
    assert [reading.balanced_accuracy for reading in static] == [reading.balanced_accuracy for reading in retrained]


def test_noise_blinds_attackers_of_clean_updates_but_not_retrained_ones(lab):
    matched = at_norm(lab, lambda sigma: DPGaussian(sigma=sigma, clip=None), 1.0, (1e-8, 10.0), 1)
    assert matched is not None
    point = lab.measure("noise", matched[1], 1.0)
    assert point.damage[1]["relative_l2"] == pytest.approx(1.0, rel=0.1)
    static = point.worst("u", "static", 1).balanced_accuracy.estimate
    retrained = point.worst("u", "retrained", 1).balanced_accuracy.estimate
    assert retrained > static + 0.03
    assert retrained > 0.9
    assert point.kept is not None
    assert point.kept > 0.5


def test_a_shield_on_inputs_takes_the_attribute_out_of_every_update(lab):
    class Without(Shield):
        name = "without column 0"
        acts_on = frozenset({Kind.INPUT})

        def change(self, message, context):
            return message.with_values(message.values * (torch.arange(8) > 0))

    point = lab.measure("without", Without())
    assert point.worst("u").balanced_accuracy.estimate < 0.6
    assert point.worst("u", "pooled").balanced_accuracy.estimate < 0.6
    assert point.kept is not None
    assert point.kept > 0.9


def test_a_client_whose_shield_fails_sends_nothing_and_is_counted(task):
    class Picky(Shield):
        name = "picky"

        def change(self, message, context):
            if context.device % 3 == 0:
                raise ShieldError("not today")
            return message

    sender = Sender.prepare(task, Picky())
    people = task.people(Split.TRAIN)[:30]
    sent = sender.send(task.model(), people, 1)
    assert [int(person) for person in people[sent.speaking, 0]] == [
        int(person) for person in people[:, 0] if person % 3
    ]
    run = train(sender, 2)
    assert run.silent > 0

    class Broken(Picky):
        def change(self, message, context):
            raise ShieldError("never")

    with pytest.raises(InputError, match="no client could send anything: never"):
        train(Sender.prepare(task, Broken()), 1)


def test_runs_are_bit_identical_and_robust_servers_work(task):
    first, second = (train(Sender.prepare(task, DPGaussian(sigma=0.01, clip=1.0)), 3) for _ in range(2))
    assert torch.equal(first.weights[4], second.weights[4])
    assert train(Sender.prepare(task), 3, aggregation=Median()).losses[4] != first.losses[4]
    assert train(Sender.prepare(task), 3, fraction=1.0).losses[4] != first.losses[4]


def test_clients_of_several_records_share_a_value_or_are_one_person():
    data = small_data()
    task = Task(data, "adult", rate=1.0, records=5, together="u")
    people = task.people(Split.TRAIN)
    codes = data.attributes["u"].codes[people]
    assert people.shape[1] == 5
    assert (codes == codes[:, :1]).all()
    assert len(np.unique(people)) == people.size
    model = task.model()
    alone = replace(task, records=1).gradients(model, people[:2].reshape(-1, 1))
    assert torch.allclose(task.gradients(model, people[:2]), alone.view(2, 5, -1).mean(dim=1), atol=1e-6)
    clients = Task(data, "adult", rate=1.0, records=2, together="person").people(Split.TRAIN)
    assert (data.groups[clients[:, 0]] == data.groups[clients[:, 1]]).all()


def test_norms_are_met_or_out_of_reach(lab):
    assert at_norm(lab, lambda p: Sparsify(p=p), 5.0, (0.0, 0.99), 1) is None
    matched = at_norm(lab, lambda p: Sparsify(p=p), 0.3, (0.0, 0.99), 1)
    assert matched is not None
    assert relative_norm(lab, matched[1], 1) == pytest.approx(0.3, rel=0.1)
    assert relative_norm(lab, Identity(), 1) == 0


def test_bad_settings_are_refused_in_one_line(task):
    with pytest.raises(InputError, match="no task on 'adlut': did you mean 'adult'"):
        make_task("adlut", ["sex"])
    with pytest.raises(InputError, match="need `together`"):
        Task(task.data, "adult", rate=1.0, records=3)
    with pytest.raises(InputError, match="read without a task"):
        Task(replace(task.data, y=None), "adult", rate=1.0)
    with pytest.raises(InputError, match="no sensitive attribute"):
        Laboratory(task, attributes=["v"])
    with pytest.raises(InputError, match="norm"):
        at_norm(Laboratory(task, static=READS[:1], adaptive=()), lambda p: Sparsify(p=p), 0, (0.0, 0.9), 1)
