"""The mod lets nothing leave but what the site's policy allows; real Flower apps, messages and contexts."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from flower_site import DP, SPARSE, Site, app_of, arrays_in, message, order, record, refused, trained, weights
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.common import FitIns, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.compat.common import recorddict_compat as compat
from flwr.compat.common.typing import EvaluateIns
from small_zoo import VALUES, small_network, small_zoo

from fedveil.certificates import gaussian_epsilon
from fedveil.flower import mod as words
from fedveil.flower import shield_mod

SECRET = "anna-was-here"


# What leaves.


def test_sparsification_sends_the_largest_half_of_the_update_and_nothing_else(site: Site) -> None:
    site.write(SPARSE)
    request = order()
    left = arrays_in(app_of(shield_mod())(request, site.context))
    received, reached = weights(), trained(request)
    assert list(left) == list(received)
    floats = [key for key in received if received[key].dtype.kind == "f"]
    true = np.concatenate([(reached[key] - received[key]).ravel() for key in floats])
    sent = np.concatenate([(left[key] - received[key]).ravel() for key in floats])
    assert (sent != 0).sum() == len(true) // 2
    kept = np.argsort(-np.abs(true), kind="stable")[: len(true) // 2]
    np.testing.assert_allclose(sent[kept], true[kept], rtol=1e-5)
    for key, array in received.items():
        assert left[key].dtype == array.dtype
        assert left[key].shape == array.shape


def test_counters_stay_unchanged(site: Site) -> None:
    request = order()
    assert trained(request)["1.num_batches_tracked"] == 8
    assert arrays_in(app_of(shield_mod())(request, site.context))["1.num_batches_tracked"] == 3


def test_noise_has_the_policys_deviation_and_the_update_is_clipped(site: Site) -> None:
    site.write('shield = {kind = "dp-gaussian", clip = 2.0, sigma = 0.5}\n')
    big = {"w": np.zeros(20_000, dtype=np.float32)}
    moved = {"w": np.full(20_000, 100.0, dtype=np.float32)}
    app = app_of(shield_mod(), reply=lambda _: RecordDict({"arrays": record(moved)}))
    sent = arrays_in(app(order(arrays=big), site.context))["w"]
    clipped = 2.0 / np.sqrt(20_000)
    assert abs(sent.mean() - clipped) < 5 * 0.5 / np.sqrt(20_000)
    assert abs(sent.std() - 0.5) < 0.02


def test_noise_is_new_each_time_unless_a_test_gives_a_seed(site: Site, tmp_path: Path) -> None:
    def sent(seed: int | None, name: str) -> np.ndarray:
        (tmp_path / name).mkdir()
        other = Site(tmp_path / name, DP)
        torch.manual_seed(0)  # what an app seeds is not what the shield draws from
        return arrays_in(app_of(shield_mod(seed=seed))(order(), other.context))["0.weight"]

    assert not np.array_equal(sent(None, "a"), sent(None, "b"))
    np.testing.assert_array_equal(sent(3, "c"), sent(3, "d"))
    assert not np.array_equal(sent(3, "e"), sent(4, "f"))


def test_the_server_cannot_choose_seed_or_policy(site: Site, tmp_path: Path) -> None:
    (tmp_path / "servers.toml").write_text('shield = {kind = "none"}\n')
    site.context.run_config["fedveil-policy"] = str(tmp_path / "servers.toml")
    site.context.run_config["seed"] = 3
    content = RecordDict(
        {"arrays": record(weights()), "config": ConfigRecord({"fedveil-policy": str(tmp_path / "servers.toml")})}
    )
    first = arrays_in(app_of(shield_mod())(message(content), site.context))["0.weight"]
    assert np.abs(first - trained(order())["0.weight"]).max() > 0.5
    assert "DPGaussian" in site.lines[0]


def test_the_node_configs_policy_wins_over_the_apps(site: Site, tmp_path: Path) -> None:
    (tmp_path / "apps.toml").write_text('shield = {kind = "none"}\n')
    app = app_of(shield_mod(tmp_path / "apps.toml"))
    app(order(), site.context)
    assert "DPGaussian" in site.lines[0]
    del site.context.node_config["fedveil-policy"]
    reply = app(order(), site.context)
    np.testing.assert_allclose(arrays_in(reply)["0.weight"], trained(order())["0.weight"], rtol=1e-6)


def test_only_metrics_that_the_policy_allows_are_reported(site: Site) -> None:
    figures = {"num-examples": 5, "train_loss": 0.5}
    app = app_of(shield_mod(), reply=lambda request: RecordDict({"metrics": MetricRecord(figures)}))
    refused(app(order(), site.context), words.NOT_ALLOWED)
    site.write(DP + 'metrics = ["num-examples", "train_loss"]\n')
    assert dict(app(order(), site.context).content["metrics"]) == figures


def test_damage_and_what_is_spent_are_reported_only_if_allowed(site: Site) -> None:
    app = app_of(shield_mod())
    assert dict(app(order(), site.context).content["metrics"]) == {"num-examples": 5}
    site.write(DP + 'tell = ["damage", "spent"]\n')
    figures = dict(app(order(), site.context).content["metrics"])
    assert figures["fedveil-l2"] > figures["fedveil-linf"] > 0
    assert -1 <= figures["fedveil-cosine"] <= 1
    assert figures["fedveil-bytes"] == 4 * 20
    assert figures["fedveil-messages"] == 2
    assert figures["fedveil-epsilon"] == pytest.approx(gaussian_epsilon(2.0, 1e-5, 2))


def test_replies_to_evaluate_and_query_hold_figures_alone(site: Site) -> None:
    echo = app_of(shield_mod())
    for kind in ("evaluate", "query"):
        refused(echo(order(kind), site.context), words.NOT_ALLOWED)
    quiet = app_of(shield_mod(), reply=lambda _: RecordDict({"metrics": MetricRecord({"num-examples": 5})}))
    for kind in ("evaluate", "query"):
        assert dict(quiet(order(kind), site.context).content["metrics"]) == {"num-examples": 5}
    assert [json.loads(line)["kind"] for line in site.lines] == ["figures", "figures"]


def test_an_update_of_a_record_other_than_the_first_is_shielded(site: Site) -> None:
    content = RecordDict({"fixed": record({"a": np.ones(2)}), "arrays": record(weights())})
    left = arrays_in(app_of(shield_mod(seed=1))(message(content), site.context))
    assert list(left) == list(weights())
    assert (
        np.abs(left["0.weight"] - weights()["0.weight"]).max() < 20
    )  # near the received weights: clipped to 1, with noise of 4
    assert not np.array_equal(left["0.weight"], trained(order())["0.weight"])


# NumPyClient apps.


class Plain(NumPyClient):
    """A client as in Flower's older tutorials."""

    def __init__(self, metrics: dict[str, object] | None = None) -> None:
        self.metrics = metrics or {}

    def fit(self, parameters: list[np.ndarray], config: dict[str, object]) -> tuple[list[np.ndarray], int, dict]:
        return [array + 1 for array in parameters], 5, self.metrics

    def evaluate(self, parameters: list[np.ndarray], config: dict[str, object]) -> tuple[float, int, dict]:
        return 0.5, 5, self.metrics

    def get_parameters(self, config: dict[str, object]) -> list[np.ndarray]:
        return [np.full(3, 42.0)]


def fit_order(arrays: list[np.ndarray]) -> Message:
    return message(compat.fitins_to_recorddict(FitIns(ndarrays_to_parameters(arrays), {}), True))


def test_a_numpy_clients_update_is_shielded(site: Site) -> None:
    site.write('shield = {kind = "sparsify", p = 0.75}\ntell = ["damage"]\n')
    app = ClientApp(client_fn=lambda context: Plain().to_client(), mods=[shield_mod()])
    received = [np.zeros((2, 3), dtype=np.float32), np.zeros(2, dtype=np.float32)]
    reply = app(fit_order(received), site.context)
    result = compat.recorddict_to_fitres(reply.content, keep_input=True)
    left = parameters_to_ndarrays(result.parameters)
    assert [array.shape for array in left] == [(2, 3), (2,)]
    assert sum((array == 1).sum() for array in left) == 2
    assert sum((array == 0).sum() for array in left) == 6
    assert result.num_examples == 5
    assert result.metrics["fedveil-l2"] == pytest.approx(np.sqrt(6))


def test_a_numpy_clients_metrics_are_checked(site: Site) -> None:
    def reply_of(metrics: dict[str, object], request: Message) -> Message:
        app = ClientApp(client_fn=lambda context: Plain(metrics).to_client(), mods=[shield_mod()])
        return app(request, site.context)

    received = [np.zeros(2, dtype=np.float32)]
    for bad in ({"name": SECRET}, {"raw": SECRET.encode()}, {"accuracy": 0.5}, {"num-examples": 3}):
        refused(reply_of(bad, fit_order(received)), words.NOT_ALLOWED)
    ask = message(compat.evaluateins_to_recorddict(EvaluateIns(ndarrays_to_parameters(received), {}), True), "evaluate")
    refused(reply_of({}, ask), words.NOT_ALLOWED)  # its loss
    site.write(DP + 'metrics = ["num-examples", "loss", "accuracy"]\n')
    result = compat.recorddict_to_evaluateres(reply_of({"accuracy": 0.25}, ask).content)
    assert (result.loss, result.num_examples, result.metrics) == (0.5, 5, {"accuracy": 0.25})


def test_no_weights_and_no_properties_are_handed_out(site: Site) -> None:
    app = ClientApp(client_fn=lambda context: Plain().to_client(), mods=[shield_mod()])
    empty = RecordDict({"getparametersins.config": ConfigRecord({}), "getpropertiesins.config": ConfigRecord({})})
    for kind in ("get_parameters", "get_properties"):
        refused(app(message(empty, kind), site.context), words.NO_MESSAGE)


# What does not leave.


def changed(key: str, array: np.ndarray) -> Callable[[Message], RecordDict]:
    return lambda request: RecordDict({"arrays": record(trained(request) | {key: array})})


def dropped(request: Message) -> RecordDict:
    return RecordDict({"arrays": record({key: array for key, array in trained(request).items() if key != "0.bias"})})


REPLIES: dict[str, Callable[[Message], RecordDict]] = {
    "another shape": changed("0.bias", np.zeros(5, dtype=np.float32)),
    "the same size in another shape": changed("0.weight", np.zeros((3, 4), dtype=np.float32)),
    "another type": changed("0.bias", np.zeros(4, dtype=np.float64)),
    "one key more": changed("extra", np.zeros(2, dtype=np.float32)),
    "one key less": dropped,
    "text": changed("0.bias", np.array([SECRET] * 4)),
    "a second ArrayRecord": lambda request: RecordDict(
        {"arrays": record(trained(request)), "more": record({"x": np.ones(3)})}
    ),
    "arrays by another name": lambda request: RecordDict({"grads": record(trained(request))}),
    "a ConfigRecord": lambda request: RecordDict(
        {"arrays": record(trained(request)), "config": ConfigRecord({"name": SECRET})}
    ),
    "figures by another name": lambda request: RecordDict({SECRET: MetricRecord({"num-examples": 5})}),
    "a figure that is NaN": lambda request: RecordDict({"metrics": MetricRecord({"num-examples": float("nan")})}),
    "a long list as a figure": lambda request: RecordDict({"metrics": MetricRecord({"num-examples": [0.5] * 33})}),
    "a figure that is not allowed": lambda request: RecordDict({"metrics": MetricRecord({SECRET: 1})}),
    "a figure named like the mod's own": lambda request: RecordDict({"metrics": MetricRecord({"fedveil-l2": 1.0})}),
    "an array that cannot be read": lambda request: RecordDict(
        {"arrays": ArrayRecord({"0.weight": Array("float32", (4, 3), "numpy.ndarray", b"broken")})}
    ),
    "no arrays that can be shielded": lambda request: RecordDict({"arrays": ArrayRecord({})}),
}


@pytest.mark.parametrize("name", REPLIES)
def test_what_is_not_allowed_does_not_leave(site: Site, name: str) -> None:
    refused(app_of(shield_mod(), reply=REPLIES[name])(order(), site.context), words.NOT_ALLOWED)
    assert site.lines == []


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("policy", [DP, SPARSE, 'shield = {kind = "none"}\n'], ids=["dp", "sparsify", "none"])
def test_nan_and_infinity_do_not_leave(site: Site, policy: str, bad: float) -> None:
    site.write(policy)
    broken = changed("0.bias", np.array([1, bad, 1, 1], dtype=np.float32))
    refused(app_of(shield_mod(), reply=broken)(order(), site.context), words.NOT_SHIELDED)


def test_numbers_too_large_for_their_type_do_not_leave(site: Site) -> None:
    site.write('shield = {kind = "dp-gaussian", clip = 1.0, sigma = 1e6}\n')
    half = {"w": np.zeros(50, dtype=np.float16)}
    app = app_of(shield_mod(), reply=lambda _: RecordDict({"arrays": record({"w": half["w"] + 1})}))
    refused(app(order(arrays=half), site.context), words.NOT_SHIELDED)


@pytest.mark.parametrize("fault", [ValueError, SystemExit, RecursionError, ExceptionGroup])
def test_an_apps_exception_does_not_reach_the_server(
    site: Site, fault: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def fails(request: Message) -> RecordDict:
        if fault is ExceptionGroup:
            raise ExceptionGroup(SECRET, [ValueError(SECRET)])
        raise fault(f"record 17: {SECRET}")

    with caplog.at_level(logging.ERROR):
        reply = app_of(shield_mod(), reply=fails)(order(), site.context)
    refused(reply, words.APP_FAILED)
    assert SECRET in caplog.text  # the site's own log says why
    with pytest.raises(fault, match=SECRET):  # without the mod it goes to Flower, which sends it to the server
        app_of(reply=fails)(order(), site.context)


def test_an_apps_own_error_is_not_passed_on(site: Site) -> None:
    app = ClientApp(mods=[shield_mod()])

    @app.train()
    def train(request: Message, context: Context) -> Message:
        return Message(Error(0, SECRET), reply_to=request)

    @app.evaluate()
    def evaluate(request: Message, context: Context) -> Message:
        return SECRET  # type: ignore[return-value]

    refused(app(order(), site.context), words.APP_FAILED)
    refused(app(order("evaluate"), site.context), words.APP_FAILED)


def test_a_reply_carries_none_of_the_apps_metadata(site: Site) -> None:
    app = ClientApp(mods=[shield_mod()])

    @app.train()
    def train(request: Message, context: Context) -> Message:
        request.metadata.message_type = f"train.{SECRET.replace('-', '_')}"
        request.metadata.__dict__["_group_id"] = SECRET
        other = message(RecordDict({"metrics": MetricRecord({"num-examples": 1})}))
        other.metadata.message_type = f"train.{SECRET.replace('-', '_')}"
        return other

    request = order()
    reply = app(request, site.context)
    assert reply.metadata.message_type == "train"
    assert reply.metadata.group_id == "1"
    assert reply.metadata.reply_to_message_id == request.metadata.message_id


@pytest.mark.parametrize(
    "break_it",
    [
        lambda site: site.policy.unlink(),
        lambda site: site.write("shield = ["),
        lambda site: site.write(""),
        lambda site: site.write(DP + "secret = 1\n"),
        lambda site: site.write('shield = {kind = "soteria"}\n'),
        lambda site: site.write('shield = {kind = "mingle", attribute = "sex"}\n'),
        lambda site: site.write(SPARSE + "[budget]\nepsilon = 1.0\ndelta = 1e-5\n"),
        lambda site: site.context.node_config.update({"fedveil-policy": 3}),
        lambda site: site.context.node_config.clear(),
    ],
    ids=["missing", "no TOML", "empty", "unknown key", "by record", "on input", "no epsilon", "no path", "unnamed"],
)
def test_without_a_usable_policy_the_app_is_not_even_asked(site: Site, break_it: Callable[[Site], None]) -> None:
    asked_for = []
    app = app_of(shield_mod(), reply=lambda request: asked_for.append(1) or RecordDict())
    break_it(site)
    for kind in ("train", "evaluate", "query"):
        refused(app(order(kind), site.context), words.NO_POLICY)
    assert not asked_for


def test_the_sites_log_names_the_file_and_the_key(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.write('shield = {kind = "dp-gaussian", clip = 1.0, sigm = 4.0}\n')
    app_of(shield_mod())(order(), site.context)
    (line,) = [entry.getMessage() for entry in caplog.records]
    assert str(site.policy) in line
    assert "shield" in line
    assert "'sigm'" in line
    assert "\n" not in line


# Zoos.


@pytest.fixture
def hiding(tmp_path: Path) -> Site:
    small_zoo().save(tmp_path / "sex.safetensors")
    return Site(tmp_path, RECUP)


RECUP = (
    'shield = {kind = "recup", budget = 0.01}\n[hide]\nsex = 1.0\n[zoo]\nsex = "sex.safetensors"\n'
    f'[own]\nsex = "{VALUES["sex"][1]}"\n'
)


def network_arrays() -> dict[str, np.ndarray]:
    return {name: array.numpy() for name, array in small_network().state_dict().items()}


def test_recup_changes_an_update_within_its_budget(hiding: Site) -> None:
    app = app_of(shield_mod())
    request = order(arrays=network_arrays())
    true = trained(request, 1e-4)
    app = app_of(shield_mod(), reply=lambda _: RecordDict({"arrays": record(true)}))
    left = arrays_in(app(request, hiding.context))
    moved = max(np.abs(left[key] - true[key]).max() for key in true)
    assert 0.001 < moved <= 0.01 * (1 + 1e-3)
    hiding.write(RECUP.replace(f'"{VALUES["sex"][1]}"', f'"{VALUES["sex"][0]}"'))
    other = arrays_in(app(order(arrays=network_arrays()), hiding.context))
    assert any(not np.array_equal(other[key], left[key]) for key in left)  # it depends on the site's own value


def test_recup_works_for_arrays_without_names(hiding: Site) -> None:
    app = ClientApp(client_fn=lambda context: Plain().to_client(), mods=[shield_mod()])
    reply = app(fit_order(list(network_arrays().values())), hiding.context)
    assert not reply.has_error()
    swapped = list(network_arrays().values())[::-1]
    refused(app(fit_order(swapped), hiding.context), words.NOT_SHIELDED)


def test_a_zoo_for_another_layout_is_refused(hiding: Site) -> None:
    refused(app_of(shield_mod())(order(), hiding.context), words.NOT_SHIELDED)
    renamed = {f"net.{key}": array for key, array in network_arrays().items()}
    refused(app_of(shield_mod())(order(arrays=renamed), hiding.context), words.NOT_SHIELDED)
