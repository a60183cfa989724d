"""Shields: what a device does to a message before it leaves.

`shield.py` is the base with identity and chain; `message.py` what it acts on; one file holds each other shield.
"""

from fedveil.shields.certified import CertifiedChannel
from fedveil.shields.message import Context, Damage, Kind, Message
from fedveil.shields.shield import Chain, Identity, Shield, ShieldError

__all__ = ["CertifiedChannel", "Chain", "Context", "Damage", "Identity", "Kind", "Message", "Shield", "ShieldError"]
