"""Shields: what a device does to a message before it leaves, or to its records before it works with them.

`shield.py` is the base with identity and chain; `message.py` what it acts on; one file holds each other shield.
"""

from fedveil.shields.certified import CertifiedChannel
from fedveil.shields.drop_columns import DropColumns
from fedveil.shields.message import LEAVING, Context, Damage, Kind, Message
from fedveil.shields.shield import Chain, Identity, Shield, ShieldError

__all__ = [
    "LEAVING",
    "CertifiedChannel",
    "Chain",
    "Context",
    "Damage",
    "DropColumns",
    "Identity",
    "Kind",
    "Message",
    "Shield",
    "ShieldError",
]
