from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch
from torch import nn

from fedveil.attacks import panel
from fedveil.attacks.cotrained import NAME, judge_cotrained
from fedveil.core.errors import InputError
from fedveil.core.models import mlp
from fedveil.data import Split, load
from fedveil.federation import Federation
from fedveil.games import SGD, Adam, AdversarialTraining, Autoencoder, FedAvg, Game, Move, Player, Stage, WithheldError
from fedveil.games.losses import squared_error
from fedveil.shields import CertifiedChannel, Kind


@pytest.fixture(scope="module")
def data():
    return load("synthetic", target="y", sensitive="u", n=2400, bits=0.5, overlap=0.3, validation=0.15, test=0.25)


@pytest.fixture(scope="module")
def adversarial(data):
    game = AdversarialTraining(attribute="u", strength=0.5, width=8, share_adversary=True, optimiser=Adam(5e-3))
    return Federation(data, devices=6).play(game, rounds=6)


def test_what_is_released_is_what_the_shared_encoder_makes_of_x(adversarial, data):
    rows = data.rows(Split.TEST)
    encoder = adversarial.model().modules["encoder"]
    expected = encoder(torch.from_numpy(data.x[rows])).detach().numpy()
    np.testing.assert_allclose(adversarial.release(Split.TEST), expected, rtol=1e-5, atol=1e-6)
    outputs = adversarial.release(Split.TEST, Kind.OUTPUT)
    assert outputs.shape == (len(rows), 2)
    with pytest.raises(InputError, match="not released"):
        adversarial.release(Split.TEST, Kind.UPDATE)


def test_the_shield_acts_on_released_representations_and_the_certificate_holds(data):
    channel = CertifiedChannel(sigma=1.0, radius=1.0)
    run = Federation(data, devices=6, shield=channel).play(Autoencoder(width=6), rounds=3)
    bare = Federation(data, devices=6).play(Autoencoder(width=6), rounds=3)
    torch.testing.assert_close(run.shared["encoder"], bare.shared["encoder"])  # it does not act on updates
    released = run.release(Split.TEST)
    clean = bare.release(Split.TEST)
    clipped = clean * np.minimum(1, 1 / np.linalg.norm(clean, axis=1))[:, None]
    assert (released - clipped).std() == pytest.approx(1.0, abs=0.05)
    np.testing.assert_array_equal(released, run.release(Split.TEST))  # one release per person: the same again
    judged = panel(["logistic"], draws=200).judge(run.view("representations"))
    assert judged.worst.balanced_accuracy.low <= channel.release.certify_balanced_accuracy().bound


def test_a_second_release_of_other_weights_has_noise_of_its_own(data):
    run = Federation(data, devices=6, shield=CertifiedChannel(sigma=5.0)).play(Autoencoder(width=6), rounds=1)
    first = run.release(Split.TEST)
    second = run.play(2).release(Split.TEST)
    assert (first - second).std() > 5  # two independent draws differ by √2·σ; shared noise would cancel


def test_released_views_keep_groups_apart(data):
    people = replace(data, groups=np.arange(len(data)) // 10)
    view = Federation(people, devices=4).play(Autoencoder(width=3), rounds=1).view("representations")
    pools = [set(pool.groups) for pool in (view.auxiliary, view.validation, view.victims)]
    assert all(not (a & b) for a, b in combinations(pools, 2))


def test_validation_judges_by_the_federation_s_settings(data):
    class Judged(AdversarialTraining):
        def stages(self, shape):
            return tuple(replace(stage, validation=self._serve_and_hide) for stage in super().stages(shape))

    game = Judged(attribute="u", width=4, share_adversary=True, optimiser=SGD(1e-6))
    seen = {
        strength: Federation(data, devices=4, settings={"strength": strength})
        .play(game, rounds=1)
        .history[0]
        .validation
        for strength in (0.0, 1.0, 3.0)
    }
    assert seen[0.0] - seen[3.0] == pytest.approx(3 * (seen[0.0] - seen[1.0]), rel=1e-3)
    assert seen[0.0] > seen[1.0] + 0.3


def test_views_keep_the_data_s_splits_apart(adversarial, data):
    view = adversarial.view("representations")
    sizes = tuple(len(pool) for pool in (view.auxiliary, view.validation, view.victims))
    assert sizes == tuple(len(data.rows(split)) for split in Split)
    np.testing.assert_array_equal(view.victims.attributes["u"].codes, data.attributes["u"].codes[data.rows(Split.TEST)])
    assert adversarial.view("outputs").victims.vectors.shape[1] == 2


def test_heads_serve_several_tasks_and_say_what_each_group_gets(adversarial, data):
    on_y, on_u = adversarial.fit_head("y", "u")
    assert (on_y.task, on_u.task) == ("y", "u")
    for utility in (on_y, on_u):
        assert utility.accuracy.low <= utility.accuracy.estimate <= utility.accuracy.high
        assert utility.prior >= 0.5
        assert set(utility.by_group) == {"u"}
        shares = data.attributes["u"].take(data.rows(Split.TEST)).counts / len(data.rows(Split.TEST))
        parts = [figure.estimate for figure in utility.by_group["u"].values()]
        assert float(shares @ parts) == pytest.approx(utility.accuracy.estimate)
    assert on_u.accuracy.estimate > on_u.prior + 0.1
    assert on_u.as_dict()["by_group"]["u"].keys() == {"0", "1"}
    with pytest.raises(InputError, match="no task 'z'"):
        adversarial.fit_head("z")


def test_the_cotrained_attacker_is_named_as_weak_and_beaten_by_a_retrained_one(adversarial, data):
    weak = judge_cotrained(adversarial, "u", draws=200)
    assert weak.name == NAME
    assert "weak" in weak.name
    rows = data.rows(Split.TEST)
    adversary = adversarial.model().modules["adversary"]
    logits = adversary(torch.from_numpy(adversarial.release(Split.TEST)).float())
    right = (logits.argmax(dim=1).numpy() == data.attributes["u"].codes[rows]).mean()
    assert weak.accuracy.estimate == pytest.approx(right)
    strong = panel("quick", draws=200).judge(adversarial.view(), "u").worst
    assert strong.balanced_accuracy.estimate >= weak.balanced_accuracy.estimate - 0.03


def test_local_adversaries_are_averaged_over_devices(data):
    run = Federation(data, devices=4).play(AdversarialTraining(attribute="u", width=4, optimiser=SGD(0.1)), rounds=2)
    rows = data.rows(Split.TEST)
    x = torch.from_numpy(run.release(Split.TEST)).float()
    mean = torch.stack([run.model(d).modules["adversary"](x).softmax(dim=1) for d in range(4)]).mean(dim=0)
    right = (mean.argmax(dim=1).numpy() == data.attributes["u"].codes[rows]).mean()
    assert judge_cotrained(run, "u", draws=100).accuracy.estimate == pytest.approx(right)


def test_games_without_adversary_or_representation_say_so(data):
    run = Federation(data, devices=4).play(FedAvg(hidden=(4,)), rounds=1)
    with pytest.raises(InputError, match="releases no representations"):
        run.view("representations")
    with pytest.raises(InputError, match="trains no adversary"):
        judge_cotrained(run, "u")


class LocalEncoders(Game):
    """Every device has an encoder of its own, as in Attri-Fed; a greedy variant reads y when it releases."""

    name = "local encoders"

    def __init__(self, greedy=False):
        self.greedy = greedy

    def players(self, shape):
        return {
            "encoder": Player(lambda generator: mlp([16, 3], generator, last=nn.Tanh()), SGD(0.5)),
            "decoder": Player(lambda generator: mlp([3, 16], generator), SGD(0.5)),
        }

    def stages(self, shape):
        both = ("encoder", "decoder")
        loss = lambda play: squared_error(play("decoder", play("encoder", play.x)), play.x)  # noqa: E731
        return (Stage(moves=(Move(both, loss),), shared=frozenset({"decoder"}), reads=frozenset({"x"})),)

    def represent(self, play):
        return play("encoder", play.x) * (play.y.unsqueeze(-1) if self.greedy else 1)


def test_records_are_encoded_by_their_own_device_where_encoders_stay_local(data):
    run = Federation(data, devices=3).play(LocalEncoders(), rounds=3)
    released = run.release(Split.TEST)
    x = torch.from_numpy(data.x[data.rows(Split.TEST)])
    each = np.stack([run.model(device).modules["encoder"](x).detach().numpy() for device in range(3)])
    nearest = np.abs(each - released).max(axis=2).argmin(axis=0)
    assert np.abs(each[nearest, np.arange(len(x))] - released).max() < 1e-5
    assert np.bincount(nearest, minlength=3).min() > len(x) / 5


def test_a_release_may_read_x_only(data):
    with pytest.raises(WithheldError, match="'y'"):
        Federation(data, devices=3).play(LocalEncoders(greedy=True), rounds=1).release(Split.TEST)
