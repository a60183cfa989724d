"""Data with attributes: what devices hold."""

from fedveil.data.attribute import MISSING, Attribute, intersect
from fedveil.data.attribute_data import AttributeData, Split, random_split

__all__ = ["MISSING", "Attribute", "AttributeData", "Split", "intersect", "random_split"]
