"""What the tests of training share."""

import pytest


@pytest.fixture(params=["numpy", "torch"])
def backend(request):
    """Every library that computes gradients, as far as it is there."""
    if request.param == "torch":
        pytest.importorskip("torch")
    return request.param
