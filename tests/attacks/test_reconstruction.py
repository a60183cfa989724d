"""Gradient inversion on small pictures: the cost, labels, solvers, restarts, stacks; and how pictures are judged."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from fedveil_papers.recup.laboratory.networks import network
from torch import Tensor, nn

from fedveil.attacks.reconstruction import (
    Inversion,
    judged,
    mean_with_interval,
    mismatch,
    mse,
    psnr,
    recovered_labels,
    ssim,
    total_variation,
)
from fedveil.attacks.reconstruction.lbfgs import minimise
from fedveil.core.errors import InputError
from fedveil.games.losses import cross_entropy
from fedveil.updates.gradients import per_sample_gradients

SHAPE = (1, 8, 8)


def smooth(kind: torch.dtype = torch.float32) -> nn.Sequential:
    return network("lenet", SHAPE, torch.Generator().manual_seed(3), outputs=4).to(kind)


def kinked(kind: torch.dtype = torch.float32) -> nn.Sequential:
    torch.manual_seed(4)
    stack = [nn.Conv2d(1, 6, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(54, 12), nn.ReLU()]
    return nn.Sequential(*stack, nn.Linear(12, 4)).to(kind)


def pictures(count: int, kind: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Return smooth blobs and their labels."""
    generator = torch.Generator().manual_seed(5)
    rough = torch.rand(count, 1, 3, 3, generator=generator, dtype=kind)
    x = nn.functional.interpolate(rough, (8, 8), mode="bilinear", align_corners=True)
    return x, torch.arange(count) % 4


@pytest.mark.parametrize("make", [smooth, kinked])
@pytest.mark.parametrize("over", ["all", "tensor"])
def test_the_mismatch_is_what_whole_gradients_give(make, over) -> None:
    model = make(torch.float64)
    x, y = pictures(3, torch.float64)
    seen = torch.randn(3, sum(p.numel() for p in model.parameters()), dtype=torch.float64)
    rows = per_sample_gradients(model, cross_entropy, x, y)
    sizes = [rows.shape[1]] if over == "all" else [p.numel() for p in model.parameters()]
    parts = zip(rows.split(sizes, dim=1), seen.split(sizes, dim=1), strict=True)
    expected = torch.stack([1 - nn.functional.cosine_similarity(a, b) for a, b in parts], dim=1).mean(dim=1)
    torch.testing.assert_close(mismatch(model, cross_entropy, x, y, seen, over), expected)


@pytest.mark.parametrize("make", [smooth, kinked])
def test_the_slope_through_the_gradient_is_the_one_that_differences_give(make) -> None:
    model = make(torch.float64)
    x, y = pictures(1, torch.float64)
    seen = per_sample_gradients(model, cross_entropy, x.flip(2), y).detach()
    at = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(mismatch(model, cross_entropy, at, y, seen).sum(), at)
    step = torch.randn(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(6)) * 1e-6
    with torch.enable_grad():
        rise = mismatch(model, cross_entropy, x + step, y, seen) - mismatch(model, cross_entropy, x - step, y, seen)
    assert float(rise.detach()) == pytest.approx(2 * float((slope * step).sum()), rel=1e-3)


def test_unknown_layers_go_through_torch_func() -> None:
    class Doubled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factor = nn.Parameter(torch.full((1, 8, 8), 2.0, dtype=torch.float64))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.factor

    torch.manual_seed(7)
    model = nn.Sequential(Doubled(), nn.Flatten(), nn.Linear(64, 4, dtype=torch.float64))
    x, y = pictures(2, torch.float64)
    seen = per_sample_gradients(model, cross_entropy, x, y).detach()
    at = x.clone().requires_grad_()
    value = mismatch(model, cross_entropy, at, y, seen)
    torch.testing.assert_close(value, torch.zeros(2, dtype=torch.float64), atol=1e-12, rtol=0)
    (slope,) = torch.autograd.grad(mismatch(model, cross_entropy, at.flip(2), y, seen).sum(), at)
    assert slope.abs().max() > 0


def test_a_tensor_of_which_nothing_was_seen_does_not_count() -> None:
    model, (x, y) = smooth(torch.float64), pictures(1, torch.float64)
    seen = per_sample_gradients(model, cross_entropy, x, y).detach()
    seen[:, :300] = 0  # the first convolution's weights
    torch.testing.assert_close(
        mismatch(model, cross_entropy, x, y, seen, "tensor"), torch.zeros(1, dtype=torch.float64), atol=1e-12, rtol=0
    )


@pytest.mark.parametrize("make", [smooth, kinked])
@pytest.mark.parametrize("bias", [True, False])
def test_labels_are_read_off_the_last_layer(make, bias) -> None:
    model = make()
    if not bias:
        last = model[-1]
        model[-1] = nn.Linear(last.in_features, 4, bias=False)
    x, y = pictures(8)
    seen = per_sample_gradients(model, cross_entropy, x, y).detach()
    assert recovered_labels(model, seen).tolist() == y.tolist()


def test_with_one_output_the_sign_gives_the_label() -> None:
    torch.manual_seed(8)
    model = nn.Sequential(nn.Linear(5, 3), nn.ReLU(), nn.Linear(3, 1), nn.Sigmoid())
    y = torch.tensor([0, 1, 1, 0])
    seen = per_sample_gradients(model, lambda out, to: (out[:, 0] - to).square(), torch.rand(4, 5), y).detach()
    assert recovered_labels(model, seen).tolist() == y.tolist()


def test_labels_need_a_fully_connected_end() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3))
    with pytest.raises(InputError, match="give labels"):
        recovered_labels(model, torch.ones(1, 20))


@pytest.mark.parametrize(("make", "solver"), [(smooth, "lbfgs"), (kinked, "signed-adam"), (kinked, "lbfgs")])
def test_the_cost_falls_and_the_picture_comes_nearer(make, solver) -> None:
    model, (x, y) = make(), pictures(3)
    seen = per_sample_gradients(model, cross_entropy, x, y).detach()
    shares: list[float] = []
    settings = {"solver": solver, "over": "tensor", "tv_weight": 1e-4}
    short = Inversion(iterations=2, **settings).invert(model, cross_entropy, seen, SHAPE)
    long = Inversion(iterations=200, **settings).invert(model, cross_entropy, seen, SHAPE, progress=shares.append)
    assert (long.costs < short.costs).all()
    assert long.costs.median() < short.costs.median() / 3
    assert mse(long.images, x).mean() < 0.7 * mse(short.images, x).mean()
    assert long.labels.tolist() == y.tolist()
    assert shares == sorted(shares)
    assert shares[-1] <= 1
    assert long.images.min() >= 0
    assert long.images.max() <= 1


def test_a_sigmoid_network_gives_the_picture_away() -> None:
    model, (x, y) = smooth(), pictures(3)
    seen = per_sample_gradients(model, cross_entropy, x, y).detach()
    inversion = Inversion(iterations=400, solver="lbfgs", over="tensor", tv_weight=1e-6)
    assert (psnr(inversion.invert(model, cross_entropy, seen, SHAPE).images, x) > 25).all()


@pytest.mark.parametrize("solver", ["lbfgs", "signed-adam"])
def test_a_victims_result_does_not_depend_on_the_others_in_the_stack(solver) -> None:
    model, (x, y) = smooth(), pictures(4)
    seen = per_sample_gradients(model, cross_entropy, x, y).detach()
    settings = {"iterations": 12, "restarts": 2, "solver": solver}
    stacked = Inversion(**settings).invert(model, cross_entropy, seen, SHAPE, seed=1)
    single = Inversion(at_once=1, **settings).invert(model, cross_entropy, seen, SHAPE, seed=1)
    torch.testing.assert_close(stacked.images, single.images, atol=1e-3, rtol=0)
    torch.testing.assert_close(stacked.costs, single.costs, atol=1e-5, rtol=1e-3)
    other = Inversion(**settings).invert(model, cross_entropy, seen, SHAPE, seed=2)
    assert (other.images - stacked.images).abs().max() > 1e-3


def test_the_restart_of_lowest_cost_is_kept_not_the_one_nearest_the_truth() -> None:
    model, (x, y) = kinked(), pictures(6)
    seen = per_sample_gradients(model, cross_entropy, x, y).detach()
    kept = Inversion(iterations=30, restarts=4).invert(model, cross_entropy, seen, SHAPE)
    assert kept.costs.shape == (6, 4)
    lowest = kept.costs.min(dim=1).values
    with torch.enable_grad():
        direction = seen / seen.norm(dim=1, keepdim=True)
        cost = mismatch(model, cross_entropy, kept.images.requires_grad_(), y, direction)
    cost = cost + 1e-4 * total_variation(kept.images)
    torch.testing.assert_close(cost.detach().double(), lowest, atol=1e-5, rtol=1e-3)
    assert (kept.costs.gather(1, kept.chosen[:, None])[:, 0] == lowest).all()
    assert len(set(kept.chosen.tolist())) > 1  # so the choice matters here


def test_each_victim_may_have_a_weight_of_its_own() -> None:
    model, (x, y) = kinked(), pictures(2)
    seen = per_sample_gradients(model, cross_entropy, x, y).detach()
    attack = Inversion(iterations=20, tv_weight=0.5)
    both = attack.invert(model, cross_entropy, seen, SHAPE, tv_weights=torch.tensor([0.0, 0.5]))
    alone = attack.invert(model, cross_entropy, seen, SHAPE)
    torch.testing.assert_close(both.images[1], alone.images[1], atol=1e-3, rtol=0)
    assert total_variation(both.images)[0] > total_variation(alone.images)[0]


def test_the_network_is_left_as_it_was() -> None:
    model, (x, y) = kinked(), pictures(1)
    before = [p.clone() for p in model.parameters()]
    seen = per_sample_gradients(model, cross_entropy, x, y).detach()
    Inversion(iterations=2).invert(model, cross_entropy, seen, SHAPE)
    assert all(torch.equal(a, b) and b.requires_grad for a, b in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda seen: seen.mul_(0), "victim 0's gradient is zero"),
        (lambda seen: seen[1].fill_(math.nan), "victim 1's gradient holds NaN"),
        (lambda seen: seen[1, 5:6].fill_(math.inf), "victim 1's gradient holds NaN or inf"),
    ],
)
def test_gradients_that_cannot_be_matched_are_refused_in_one_line(spoil, message) -> None:
    model, (x, y) = kinked(), pictures(2)
    seen = per_sample_gradients(model, cross_entropy, x, y).detach()
    spoil(seen)
    with pytest.raises(InputError, match=message):
        Inversion(iterations=1).invert(model, cross_entropy, seen, SHAPE)


def test_gradients_of_another_network_are_refused() -> None:
    with pytest.raises(InputError, match="rows of"):
        Inversion(iterations=1).invert(kinked(), cross_entropy, torch.ones(1, 7), SHAPE)
    model, (x, y) = kinked(), pictures(2)
    seen = per_sample_gradients(model, cross_entropy, x, y).detach()
    with pytest.raises(InputError, match="one for each"):
        Inversion(iterations=1).invert(model, cross_entropy, seen, SHAPE, labels=y[:1])


@pytest.mark.parametrize(
    "settings",
    [
        {"iterations": 0},
        {"restarts": 0},
        {"tv_weight": -1.0},
        {"tv_weight": math.nan},
        {"rate": 0.0},
        {"solver": "sgd"},
        {"over": "row"},
    ],
)
def test_settings_that_make_no_sense_are_refused(settings) -> None:
    with pytest.raises(InputError, match=next(iter(settings))):
        Inversion(**settings)


def test_lbfgs_finds_the_minimum_of_quadratics_of_any_shape() -> None:
    generator = torch.Generator().manual_seed(9)
    scales = torch.logspace(0, 3, 12, dtype=torch.float64).expand(5, 12) * torch.tensor([[1.0], [9], [0.1], [1e4], [1]])
    goal = torch.randn(5, 12, generator=generator, dtype=torch.float64)

    def evaluate(x: Tensor) -> tuple[Tensor, Tensor]:
        return (scales * (x - goal).square()).sum(dim=1), 2 * scales * (x - goal)

    solution = minimise(evaluate, torch.zeros(5, 12, dtype=torch.float64), 120, history=20)
    torch.testing.assert_close(solution, goal, atol=1e-5, rtol=0)


def test_ssim_is_1_for_equal_pictures_symmetric_and_falls_with_noise() -> None:
    generator = torch.Generator().manual_seed(10)
    x = nn.functional.interpolate(torch.rand(4, 3, 6, 6, generator=generator), (40, 40), mode="bilinear")
    noise = torch.randn(x.shape, generator=generator)
    torch.testing.assert_close(ssim(x, x), torch.ones(4, dtype=torch.float64))
    little, much = x + 0.02 * noise, x + 0.2 * noise
    torch.testing.assert_close(ssim(x, much), ssim(much, x))
    assert (ssim(x, little) > ssim(x, much)).all()
    assert (ssim(1 - x, x) < 0.6).all()


def test_ssim_of_flat_pictures_is_the_closed_form() -> None:
    a, b = 100 / 255, 150 / 255
    expected = (2 * 100 * 150 + 2.55**2) / (100**2 + 150**2 + 2.55**2)
    value = ssim(torch.full((1, 1, 16, 16), a), torch.full((1, 1, 16, 16), b))
    assert float(value) == pytest.approx(expected, rel=1e-6)


def test_ssim_is_what_the_definition_gives_window_by_window() -> None:
    generator = torch.Generator().manual_seed(11)
    a, b = (torch.rand(1, 1, 14, 13, generator=generator, dtype=torch.float64) for _ in range(2))
    bell = np.exp(-(np.arange(-5, 6) ** 2) / (2 * 1.5**2))
    window = np.outer(bell, bell) / np.outer(bell, bell).sum()
    values = []
    for i in range(4):
        for j in range(3):
            p, q = (255 * image[0, 0, i : i + 11, j : j + 11].numpy() for image in (a, b))
            mp, mq = (window * p).sum(), (window * q).sum()
            vp, vq, c = (
                (window * (p - mp) ** 2).sum(),
                (window * (q - mq) ** 2).sum(),
                (window * (p - mp) * (q - mq)).sum(),
            )
            values.append(
                ((2 * mp * mq + 6.5025) * (2 * c + 58.5225)) / ((mp**2 + mq**2 + 6.5025) * (vp + vq + 58.5225))
            )
    assert float(ssim(a, b)) == pytest.approx(np.mean(values), rel=1e-9)


def test_measures_in_another_box_and_of_small_pictures() -> None:
    x, other = torch.zeros(2, 1, 5, 5), torch.full((2, 1, 5, 5), 0.5)
    torch.testing.assert_close(mse(2 * x - 1, 2 * other - 1, (-1.0, 1.0)), mse(x, other))
    assert torch.isinf(psnr(x, x)).all()
    assert set(judged(x, other)) == {"mse", "psnr", "ssim"}
    with pytest.raises(InputError, match="shape"):
        mse(x, other[:1])


def test_means_have_intervals_and_persons_are_drawn_whole() -> None:
    values = np.array([1.0, 1, 1, 1, 9, 9, 9, 9])
    alone = mean_with_interval(values)
    whole = mean_with_interval(values, groups=np.array([0, 0, 0, 0, 1, 1, 1, 1]))
    assert alone.estimate == whole.estimate == 5
    assert 1 < alone.low < 5 < alone.high < 9
    assert (whole.low, whole.high) == (1, 9)
