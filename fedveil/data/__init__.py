"""Data with sensitive attributes, and how devices share it.

`attribute_data.py` holds records with their attributes; `splits.py` and `partition.py` divide them. `source.py` defines
what a data set states about itself, `catalogue.py` finds a data set by name, `locate.py` finds its files, and
`sources/` has one file for each data set. `tables.py`, `csv_reading.py`, `encoding.py` and `archives.py` read the files
of users and publishers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.data.attribute import MISSING as MISSING
    from fedveil.data.attribute import Attribute as Attribute
    from fedveil.data.attribute import intersect as intersect
    from fedveil.data.attribute_data import AttributeData as AttributeData
    from fedveil.data.attribute_data import Split as Split
    from fedveil.data.catalogue import available as available
    from fedveil.data.catalogue import find_source as find_source
    from fedveil.data.catalogue import load as load
    from fedveil.data.encoding import encode_columns as encode_columns
    from fedveil.data.locate import locate as locate
    from fedveil.data.partition import IID as IID
    from fedveil.data.partition import ByGroup as ByGroup
    from fedveil.data.partition import Dirichlet as Dirichlet
    from fedveil.data.partition import OneEach as OneEach
    from fedveil.data.partition import Partition as Partition
    from fedveil.data.partition import Partitioner as Partitioner
    from fedveil.data.partition import Shards as Shards
    from fedveil.data.source import PackagedCopy as PackagedCopy
    from fedveil.data.source import PublishedFile as PublishedFile
    from fedveil.data.source import Source as Source
    from fedveil.data.splits import random_split as random_split
    from fedveil.data.tables import read_table as read_table
    from fedveil.data.tables import read_vectors as read_vectors

__all__ = lazy(__name__)
