"""The data sets that come with fedveil, one short file each."""

from fedveil.core.lazy import lazy

__all__ = lazy(__name__)
