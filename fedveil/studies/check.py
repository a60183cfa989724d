"""Check a study against its data and parts before anything is written, so that what would fail later fails now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedveil.config.cells import Cell, all_methods, cell_of, check_varies, load_data, make_federation, make_game, plan
from fedveil.config.shadows import check_shadows
from fedveil.config.study import Method, Study
from fedveil.core.errors import InputError, nearest
from fedveil.data import Split
from fedveil.studies.judging import heads_fit, releases
from fedveil.view import UPDATE_VIEWS, Pool, View

if TYPE_CHECKING:
    from fedveil.data import AttributeData
    from fedveil.federation.run import Run


@dataclass(frozen=True)
class Plan:
    """A study that passed all checks.

    Attributes:
        study: the study itself.
        methods: its methods, including the baseline.
        cells: its cells.
        digest: a digest of the data.
    """

    study: Study
    methods: list[Method]
    cells: list[Cell]
    digest: str

    def method(self, name: str) -> Method:
        """Return a method by name; the error about a misspelt name suggests the nearest one."""
        for method in self.methods:
            if method.name == name:
                return method
        raise InputError(f"no method {name!r} in the study: {nearest(name, [m.name for m in self.methods])}")

    def cell(self, method: Method, strength: float | None, seed: int) -> Cell:
        """Return a cell of this study, planned or not."""
        return cell_of(self.study, method, strength, seed)


def checked(study: Study) -> Plan:
    """Load the data, build every part at every strength, and begin every method once, which rehearses its losses."""
    from fedveil.attacks.panel import panel
    from fedveil.federation.records import prepare_shield
    from fedveil.federation.run import begin

    panel(study.attacks.panel, draws=study.attacks.draws)
    for method in study.methods:
        check_varies(method)
        for strength in method.points:
            make_game(method, strength)
    data = load_data(study, study.seeds[0])
    _check_names(study, data)
    if study.attacks.fresh is True:
        _check_fresh(study, data)
    methods = all_methods(study, data)
    for method in methods:
        for position, strength in enumerate(method.points):
            federation = make_federation(study, method, strength, study.seeds[0], data)
            if not position:
                _check_views(study, method, begin(federation, make_game(method, strength)))
            else:
                prepare_shield(federation.shield, federation.data, federation.seed)
    return Plan(study, methods, plan(study, methods), data.digest())


def _check_names(study: Study, data: AttributeData) -> None:
    for name in study.asked:
        if name not in data.attributes:
            raise InputError(
                f"attacks.attributes: {name!r} is not a sensitive attribute: {nearest(name, data.attributes)}"
            )
    labels = data.labels
    for task in study.all_tasks:
        if task not in labels:
            raise InputError(f"tasks: {task!r} is not a label of {data.name}: {nearest(task, labels)}")
    if not study.all_tasks:
        raise InputError("tasks: the data has no target, so it is not clear what the releases are for; name a task")


def _check_fresh(study: Study, data: AttributeData) -> None:
    """Refuse attackers that learn from fresh people if the observer sees devices, or if a value is too rare."""
    from fedveil.attacks.fresh import check_enough

    if study.attacks.view in UPDATE_VIEWS:
        raise InputError(
            f"attacks.fresh: it is about people, but this observer sees {study.attacks.view} of devices; leave it out"
        )
    pools = []
    for rows in map(data.rows, Split):
        labels = {name: data.attribute(name).take(rows) for name in study.asked}
        pools.append(Pool(np.zeros((len(rows), 1)), labels, None if data.groups is None else data.groups[rows]))
    view = View.apart(*pools)
    for name in study.asked:
        try:
            check_enough(view.about(name).victims, name)
        except InputError as fault:
            raise InputError(f"attacks.fresh: {fault}") from None


def _check_views(study: Study, method: Method, run: Run) -> None:
    attacks, where = study.attacks, f"methods.{method.name}"
    rounds = method.rounds or study.federation.rounds
    if attacks.decensoring and attacks.view != "representations":
        raise InputError(
            f"attacks.decensoring: it works on representations, but this observer sees {attacks.view}; "
            "set attacks.view to representations, or leave it out"
        )
    if attacks.view in UPDATE_VIEWS:
        if not attacks.rounds:
            raise InputError(f"attacks.rounds: a view of {attacks.view} needs recorded rounds; name some, such as [1]")
        late = [number for number in attacks.rounds if not 1 <= number <= rounds]
        if late:
            raise InputError(f"attacks.rounds: round {late[0]} is never played; {where} has {rounds}")
    elif not releases(run, attacks.view):
        raise InputError(f"attacks.view: {where} releases no {attacks.view}; choose another view or game")
    if not heads_fit(study, run):
        others = [task for task in study.all_tasks if task != study.data.target]
        if others:
            raise InputError(
                f"tasks: {others[0]!r} has to be learned from representations, but in {where} only the model's "
                f"outputs are scored, on the target; leave it out"
            )
    if attacks.view in UPDATE_VIEWS:
        check_shadows(study, run)
