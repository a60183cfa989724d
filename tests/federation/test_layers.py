"""Every layer on every path: the stacked engine against torch's modules on ragged batches, down to one record."""

import gc
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional

from fedveil.core.errors import InputError
from fedveil.federation import Federation, Mean, begin
from fedveil.federation.stacked.mlp import StackedMLP, Step
from fedveil.federation.stacked.network import StackedNetwork
from fedveil.games import SGD, FedAvg

TABLE, SERIES, IMAGE = (4,), (2, 8), (2, 6, 6)
RAGGED = (9, 5, 1, 8, 2)  # with batches of 4: last batches of 1, 1, 1, none and 2


STACKED = {
    "linear without bias": (TABLE, lambda: nn.Sequential(nn.Linear(4, 5, bias=False), nn.Linear(5, 3))),
    "linear on sequences": (SERIES, lambda: nn.Sequential(nn.Linear(8, 3), nn.Flatten(), nn.Linear(6, 3, bias=False))),
    "conv1d": (SERIES, lambda: nn.Sequential(nn.Conv1d(2, 4, 3), nn.Flatten(), nn.Linear(24, 3))),
    "conv1d, stride, padding, dilation": (
        SERIES,
        lambda: nn.Sequential(nn.Conv1d(2, 4, 3, stride=2, padding=2, dilation=2), nn.Flatten(), nn.Linear(16, 3)),
    ),
    "conv1d, groups, no bias": (
        SERIES,
        lambda: nn.Sequential(nn.Conv1d(2, 4, 3, groups=2, bias=False), nn.Flatten(), nn.Linear(24, 3)),
    ),
    "conv2d": (IMAGE, lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 3))),
    "conv2d, stride, padding": (
        IMAGE,
        lambda: nn.Sequential(nn.Conv2d(2, 3, 3, stride=2, padding=(1, 2)), nn.Flatten(), nn.Linear(36, 3)),
    ),
    "conv2d, padding 'same'": (
        IMAGE,
        lambda: nn.Sequential(nn.Conv2d(2, 2, 3, padding="same"), nn.Flatten(), nn.Linear(72, 3)),
    ),
    "conv2d, groups": (IMAGE, lambda: nn.Sequential(nn.Conv2d(2, 4, 3, groups=2), nn.Flatten(), nn.Linear(64, 3))),
    "batch norm": (TABLE, lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))),
    "batch norm, another rate": (
        TABLE,
        lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5, momentum=0.7, eps=0.1), nn.Linear(5, 3)),
    ),
    "batch norm without weights": (
        TABLE,
        lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5, affine=False), nn.Linear(5, 3)),
    ),
    "batch norm without statistics": (
        TABLE,
        lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5, track_running_stats=False), nn.Linear(5, 3)),
    ),
    "batch norm on series": (
        SERIES,
        lambda: nn.Sequential(nn.BatchNorm1d(2), nn.Conv1d(2, 3, 8), nn.BatchNorm1d(3), nn.Flatten(), nn.Linear(3, 3)),
    ),
    "batch norm on images": (
        IMAGE,
        lambda: nn.Sequential(
            nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 2, 4), nn.BatchNorm2d(2), nn.Flatten(),
            nn.Linear(2, 3),
        ),
    ),
    "layer norm": (TABLE, lambda: nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.Linear(5, 3))),
    "layer norm over two axes": (
        SERIES,
        lambda: nn.Sequential(nn.LayerNorm((2, 8), bias=False), nn.Flatten(), nn.Linear(16, 3)),
    ),
    "layer norm without weights": (
        SERIES,
        lambda: nn.Sequential(nn.LayerNorm(8, elementwise_affine=False), nn.Flatten(), nn.Linear(16, 3)),
    ),
    "group norm": (IMAGE, lambda: nn.Sequential(nn.GroupNorm(2, 2), nn.Flatten(), nn.Linear(72, 3))),
    "group norm without weights": (
        TABLE,
        lambda: nn.Sequential(nn.Linear(4, 6), nn.GroupNorm(3, 6, affine=False), nn.Linear(6, 3)),
    ),
    "dropout": (TABLE, lambda: nn.Sequential(nn.Linear(4, 9), nn.Dropout(0.4), nn.Linear(9, 3), nn.Dropout(0.1))),
    "dropout of images": (
        IMAGE,
        lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.Dropout(0.5), nn.Flatten(), nn.Dropout(0.0), nn.Linear(48, 3)),
    ),
    "pooling of series": (
        SERIES,
        lambda: nn.Sequential(nn.MaxPool1d(2), nn.AvgPool1d(2), nn.AdaptiveAvgPool1d(3), nn.Flatten(), nn.Linear(6, 3)),
    ),
    "pooling of features": (
        TABLE,
        lambda: nn.Sequential(nn.Linear(4, 5), nn.MaxPool1d(2), nn.AvgPool1d(2, stride=1), nn.Linear(1, 3)),
    ),
    "pooling of a single image's rows": (
        SERIES,
        lambda: nn.Sequential(nn.AvgPool2d((2, 3)), nn.Flatten(), nn.Linear(2, 3)),
    ),
    "max pooling": (IMAGE, lambda: nn.Sequential(nn.MaxPool2d(2, stride=1), nn.Flatten(), nn.Linear(50, 3))),
    "mean pooling": (IMAGE, lambda: nn.Sequential(nn.AvgPool2d(3), nn.Flatten(), nn.Linear(8, 3))),
    "adaptive pooling": (
        IMAGE,
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 1), nn.AdaptiveMaxPool2d(4), nn.AdaptiveAvgPool2d((1, 2)), nn.Flatten(), nn.Linear(8, 3)
        ),
    ),
    "shapes": (
        TABLE,
        lambda: nn.Sequential(
            nn.Unflatten(1, (1, 2, 2)), nn.Upsample(scale_factor=2), nn.ZeroPad2d(1), nn.Flatten(), nn.Linear(36, 3)
        ),
    ),
    "softmax": (TABLE, lambda: nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1), nn.LogSoftmax(dim=-1))),
    "nested": (TABLE, lambda: nn.Sequential(nn.Sequential(nn.Linear(4, 3), nn.GELU()), nn.Identity(), nn.Linear(3, 3))),
    **{
        activation.__name__: (TABLE, lambda activation=activation: nn.Sequential(nn.Linear(4, 3), activation()))
        for activation in (nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Softplus, nn.Hardtanh, nn.ReLU6)
    },
}  # fmt: skip

HAND_WRITTEN = {
    **{
        activation.__name__: (
            TABLE,
            lambda activation=activation: nn.Sequential(nn.Linear(4, 5), activation(), nn.Linear(5, 3), activation()),
        )
        for activation in (nn.ReLU, nn.Tanh, nn.Sigmoid)
    },
    "one layer": (TABLE, lambda: nn.Linear(4, 3)),
    "the same activation twice": (TABLE, lambda: twice(nn.Tanh())),
}


def twice(layer):
    return nn.Sequential(nn.Linear(4, 3), layer, nn.Linear(3, 3), layer)


class Custom(nn.Module):
    """A user-defined module: layers in sequence with a skip connection."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, x):
        inside = x
        for layer in self.layers:
            inside = layer(inside)
        return inside * self.scale + (x if x.shape == inside.shape else 0)


class Centred(nn.Module):
    """Mixes the records of a batch, so that padding would show."""

    def forward(self, x):
        return x - 0.5 * x.mean(dim=0)


class Hesitant(nn.Module):
    """Looks at its values, which vmap cannot follow."""

    def forward(self, x):
        return 2 * x if float(x.detach().sum()) > 0 else x


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRU(2, 3, batch_first=True)

    def forward(self, x):
        return self.cell(x.transpose(1, 2))[0][:, -1]


def tied():
    inner = nn.Linear(4, 4)
    last = nn.Linear(4, 4)
    last.weight = inner.weight
    return nn.Sequential(inner, nn.Tanh(), inner, nn.Tanh(), last, nn.Linear(4, 3))


OTHERS = {
    "custom": (TABLE, lambda: Custom(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)), "vmap"),
    "a layer that we do not know": (TABLE, lambda: nn.Sequential(nn.Linear(4, 3), nn.PReLU()), "vmap"),
    "a padding that we do not know": (
        IMAGE,
        lambda: nn.Sequential(nn.Conv2d(2, 1, 3, padding=1, padding_mode="circular"), nn.Flatten(), nn.Linear(36, 3)),
        "vmap",
    ),
    "weights that serve twice": (TABLE, tied, "vmap"),
    "records that mix": (TABLE, lambda: Custom(nn.Linear(4, 3), Centred()), "vmap"),
    "custom with batch norm": (
        TABLE,
        lambda: Custom(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)),
        "one by one",
    ),
    "custom with dropout": (TABLE, lambda: Custom(nn.Linear(4, 5), nn.Dropout(0.5), nn.Linear(5, 3)), "one by one"),
    "custom with both": (
        TABLE,
        lambda: Custom(nn.Dropout(0.2), nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.Linear(5, 3)),
        "one by one",
    ),
    "recurrent": (SERIES, Recurrent, "one by one"),
    "attention": (
        SERIES,
        lambda: nn.Sequential(
            nn.TransformerEncoderLayer(8, 2, 8, dropout=0.0, batch_first=True), nn.Flatten(), nn.Linear(16, 3)
        ),
        "one by one",
    ),
    "what vmap cannot follow": (TABLE, lambda: Custom(nn.Linear(4, 3), Hesitant()), "one by one"),
}


def run_both(make_data, play_both, sizes, shape, build, **options):
    game = FedAvg(network=lambda g: build(), optimiser=SGD(0.1, momentum=0.5), batch_size=4, local_epochs=2)
    return play_both(make_data(sum(RAGGED), shape), game, rounds=3, devices=sizes(RAGGED), **options)


@pytest.mark.parametrize("name", STACKED)
def test_known_layers_are_stacked_and_agree(make_data, play_both, gap, sizes, name):
    plain, stacked = run_both(make_data, play_both, sizes, *STACKED[name])
    assert stacked.paths == {"model": "stacked"}
    assert plain.paths == {"model": "plain"}
    assert gap(plain, stacked) < 1e-9


@pytest.mark.parametrize("momentum", [0.0, 0.5])
@pytest.mark.parametrize("name", HAND_WRITTEN)
def test_stacks_of_linear_layers_have_hand_written_passes_and_agree(make_data, play_both, gap, sizes, name, momentum):
    shape, build = HAND_WRITTEN[name]
    game = FedAvg(network=lambda g: build(), optimiser=SGD(0.2, momentum=momentum), batch_size=4, local_epochs=2)
    plain, stacked = play_both(make_data(sum(RAGGED), shape), game, rounds=3, devices=sizes(RAGGED))
    assert stacked.paths == {"model": "hand-written"}
    assert gap(plain, stacked) < 1e-9


@pytest.mark.parametrize("name", OTHERS)
def test_any_other_module_agrees_more_slowly(make_data, play_both, gap, sizes, name):
    shape, build, path = OTHERS[name]
    plain, stacked = run_both(make_data, play_both, sizes, shape, build)
    assert stacked.paths == {"model": path}
    assert gap(plain, stacked) < 1e-9


@pytest.mark.parametrize("name", ["custom", "records that mix"])
def test_vmap_without_padding(make_data, play_both, gap, sizes, name):
    shape, build, path = OTHERS[name]
    game = FedAvg(network=lambda g: build(), optimiser=SGD(0.1), batch_size=4)
    plain, stacked = play_both(make_data(24, shape), game, devices=sizes((8, 8, 8)))
    assert stacked.paths == {"model": path}
    assert gap(plain, stacked) < 1e-9


def test_batch_norm_statistics_are_learned_shared_and_used(make_data, play_both, gap, sizes):
    plain, stacked = run_both(make_data, play_both, sizes, *STACKED["batch norm"], aggregation=Mean())
    layout = stacked.layouts["model"]
    names = {entry.name: entry for entry in layout.buffers}
    assert set(names) == {"1.running_mean", "1.running_var"}
    entry = names["1.running_var"]
    final = stacked.shared["model"][entry.start : entry.stop]
    assert not torch.allclose(final, torch.ones(5, dtype=torch.float64))
    assert gap(plain, stacked) < 1e-9


def test_a_last_batch_of_one_leaves_running_statistics_alone(make_data, sizes):
    build = STACKED["batch norm"][1]
    for engine in ("plain", "stacked"):
        federation = Federation(make_data(1), sizes((1,)), engine=engine, dtype="float64")
        run = begin(federation, FedAvg(network=lambda g: build())).play(2)
        entry = run.layouts["model"].buffers[0]
        assert torch.equal(run.shared["model"][entry.start : entry.stop], torch.zeros(5, dtype=torch.float64))
        assert run.shared["model"].isfinite().all()


def test_the_hand_written_pass_is_differentiated_right():
    generator = torch.Generator().manual_seed(0)
    shapes = [(2, 5, 4), (2, 3, 4), (2, 3), (2, 6, 3), (2, 6)]
    tensors = [torch.randn(s, generator=generator, dtype=torch.float64, requires_grad=True) for s in shapes]
    for plan in ([nn.Tanh, None], [nn.Sigmoid, nn.Tanh], [nn.ReLU, nn.Sigmoid]):
        assert torch.autograd.gradcheck(lambda x, *w, plan=plan: StackedMLP.apply(x, plan, Step(None), *w), tensors)


def test_the_hand_written_pass_keeps_no_memory():
    weight, bias = torch.zeros(1, 2, 2, requires_grad=True), torch.zeros(1, 2, requires_grad=True)
    outputs = []
    gc.disable()
    try:
        for _ in range(3):
            step = Step(0.1, due=True)
            y = StackedMLP.apply(torch.ones(1, 3, 2), [nn.ReLU], step, weight, bias)
            torch.autograd.grad(y.sum(), [weight, bias], allow_unused=True)
            outputs.append(weakref.ref(y.grad_fn))
            del y
    finally:
        gc.enable()
    assert all(node() is None for node in outputs)


def test_random_layers_that_engines_would_draw_differently_are_refused(make_data):
    class FunctionalDropout(nn.Module):
        def forward(self, x):
            return functional.dropout(x, 0.5, self.training)

    for layer in (nn.AlphaDropout(0.5), nn.Dropout1d(0.5), nn.RReLU(), FunctionalDropout()):
        for engine in ("plain", "stacked"):
            with pytest.raises(InputError, match=r"not supported|global random state") as fault:
                begin(
                    Federation(make_data(), 3, engine=engine),
                    FedAvg(network=lambda g, layer=layer: nn.Sequential(layer, nn.Linear(4, 3))),
                )
            assert "\n" not in str(fault.value)


def test_batch_norm_without_a_rate_is_refused(make_data):
    with pytest.raises(InputError, match="momentum=None"):
        begin(Federation(make_data(), 3), FedAvg(network=lambda g: nn.Sequential(nn.BatchNorm1d(4, momentum=None))))


def test_dropout_drops_in_training_only(make_data):
    network = nn.Sequential(nn.Linear(4, 50), nn.Dropout(0.5), nn.Linear(50, 3))
    run = begin(Federation(make_data(), 3), FedAvg(network=lambda g: network))
    outputs = [run.model().of_x(run.game.outputs, run.tensors["x"], run.federation.data.rows(0)) for _ in range(2)]
    assert torch.equal(*outputs)
    assert StackedNetwork(run.seats["model"].template).path == "stacked"
