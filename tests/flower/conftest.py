"""What tests of Flower share."""

from __future__ import annotations

from pathlib import Path

import pytest
from flower_site import DP, Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, DP)
