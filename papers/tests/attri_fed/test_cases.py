"""The attackers that judge an Attri-Fed case."""

from __future__ import annotations

import pytest
from fedveil_papers.attri_fed.cases import WEAK, server_panel

from fedveil.attacks.mlp import LargeMLP, WideMLP
from fedveil.games.attri_fed.game import READING


@pytest.mark.parametrize("networks", ["light", "paper"])
def test_at_least_one_attacker_is_as_large_as_the_privatiser(networks: str) -> None:
    names = server_panel("quick", networks)
    assert WEAK in names
    sizes = {attack.name: attack.recipe.hidden for attack in (LargeMLP, WideMLP)}
    assert any(
        len(sizes[name]) >= len(READING[networks])
        and all(attacker >= privatiser for attacker, privatiser in zip(sizes[name], READING[networks], strict=True))
        for name in names
        if name in sizes
    )
    assert server_panel("mlp-small,mlp-large,mlp-wide", networks) == ("mlp-small", "mlp-large", "mlp-wide")
