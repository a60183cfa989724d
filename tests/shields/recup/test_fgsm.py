import copy
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_zoo import SEGMENTS, gradients, small_zoo
from torch.nn import functional

from fedveil.shields.recup.fgsm import (
    MOMENTUM,
    VARIANTS,
    DirectPoint,
    climb,
    depth,
    draw_models,
    fooled,
    slopes_of,
)
from fedveil.shields.recup.pools import PooledPoint, entries_of
from fedveil.updates.features import features, max_pooled
from fedveil.updates.segments import Segment

P, Q = 4, 3
ROWS = slice(300, 320)


def printed(updates, codes, zoo, drawn, size, variant):
    """Algorithm 1 and Appendix E line by line, by autograd through the features."""

    def gradient(member, w):
        w = w.detach().requires_grad_(True)
        loss = functional.cross_entropy(zoo.logits(member, features(w, SEGMENTS, zoo.features)), codes, reduction="sum")
        return torch.autograd.grad(loss, w)[0]

    w = updates
    for members in drawn:
        count = len(members)
        if variant == "meta":
            ahead = w
            for member in members[:-1]:
                ahead = ahead + size / count * gradient(member, ahead).sign()
            w = w + size * gradient(members[-1], ahead).sign()
        elif variant == "average":
            w = w + size / count * sum(gradient(member, w).sign() for member in members)
        elif variant == "momentum":
            u = torch.zeros_like(w)
            for member in members:
                g = gradient(member, w)
                u = MOMENTUM * u + g / g.abs().sum(dim=1, keepdim=True)
                w = w + size / count * u.sign()
        else:
            for member in members:
                w = w + size / count * gradient(member, w).sign()
    return w


def in_double(zoo):
    members = tuple(copy.deepcopy(member).double() for member in zoo.members)
    return replace(zoo, mean=zoo.mean.double(), scale=zoo.scale.double(), members=members)


def moved(point, updates, zoo, codes, drawn, size, variant):
    sizes = torch.full((len(updates), 1), size, dtype=updates.dtype)
    climb(point, slopes_of(zoo, codes), drawn, sizes, variant)
    sent = updates.clone()
    point.write(sent, torch.ones_like(sizes), torch.full_like(sizes, torch.inf))
    return sent


@pytest.mark.parametrize("name", ["sex", "race"])
@pytest.mark.parametrize("size", [1e-4, 3e-3, 0.05, 0.2])
@pytest.mark.parametrize("variant", VARIANTS)
def test_all_variants_equal_the_printed_algorithm(variant, size, name):
    """A few candidates of each pool give what autograd gives through all entries, also where steps overshoot 0."""
    zoo = in_double(small_zoo(name))  # float32 leaves the printed gradient no digits where a member is sure
    updates, codes = gradients()
    updates, codes = updates[ROWS].double(), codes[name][ROWS]
    drawn = draw_models(zoo, variant, P, Q, 0, 1)
    expected = printed(updates, codes, zoo, drawn, size, variant)
    fast = PooledPoint.of(updates, SEGMENTS, depth(variant, P, Q))
    sent = moved(fast, updates, zoo, codes, drawn, size, variant)
    assert torch.allclose(fast.features(), features(sent, SEGMENTS, "max"), atol=1e-12)
    assert torch.allclose(sent, expected, atol=1e-9)
    slow = moved(DirectPoint(updates, SEGMENTS, "max"), updates, zoo, codes, drawn, size, variant)
    assert torch.allclose(sent, slow, atol=1e-9)


def test_the_sizes_and_members_are_the_printed_ones():
    zoo = small_zoo()
    for variant, iterations, count in [("meta", 7, 3), ("one-step", 1, 1), ("average", 1, 3), ("momentum", 1, 3)]:
        drawn = draw_models(zoo, variant, 7, 3, 0, 1)
        assert [len(set(members)) for members in drawn] == [count] * iterations
    assert draw_models(zoo, "meta", 7, 3, 0, 1) != draw_models(zoo, "meta", 7, 3, 0, 2)
    assert [len(members) for members in draw_models(zoo, "meta", 2, 50, 0, 1)] == [len(zoo)] * 2


def test_slopes_are_the_cross_entropys_up_to_a_factor_even_where_a_member_is_sure():
    zoo = small_zoo("race")
    updates, codes = gradients()
    vectors = features(updates[ROWS], SEGMENTS, "max").requires_grad_(True)
    codes = codes["race"][ROWS]
    loss = functional.cross_entropy(zoo.logits(2, vectors), codes, reduction="sum")
    (expected,) = torch.autograd.grad(loss, vectors)
    slopes = slopes_of(zoo, codes)(2, vectors.detach())
    both = functional.cosine_similarity(slopes.double(), expected.double())
    assert (both > 0.9999).all()
    rounded = slopes_of(zoo.quantised(8), codes)(2, vectors.detach())  # through autograd
    assert (functional.cosine_similarity(rounded, slopes) > 0.9).all()
    sure = slopes_of(zoo, codes)(2, 1e6 * vectors.detach())
    assert (sure.abs().sum(dim=1) > 0).all()


def test_steps_fool_the_zoo():
    zoo = small_zoo("race")
    updates, codes = gradients()
    updates, codes = updates[300:], codes["race"][300:]
    point = PooledPoint.of(updates, SEGMENTS, depth("meta", 10, 5))
    before = fooled(zoo, point.features(), codes).mean()
    sizes = torch.full((len(updates), 1), 1e-2)
    climb(point, slopes_of(zoo, codes), draw_models(zoo, "meta", 10, 5, 0, 1), sizes, "meta")
    assert fooled(zoo, point.features(), codes).mean() > before + 0.5


LAYERS = st.lists(
    st.sampled_from([(3, 2, 2, 2), (70, 60, 1, 2), (2, 3), (70, 60), (5,), (9, 2, 3)]), min_size=1, max_size=4
)


@settings(max_examples=30, deadline=None)
@given(LAYERS, st.integers(1, 9), st.integers(0, 100))
def test_entries_are_the_largest_of_each_pool(shapes, count, seed):
    segments, offset = [Segment("net", "first", (4, 2), 0)], 8
    for number, shape in enumerate(shapes):
        segments.append(Segment("net", str(number), shape, offset, statistic=shape == (2, 3)))
        offset = segments[-1].stop
    updates = torch.randn(3, offset, generator=torch.Generator().manual_seed(seed))
    entries = entries_of(updates, tuple(segments), count)
    assert torch.equal(entries.values[..., 0].abs(), max_pooled(updates, segments))
    clients, columns = entries.standing(torch.arange(entries.values.numel()))
    values = entries.values.flatten()
    assert torch.equal(updates[clients, columns][values != 0], values[values != 0])
    assert (entries.values.abs().diff(dim=2) <= 0).all()
    chosen = (values != 0) & (torch.arange(len(values)) % entries.values.shape[2] < count - 1)
    without = updates.clone()
    without[clients[chosen], columns[chosen]] = 0
    if entries.values.shape[2] == count:  # all but the last set to 0: the last is the largest that is left
        assert torch.equal(entries.values[..., -1].abs(), max_pooled(without, segments))
