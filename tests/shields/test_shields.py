import numpy as np
import pytest
import torch

from fedveil.certificates import gaussian_advantage_bound
from fedveil.core import plugins
from fedveil.core.errors import InputError
from fedveil.core.randomness import torch_generator
from fedveil.data import Attribute, AttributeData
from fedveil.federation import Federation, begin
from fedveil.games import SGD, Autoencoder, FedAvg
from fedveil.shields import (
    LEAVING,
    CertifiedChannel,
    Chain,
    Context,
    Damage,
    Identity,
    Kind,
    Message,
    Shield,
    ShieldError,
)

ENGINES = pytest.mark.parametrize("engine", ["plain", "stacked"])
GAME = FedAvg(hidden=(3,), optimiser=SGD(0.1), batch_size=5)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (2, 60))
    return AttributeData(
        rng.normal(size=(60, 4)).astype(np.float32),
        {"sex": Attribute("sex", codes[0], ("0", "1"))},
        np.array([0] * 40 + [1] * 10 + [2] * 10, dtype=np.int8),
        y=Attribute("y", codes[1], ("0", "1")),
    )


def context(device=0, round_=1):
    return Context(device, round_, torch_generator(0, "shield", round_, device))


def message(values, kind=Kind.UPDATE):
    return Message(kind, torch.as_tensor(values))


class Change(Shield):
    """Applies a given function to the numbers."""

    name = "change"

    def __init__(self, function, acts_on=LEAVING, name="change"):
        self.function, self.acts_on, self.name = function, acts_on, name

    def change(self, message, context):
        return message.with_values(self.function(message.values, context))


double = Change(lambda values, _: 2 * values, name="double")
increase = Change(lambda values, _: values + 1, name="increase")


def test_identity_changes_nothing():
    values = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    for kind in Kind:
        sent, damage = Identity().apply(message(values, kind), context())
        assert torch.equal(sent.values, values)
        assert (damage.l2, damage.linf) == (0, 0)
        assert damage.cosine == pytest.approx(1)
        assert damage.bytes == 3 * 4 * 4


def test_a_chain_applies_its_shields_in_order():
    start = message([[3.0, 4.0]])
    assert Chain([double, increase]).apply(start, context())[0].values.tolist() == [[7, 9]]
    assert Chain([increase, double]).apply(start, context())[0].values.tolist() == [[8, 10]]
    assert Chain([increase, double]).name == "increase → double"
    assert Chain([]).apply(start, context())[0].values.tolist() == [[3, 4]]
    nested = Chain([Chain([double, increase]), double])
    assert nested.apply(start, context())[0].values.tolist() == [[14, 18]]
    _, damage = Chain([double, increase]).apply(start, context())
    assert damage.l2 == pytest.approx(np.hypot(4, 5))  # of the whole chain, not of its last shield


def test_a_chain_is_written_the_same_in_every_process():
    """A saved run identifies its shield by it; sets would print in the order of this process's hashes."""
    chain = Chain([CertifiedChannel(2.0), Chain([Identity()])])
    assert repr(chain) == "Chain([CertifiedChannel(sigma=2.0, radius=1.0), Chain([Identity()])])"


def test_a_shield_acts_on_its_kinds_alone():
    only_outputs = Change(lambda values, _: values * 0, frozenset({Kind.OUTPUT}))
    chain = Chain([only_outputs, double])
    for kind in LEAVING:
        sent, _ = chain.apply(message([[1.0]], kind), context())
        assert sent.values.item() == (0 if kind is Kind.OUTPUT else 2)
    assert chain.apply(message([[1.0]], Kind.INPUT), context())[0].values.item() == 1  # inputs only where asked to
    assert CertifiedChannel(1.0).acts_on == {Kind.REPRESENTATION}
    untouched, damage = CertifiedChannel(1.0).apply(message([[100.0, 1.0]]), context())
    assert untouched.values.tolist() == [[100, 1]]
    assert damage.l2 == 0


@pytest.mark.parametrize(
    "function",
    [
        lambda values, _: values / 0,
        lambda values, _: values * float("nan"),
        lambda values, _: values[:, :1],
        lambda values, _: values[:0],
        lambda values, _: None,
        lambda values, _: 1 / 0,
        lambda values, _: [][0],
        lambda values, _: (_ for _ in ()).throw(ShieldError("no")),
    ],
)
def test_a_shield_fails_closed(function):
    for shield in (Change(function), Chain([Identity(), Change(function), Identity()])):
        with pytest.raises(ShieldError) as fault:
            shield.apply(message([[1.0, 2.0]]), context())
        assert "\n" not in str(fault.value)


def test_a_shield_that_returns_no_message_fails_closed():
    class Nothing(Shield):
        def change(self, message, context):
            return None

    with pytest.raises(ShieldError, match="nothing is sent"):
        Nothing().apply(message([[1.0]]), context())


def test_damage_is_measured_though_a_shield_works_in_place():
    sent, damage = Change(lambda values, _: values.mul_(3)).apply(message([[3.0, 4.0]]), context())
    assert sent.values.tolist() == [[9, 12]]
    assert damage.l2 == pytest.approx(10)
    assert damage.linf == pytest.approx(8)


def test_damage_is_averaged_over_rows():
    damage = Damage.between(torch.tensor([[1.0, 0], [0, 1]]), torch.tensor([[1.0, 0], [0, -1]]))
    assert damage.l2 == pytest.approx(1)
    assert damage.cosine == pytest.approx(0)
    assert Damage.between(torch.zeros(0, 3), torch.zeros(0, 3)).cosine == 1


def test_the_certified_channel_clips_then_adds_noise_of_the_right_size():
    rows = torch.randn(400, 50, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    rows = rows * torch.logspace(-3, 3, 400, dtype=torch.float64)[:, None]
    tiny, _ = CertifiedChannel(sigma=1e-9, radius=2.0).apply(message(rows, Kind.REPRESENTATION), context())
    norms, true = tiny.values.norm(dim=1), rows.norm(dim=1)
    assert norms.max() <= 2.0 + 1e-6
    torch.testing.assert_close(norms, true.clamp_max(2.0), atol=1e-6, rtol=0)
    directions = torch.nn.functional.cosine_similarity(tiny.values, rows)
    assert directions.min() > 0.999999
    loud, _ = CertifiedChannel(sigma=3.0, radius=2.0).apply(message(rows, Kind.REPRESENTATION), context())
    noise = (loud.values - tiny.values) / 3.0
    count = noise.numel()
    assert abs(float(noise.mean())) < 4.5 / np.sqrt(count)
    assert abs(float(noise.square().mean()) - 1) < 4.5 * np.sqrt(2 / count)
    assert abs(float((noise[:, 1:] * noise[:, :-1]).mean())) < 4.5 / np.sqrt(count)


def test_zero_and_extreme_representations_pass_the_certified_channel():
    rows = torch.tensor([[0.0, 0.0], [1e30, -1e30], [1e-38, 0.0]])
    sent, _ = CertifiedChannel(sigma=1e-6).apply(message(rows, Kind.REPRESENTATION), context())
    assert sent.values.isfinite().all()
    assert sent.values.norm(dim=1).max() < 1 + 1e-4
    with pytest.raises(ShieldError):
        CertifiedChannel(1.0).apply(message([[float("inf"), 0.0]], Kind.REPRESENTATION), context())


def test_noise_is_the_device_s_own_and_repeatable():
    rows = message(torch.zeros(3, 4), Kind.REPRESENTATION)
    shield = CertifiedChannel(1.0)
    first = shield.apply(rows, context(1, 1))[0].values
    assert torch.equal(first, shield.apply(rows, context(1, 1))[0].values)
    for other in (context(2, 1), context(1, 2)):
        assert not torch.isclose(first, shield.apply(rows, other)[0].values).any()


@pytest.mark.parametrize(("sigma", "radius"), [(0.5, 1.0), (10.0, 1.0), (2.0, 3.0)])
def test_the_channel_s_certificate_is_the_certificates_own(sigma, radius):
    release = CertifiedChannel(sigma, radius).release
    certificate = release.certify_advantage()
    assert certificate.bound == gaussian_advantage_bound(radius, sigma)
    assert certificate.assumptions["norm enforced at release"] is True
    assert certificate.assumptions["radius"] == radius
    assert certificate.assumptions["sigma"] == sigma


def test_the_bound_holds_for_the_best_attacker_on_the_worst_release():
    """Two records at opposite ends of the ball; the attacker knows them and takes the likelier."""
    shield = CertifiedChannel(sigma=1.5, radius=1.0)
    codes = torch.arange(20_000) % 2
    rows = (codes.double() * 2 - 1)[:, None] * torch.tensor([[5.0, 0.0, 0.0]], dtype=torch.float64)
    sent, _ = shield.apply(message(rows, Kind.REPRESENTATION), context())
    advantage = 2 * float(((sent.values[:, 0] > 0) == codes.bool()).double().mean()) - 1
    bound = shield.release.certify_advantage().bound
    assert abs(advantage - bound) < 4.5 * np.sqrt(1 / 20_000)  # and the bound is tight


@pytest.mark.parametrize(("sigma", "radius"), [(0.0, 1.0), (-1.0, 1.0), (1.0, 0.0), (float("nan"), 1.0)])
def test_channels_without_noise_or_radius_are_refused(sigma, radius):
    with pytest.raises(InputError, match="must be above 0"):
        CertifiedChannel(sigma, radius)


@ENGINES
def test_updates_pass_the_shield_before_the_server_sees_them(data, engine):
    halve = Change(lambda values, _: values / 2, frozenset({Kind.UPDATE}))
    bare, halved = (
        begin(Federation(data, 4, engine=engine, dtype="float64", **options), GAME)
        for options in ({}, {"shield": halve})
    )
    start = bare.shared["model"].clone()
    for run in (bare, halved):
        run.play(1, record=[1])
    torch.testing.assert_close((halved.shared["model"] - start) * 2, bare.shared["model"] - start)
    torch.testing.assert_close(halved.recorded[0][2] * 2, bare.recorded[0][2])
    assert halved.history[0].damage["cosine"] == pytest.approx(1)
    size = bare.recorded[0][2].norm(dim=1).mean()
    assert halved.history[0].damage["l2"] == pytest.approx(float(size) / 2)


def failing(devices):
    def function(values, context):
        if context.device in devices:
            raise RuntimeError("no battery")
        return values * (float("nan") if context.device + 1 in devices and len(devices) == 1 else 1)

    return Change(function)


@ENGINES
def test_a_device_whose_shield_fails_is_silent_and_the_others_go_on(data, engine):
    run = begin(Federation(data, 5, engine=engine, shield=failing({3}), dtype="float64"), GAME)  # 3 raises, 2 sends NaN
    start = run.shared["model"].clone()
    run.play(1, record=[1])
    assert run.history[0].devices == 5
    assert run.history[0].silent == 2
    _, devices, updates = run.recorded[0]
    assert devices.tolist() == [0, 1, 4]
    assert run.history[0].bytes_up == updates.numel() * 8
    torch.testing.assert_close(run.shared["model"], start + updates.mean(dim=0))


@ENGINES
def test_when_all_devices_are_silent_the_state_is_kept(data, engine):
    run = begin(Federation(data, 5, engine=engine, shield=failing(set(range(5)))), GAME)
    start = run.shared["model"].clone()
    run.play(2, record=[1, 2])
    assert torch.equal(run.shared["model"], start)
    assert [record.silent for record in run.history] == [5, 5]
    assert [record.bytes_up for record in run.history] == [0, 0]
    assert not run.recorded


@ENGINES
def test_the_context_is_the_device_s_own(data, engine):
    seen = {}

    def look(values, context):
        seen[context.device, context.round] = context
        return values

    federation = Federation(data, 3, engine=engine, shield=Change(look))
    begin(federation, GAME).play(2)
    assert set(seen) == {(device, number) for device in range(3) for number in (1, 2)}
    for (device, _), context in seen.items():
        rows = federation.partition.device(device)
        torch.testing.assert_close(context.data["x"], torch.from_numpy(data.x[rows]))
        assert context.data["u:sex"].tolist() == data.attributes["sex"].codes[rows].tolist()
        assert context.model["model"].shape == (4 * 3 + 3 + 3 * 2 + 2,)
    states = {tuple(context.generator.get_state().tolist()) for context in seen.values()}
    assert len(states) == 6


@ENGINES
def test_random_shields_are_repeatable_and_differ_between_devices_and_rounds(data, engine):
    noise = Change(lambda values, c: values * 0 + torch.randn(values.shape, generator=c.generator))
    first, second = (
        begin(Federation(data, 3, engine=engine, shield=noise), GAME).play(2, record=[1, 2]) for _ in range(2)
    )
    assert torch.equal(first.shared["model"], second.shared["model"])
    drawn = torch.cat([updates for _, _, updates in first.recorded])
    assert len(drawn) == 6
    assert torch.corrcoef(drawn).fill_diagonal_(0).abs().max() < 0.9
    other = begin(Federation(data, 3, engine=engine, shield=noise, seed=1), GAME).play(1, record=[1])
    assert not torch.isclose(other.recorded[0][2], first.recorded[0][2]).any()


def test_representations_are_released_through_the_certified_channel(data):
    game = Autoencoder(hidden=(3,), width=2)
    bare, shielded, again = (
        begin(Federation(data, 4, shield=shield), game).play(2)
        for shield in (Identity(), CertifiedChannel(0.5), CertifiedChannel(0.5))
    )
    assert all(
        torch.equal(bare.shared[name], shielded.shared[name]) for name in bare.shared
    )  # updates pass as they are
    raw, sent = bare.release(2), shielded.release(2)
    assert raw.shape == sent.shape == (10, 2)
    assert not np.isclose(raw, sent).any()
    np.testing.assert_array_equal(sent, again.release(2))
    np.testing.assert_array_equal(sent, shielded.release(2))  # one release per person: asking again draws no new noise


def test_our_shields_are_found_by_name():
    assert plugins.load("fedveil.shields", "none") is Identity
    assert plugins.load("fedveil.shields", "certified") is CertifiedChannel
    with pytest.raises(InputError, match="did you mean 'certified'"):
        plugins.load("fedveil.shields", "certifed")


def test_a_third_party_s_shield_joins_by_entry_point(third_party, data):
    third_party(
        "fedveil.shields",
        "from fedveil.shields import Shield\n"
        "class Theirs(Shield):\n"
        "    name = 'silence'\n"
        "    def change(self, message, context):\n"
        "        return message.with_values(message.values * 0)\n",
    )
    run = begin(Federation(data, 3, shield=plugins.load("fedveil.shields", "theirs")()), GAME)
    start = run.shared["model"].clone()
    assert torch.equal(run.play(1).shared["model"], start)
