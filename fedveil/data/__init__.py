"""Data with attributes: what devices hold."""

from fedveil.data.attribute import MISSING, Attribute, intersect
from fedveil.data.attribute_data import AttributeData, Split, random_split
from fedveil.data.catalogue import available, find_source, load
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
    "available",
    "find_source",
    "intersect",
    "load",
    "random_split",
]
