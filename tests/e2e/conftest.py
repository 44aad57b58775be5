"""Places that every end-to-end test needs."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory) -> None:
    """Nothing that the user's reports remember, and nothing left behind there."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def build() -> Path:
    """The build folder under test; FATHOM_BUILD names another one than build/."""
    return ROOT / os.environ.get("FATHOM_BUILD", "build")


@pytest.fixture(scope="session")
def fathom(build: Path) -> Path:
    """The program under test."""
    return build / "fathom"


sys.path.insert(0, str(ROOT / "python"))
