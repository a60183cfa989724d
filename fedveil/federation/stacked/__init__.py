"""Networks of many devices at once, along a leading axis."""

from fedveil.core.lazy import lazy

__all__ = lazy(__name__)
