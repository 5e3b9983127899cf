"""The self-test holds here, and notices a platform that does not keep its promises."""

import numpy as np

from dpcalc.accounting.certified import self_test


def test_this_platform_keeps_its_promises():
    assert all(self_test.self_test().values())


def test_a_careless_normal_distribution_is_noticed(monkeypatch):
    exact = self_test.ndtr
    monkeypatch.setattr(self_test, "ndtr", lambda v: exact(v) * (1 + 1e-12))
    assert not self_test.self_test()["normal distribution"]


def test_a_careless_transform_is_noticed(monkeypatch):
    exact = np.fft.irfft
    monkeypatch.setattr(np.fft, "irfft", lambda values, length: exact(values, length) * (1 + 1e-9))
    assert not self_test.self_test()["fast Fourier transform"]
