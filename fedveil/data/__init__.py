"""Data with attributes: what devices hold."""

# Loaded before the function of the same name below: whoever loads a subpackage later binds its name here anew.
import fedveil.data.sources  # noqa: F401
from fedveil.data.attribute import MISSING, Attribute, intersect
from fedveil.data.attribute_data import AttributeData, Split, random_split
from fedveil.data.catalogue import find_source, load, sources
from fedveil.data.partition import IID, ByGroup, Dirichlet, OneEach, Partition, Partitioner, Shards
from fedveil.data.source import PackagedCopy, PublishedFile, Source

__all__ = [
    "IID",
    "MISSING",
    "Attribute",
    "AttributeData",
    "ByGroup",
    "Dirichlet",
    "OneEach",
    "PackagedCopy",
    "Partition",
    "Partitioner",
    "PublishedFile",
    "Shards",
    "Source",
    "Split",
    "find_source",
    "intersect",
    "load",
    "random_split",
    "sources",
]
