"""`fedveil demo`: the main job on real data."""

from __future__ import annotations

from typing import Annotated

import typer

from fedveil.cli.output import JsonOption, console_for, print_json, progress


def demo(
    seed: Annotated[int, typer.Option(help="Seed of the split, the attackers and the intervals.")] = 0,
    json: JsonOption = False,
) -> None:
    """Show what the columns of UCI Adult, without sex, say about sex."""
    from fedveil.attacks.judgement import as_table  # the libraries behind the panel take seconds to load
    from fedveil.attacks.panel import panel
    from fedveil.data import load
    from fedveil.federation.view import View

    console = console_for(json)
    adult = load("adult", target="income", sensitive=["sex"], seed=seed)
    console.print(
        f"UCI Adult: {len(adult):,} people, {adult.x.shape[1]} inputs without sex. Can sex be read from them?",
        markup=False,
    )
    with progress(console) as show:
        judgement = panel("quick", seed=seed, progress=show).judge(View.of_data(adult), "sex")
    console.print(as_table(judgement))
    for line in judgement.in_words():
        console.print(line, markup=False)
    console.print("Leaving a column out does not hide it: the others carry it.")
    if json:
        print_json(judgement.as_dict())
