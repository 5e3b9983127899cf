"""The published tables and short ways to build a setting."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="session")
def published() -> ModuleType:
    """The numbers printed in the paper, shared with the example that prints them beside ours."""
    spec = importlib.util.spec_from_file_location("bok_published", EXAMPLES / "bok_published.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
