"""Fixtures that every test folder may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("no deadline", deadline=None)  # how long an example takes is the machine's business
settings.load_profile("no deadline")


@pytest.fixture(scope="session")
def shared_folder() -> Path:
    """The folder of real data and of small inputs that go wrong, beside the project; it is not part of it."""
    folder = Path(os.environ.get("FILLWRIGHT_SHARED", Path(__file__).resolve().parents[2] / "shared"))
    if not (folder / "cases").is_dir():
        pytest.skip(
            f"real market data may not be copied into the project, and {folder} holds none (FILLWRIGHT_SHARED names another)"
        )
    return folder
