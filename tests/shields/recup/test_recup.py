import warnings

import numpy as np
import pytest
import torch
from small_zoo import SEGMENTS, VALUES, context, contexts, gradients, small_network, small_zoo

from fedveil.attacks import panel
from fedveil.core.errors import InputError
from fedveil.core.policy import Policy
from fedveil.data import Attribute
from fedveil.shields import (
    Chain,
    Kind,
    Message,
    PublishesWhatItHides,
    RecUP,
    ShieldError,
    Sparsify,
)
from fedveil.shields.recup.fgsm import VARIANTS, fooled
from fedveil.updates import Segment, features
from fedveil.view import View

PEOPLE = range(300, 340)


def recup(zoos=None, **settings):
    with pytest.warns(PublishesWhatItHides):
        return RecUP(small_zoo() if zoos is None else zoos, **({"epsilon": 1e-3} | settings))


def sent_by(shield, updates, device_contexts):
    answers = shield.apply_all(updates, device_contexts)
    assert not any(isinstance(answer, ShieldError) for answer in answers), answers
    return torch.cat([answer[0].values for answer in answers])


def updates_of(people=PEOPLE):
    return gradients()[0][people.start : people.stop]


def test_it_warns_when_it_is_created():
    with pytest.warns(PublishesWhatItHides, match=r"publishes what it hides.*1\.00.*recommended"):
        RecUP(small_zoo(), epsilon=1e-3)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("how", ["max", "means"])
def test_nothing_moves_farther_than_stated(variant, how):
    updates = updates_of()
    zoo = small_zoo(how=how)
    for settings, bound in (
        ({"budget": 3e-3}, 3e-3),
        ({"epsilon": 1e-3, "iterations": 4}, 4e-3 if variant == "meta" else 1e-3),
    ):
        change = (
            sent_by(recup(zoo, variant=variant, **{"epsilon": None} | settings), updates, contexts(PEOPLE)) - updates
        )
        assert 0 < float(change.abs().max()) <= bound * (1 + 1e-4)
        assert float(change.abs().max()) > 0.3 * bound


def test_a_batch_gives_what_each_device_gives_alone_and_reports_damage():
    updates, shield = updates_of(), recup([small_zoo(), small_zoo("race")])
    answers = shield.apply_all(updates, contexts(PEOPLE))
    for index, device_context in enumerate(contexts(PEOPLE)):
        alone, damage = shield.apply(Message(Kind.UPDATE, updates[index : index + 1]), device_context)
        message, reported = answers[index]
        assert (message.values - alone.values).abs().max() < 1e-2 * damage.linf or (
            (message.values - alone.values).abs() > 1e-7
        ).double().mean() < 1e-3  # a sign where a slope is all but 0 may differ between batches
        assert reported.linf == pytest.approx(damage.linf, rel=1e-3)
        assert 0 < reported.l2 < 1
        assert 0.9 < reported.cosine < 1
        assert reported.bytes == 4 * updates.shape[1]
    again = shield.apply_all(updates, contexts(PEOPLE))
    assert all(torch.equal(answer[0].values, other[0].values) for answer, other in zip(answers, again, strict=True))


def test_levels_weigh_the_attributes():
    updates, device_contexts = updates_of(), contexts(PEOPLE)
    sex, race = small_zoo(), small_zoo("race")
    alone = [sent_by(recup(zoo), updates, device_contexts) - updates for zoo in (sex, race)]
    for level in (0.0, 0.25, 1.0):
        both = recup([sex, race], levels={"sex": level, "race": 1 - level})
        change = sent_by(both, updates, device_contexts) - updates
        assert torch.allclose(change, level * alone[0] + (1 - level) * alone[1], atol=2e-7)
    assert torch.equal(sent_by(recup([sex, race], levels={"sex": 0, "race": 0}), updates, device_contexts), updates)
    assert recup([sex, race]).levels == {"sex": 0.5, "race": 0.5}


def test_a_zero_update_passes_unharmed():
    updates = updates_of().clone()
    updates[3] = 0
    for zoo in (small_zoo(), small_zoo(how="means")):
        sent = sent_by(recup(zoo), updates, contexts(PEOPLE))
        assert not sent[3].any()
        assert (sent[4] != updates[4]).any()


def test_minimal_stops_for_each_device_once_the_zoo_is_fooled():
    zoo, people = small_zoo("race"), range(300, 400)
    updates, codes = updates_of(people), gradients()[1]["race"][300:400]
    settings = {"epsilon": 2e-3, "iterations": 30, "models": 4}
    full = sent_by(recup(zoo, **settings), updates, contexts(people))
    least = sent_by(recup(zoo, minimal=True, **settings), updates, contexts(people))
    half = sent_by(recup(zoo, minimal=0.5, **settings), updates, contexts(people))
    before = fooled(zoo, features(updates, SEGMENTS, "max"), codes)
    assert (least[before == 1] == updates[before == 1]).all()
    assert (half[before >= 0.5] == updates[before >= 0.5]).all()
    sizes = [(sent - updates).norm(dim=1) for sent in (full, least, half)]
    assert (sizes[1] <= sizes[0] * 1.3).all()
    assert sizes[2].mean() < sizes[1].mean() < 0.8 * sizes[0].mean()
    after = [fooled(zoo, features(sent, SEGMENTS, "max"), codes) for sent in (full, least, half)]
    assert after[1].mean() > after[0].mean() - 0.05
    assert (after[2] >= 0.5).double().mean() > 0.95


def test_static_attackers_are_misled_and_retrained_ones_are_not():
    """What the paper shows, and what it does not."""
    updates, codes = gradients()
    undefended = features(updates, SEGMENTS, "max").double().numpy()
    sent = sent_by(recup(epsilon=5e-3), updates, contexts(range(400)))
    defended = features(sent, SEGMENTS, "max").double().numpy()
    attribute = Attribute("sex", codes["sex"].numpy().astype(np.int64), VALUES["sex"])

    def accuracy(vectors):
        view = View.of_vectors(vectors, {"sex": attribute})
        return panel(["logistic"]).judge(view, "sex").worst.balanced_accuracy.estimate

    zoo = small_zoo()
    static = 1 - fooled(zoo, torch.from_numpy(defended)[300:].float(), codes["sex"][300:]).mean()
    clean, retrained = accuracy(undefended), accuracy(defended)
    assert clean > 0.62
    assert static < clean - 0.3
    assert retrained > 0.95


def test_many_records_count_as_their_most_frequent_value_and_gradients_as_their_own():
    updates, shield = updates_of(range(300, 302)), recup()
    many = context({"sex": [1, 0, 1, -1, -1, -1]})
    single = context({"sex": [1]})
    message = Message(Kind.UPDATE, updates[:1])
    assert torch.equal(shield.apply(message, many)[0].values, shield.apply(message, single)[0].values)
    other = shield.apply(message, context({"sex": [0]}))[0].values
    assert not torch.equal(other, shield.apply(message, single)[0].values)
    rows = shield.apply(Message(Kind.GRADIENT, updates), context({"sex": [1, 0]}))[0].values
    by_hand = [shield.apply(Message(Kind.UPDATE, updates[i : i + 1]), context({"sex": [1 - i]}))[0] for i in range(2)]
    assert torch.allclose(rows, torch.cat([answer.values for answer in by_hand]), atol=1e-7)


def test_weight_deltas_of_several_steps_are_updates_like_others():
    updates = -0.1 * (updates_of() + updates_of(range(200, 240)))
    sent = sent_by(recup(small_zoo("race"), budget=1e-3, epsilon=None), updates, contexts(PEOPLE))
    assert 0 < float((sent - updates).abs().max()) <= 1e-3 * (1 + 1e-4)
    other = Message(Kind.REPRESENTATION, updates)
    assert recup().apply(other, contexts(PEOPLE)[0])[0] is other


def test_policies_choose_for_each_device():
    updates, device_contexts = updates_of(range(300, 304)), contexts(range(300, 304))
    sex, race = small_zoo(), small_zoo("race")
    shield = recup([sex, race])
    policies = [
        Policy(hide={"sex": 1.0}, shield="recup"),
        Policy(hide={"race": 0.5}, shield={"kind": "recup", "budget": 1e-4}),
        Policy(hide={"race": 1.0}, shield=["quantise", {"kind": "recup", "minimal": True}]),
        Policy(hide={"sex": 1.0}),
    ]
    device_contexts = [
        context(
            {name: device_context.data[f"u:{name}"] for name in ("sex", "race")}, device_context.device, policy=policy
        )
        for device_context, policy in zip(device_contexts, policies, strict=True)
    ]
    answers = shield.apply_all(updates, device_contexts)
    assert isinstance(answers[3], ShieldError)
    assert "asks for recommended, but this shield is recup, so nothing is sent" in str(answers[3])
    plain = contexts(range(300, 304))
    by_sex = sent_by(recup(sex), updates, plain)
    assert torch.allclose(answers[0][0].values[0], by_sex[0], atol=2e-7)
    assert answers[1][1].linf == pytest.approx(0.5e-4, rel=0.1)
    unknown = context({"sex": [0]}, policy=Policy(hide={"age": 1.0}, shield="recup"))
    with pytest.raises(ShieldError, match=r"hide.age: no such attribute; known: sex, race"):
        shield.apply(Message(Kind.UPDATE, updates[:1]), unknown)
    for settings in ({"budget": -1.0}, {"minimal": 2.0}):
        wrong = context({"sex": [0]}, policy=Policy(hide={"sex": 1.0}, shield={"kind": "recup", **settings}))
        with pytest.raises(ShieldError, match=next(iter(settings))):
            shield.apply(Message(Kind.UPDATE, updates[:1]), wrong)


BAD = {
    "no value": ({"race": [0]}, {}, "does not hold its own 'sex'"),
    "unknown": ({"sex": [-1]}, {}, "own 'sex' is unknown"),
    "out of range": ({"sex": [5]}, {}, "numbered 5, but its zoo knows 2 values"),
    "another layout": ({"sex": [0]}, {"segments": (Segment("model", "w", (4622,), 0),)}, "another layout"),
    "no layout": ({"sex": [0]}, {"segments": ()}, "another layout"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_device_that_fails_sends_nothing_and_stops_no_other(case):
    codes, more, error = BAD[case]
    updates = updates_of(range(300, 303))
    assert updates.shape[1] == SEGMENTS[-1].stop
    device_contexts = [context({"sex": [0]}), context(codes, **more), context({"sex": [1]})]
    shield = recup()
    answers = shield.apply_all(updates, device_contexts)
    assert [isinstance(answer, ShieldError) for answer in answers] == [False, True, False]
    assert error in str(answers[1])
    with pytest.raises(ShieldError, match="nothing is sent"):
        shield.apply(Message(Kind.UPDATE, updates[1:2]), device_contexts[1])


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_bad_numbers_and_other_shapes_send_nothing(bad):
    updates = updates_of(range(300, 302)).clone()
    updates[0, 7] = bad
    answers = recup().apply_all(updates, contexts(range(300, 302)))
    assert [isinstance(answer, ShieldError) for answer in answers] == [True, False]
    cut = recup().apply_all(updates[:, :-1], contexts(range(300, 302)))
    assert all(isinstance(answer, ShieldError) for answer in cut)
    assert "4621" in str(cut[1])


SETTINGS = [
    ({"epsilon": None}, "either epsilon"),
    ({"budget": 1.0}, "either epsilon"),
    ({"epsilon": 0.0}, "epsilon must be above 0"),
    ({"epsilon": None, "budget": -1.0}, "budget must be above 0"),
    ({"epsilon": float("nan")}, "epsilon must be above 0"),
    ({"iterations": 0}, "iterations is a whole number"),
    ({"models": 2.5}, "models is a whole number"),
    ({"variant": "mommentum"}, "did you mean 'momentum'"),
    ({"minimal": 1.5}, "minimal"),
    ({"levels": {"sex": 1.5}}, "between 0 and 1"),
    ({"levels": {"race": 1.0}}, "no such attribute; known: sex"),
    ({"zoos": []}, "one zoo for each attribute"),
    ({"zoos": "nowhere.safetensors"}, "nowhere.safetensors"),
]


@pytest.mark.parametrize(("settings", "message"), SETTINGS)
def test_bad_settings_are_refused(settings, message):
    with warnings.catch_warnings():  # refused before it warns
        warnings.simplefilter("error")
        with pytest.raises(InputError, match=message):
            RecUP(**({"zoos": small_zoo(), "epsilon": 1e-3} | settings))
    with pytest.raises(InputError, match="none twice"):
        RecUP([small_zoo(), small_zoo()], epsilon=1e-3)


def test_zoos_come_from_files_and_damaged_ones_are_refused(tmp_path):
    path = tmp_path / "sex.safetensors"
    small_zoo().save(path)
    updates = updates_of()
    loaded = sent_by(recup(str(path)), updates, contexts(PEOPLE))
    assert torch.equal(loaded, sent_by(recup(), updates, contexts(PEOPLE)))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"sex\.safetensors"):
        RecUP(path, epsilon=1e-3)
    assert repr(recup()) == repr(recup())
    assert repr(recup()) != repr(recup(small_zoo(how="means")))


def test_it_reports_how_stale_the_zoo_was():
    updates, shield = updates_of(), recup()
    assert shield.staleness() == {}
    model = small_network()
    start = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    device_context = context({"sex": [0]}, number=3, networks={"model": model})
    shield.apply(Message(Kind.UPDATE, updates[:1]), device_context)
    reached = {"model": 2 * start + updates[0]}
    shield.apply(Message(Kind.UPDATE, updates[:1]), context({"sex": [0]}, number=4, model=reached))
    met = shield.staleness()
    assert met[3]["sex"] == pytest.approx(0, abs=1e-6)
    assert met[4]["sex"] == pytest.approx(1, rel=0.15)


def test_chains_batch_it():
    updates, device_contexts = updates_of(), contexts(PEOPLE)
    shield = recup()
    chained = sent_by(Chain([shield, Sparsify(0.5)]), updates, device_contexts)
    first = sent_by(shield, updates, device_contexts)
    expected = sent_by(Sparsify(0.5), first, device_contexts)
    assert torch.equal(chained, expected)


def test_a_study_names_zoos_by_their_files(tmp_path):
    from fedveil.config import parts

    for files in ("no.safetensors", ["no.safetensors"]):
        with pytest.raises(InputError, match=r"no\.safetensors: no such zoo"):
            parts.make(RecUP, {"zoos": files, "budget": 0.1}, "methods.m.shield")


@pytest.mark.parametrize(
    "settings",
    [
        {"budget": "a"},
        {"budget": 0.1, "iterations": "x"},
        {"budget": 0.1, "minimal": "yes"},
        {"budget": 0.1, "levels": {"sex": "a"}},
    ],
)
def test_settings_of_the_wrong_type_are_refused_in_one_line(settings):
    with pytest.raises(InputError, match=r"got '?(a|x|yes)"):
        RecUP(small_zoo(), **settings)
    with pytest.raises(InputError, match="zoos are zoos or their files"):
        RecUP(None, budget=0.1)
