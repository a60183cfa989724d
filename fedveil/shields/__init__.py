"""Shields: what a device does to a message before it leaves, or to its records before it works with them.

`shield.py` has the base class, the identity and chains; `message.py` defines what a shield acts on; `policies.py` finds
the shield that a policy asks for. Each other shield has a file, or a folder with its mathematics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.shields import mingle as mingle
    from fedveil.shields import recup as recup
    from fedveil.shields import transport as transport
    from fedveil.shields import unread as unread
    from fedveil.shields.certified import CertifiedChannel as CertifiedChannel
    from fedveil.shields.compression import Compression as Compression
    from fedveil.shields.dp.dp_sgd import DPSGD as DPSGD
    from fedveil.shields.dp.gaussian import DPGaussian as DPGaussian
    from fedveil.shields.dp.laplace import DPLaplace as DPLaplace
    from fedveil.shields.drop_columns import DropColumns as DropColumns
    from fedveil.shields.message import LEAVING as LEAVING
    from fedveil.shields.message import Context as Context
    from fedveil.shields.message import Damage as Damage
    from fedveil.shields.message import Kind as Kind
    from fedveil.shields.message import Message as Message
    from fedveil.shields.message import Samples as Samples
    from fedveil.shields.mingle import Mingle as Mingle
    from fedveil.shields.quantise import Quantise as Quantise
    from fedveil.shields.recup import PublishesWhatItHides as PublishesWhatItHides
    from fedveil.shields.recup import RecUP as RecUP
    from fedveil.shields.shield import Chain as Chain
    from fedveil.shields.shield import Identity as Identity
    from fedveil.shields.shield import Shield as Shield
    from fedveil.shields.shield import ShieldError as ShieldError
    from fedveil.shields.soteria import Soteria as Soteria
    from fedveil.shields.sparsify import Sparsify as Sparsify
    from fedveil.shields.transport import Transport as Transport
    from fedveil.shields.unread import Unread as Unread

__all__ = lazy(__name__)
