"""A small task that all tests of the laboratory share."""

import pytest
from fedveil_papers.recup.laboratory import Task
from small_task import small_data


@pytest.fixture(scope="session")
def task() -> Task:
    return Task(small_data(), "adult", rate=1.0, momentum=0.5, clients=60)
