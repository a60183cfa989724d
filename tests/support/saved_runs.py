"""Small federations, and runs of them that are saved."""

from fedveil.federation import Federation, begin
from fedveil.games import FedAvg


def federation(data, **options):
    return Federation(data, **({"devices": 6, "fraction": 0.5, "seed": 1, "unreliable": 0.2} | options))


def saved(make_data, folder):
    begin(federation(make_data()), FedAvg(hidden=(3,))).play(2).save(folder)
    return folder
