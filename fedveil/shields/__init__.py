"""Shields: what a device does to a message before it leaves, or to its records before it works with them.

`shield.py` is the base with identity and chain; `message.py` what it acts on; one file holds each other shield.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedveil.shields.certified import CertifiedChannel
from fedveil.shields.drop_columns import DropColumns
from fedveil.shields.message import LEAVING, Context, Damage, Kind, Message, Samples
from fedveil.shields.shield import Chain, Identity, Shield, ShieldError

if TYPE_CHECKING:
    from fedveil.shields.compression import Compression
    from fedveil.shields.dp_sgd import DPSGD
    from fedveil.shields.gaussian import DPGaussian
    from fedveil.shields.laplace import DPLaplace
    from fedveil.shields.mingle import Mingle
    from fedveil.shields.quantise import Quantise
    from fedveil.shields.recup import PublishesWhatItHides, RecUP
    from fedveil.shields.soteria import Soteria
    from fedveil.shields.sparsify import Sparsify
    from fedveil.shields.transport import Transport
    from fedveil.shields.unread import Unread

_LAZY = {
    "Compression": "compression",
    "DPGaussian": "gaussian",
    "DPLaplace": "laplace",
    "DPSGD": "dp_sgd",
    "Mingle": "mingle",
    "Quantise": "quantise",
    "PublishesWhatItHides": "recup",
    "RecUP": "recup",
    "Soteria": "soteria",
    "Sparsify": "sparsify",
    "Transport": "transport",
    "Unread": "unread",
}
"""Loaded when asked for: their mathematics takes a moment to import."""

__all__ = [
    "DPSGD",
    "LEAVING",
    "CertifiedChannel",
    "Chain",
    "Compression",
    "Context",
    "DPGaussian",
    "DPLaplace",
    "Damage",
    "DropColumns",
    "Identity",
    "Kind",
    "Message",
    "Mingle",
    "PublishesWhatItHides",
    "Quantise",
    "RecUP",
    "Samples",
    "Shield",
    "ShieldError",
    "Soteria",
    "Sparsify",
    "Transport",
    "Unread",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"fedveil.shields.{_LAZY[name]}"), name)
