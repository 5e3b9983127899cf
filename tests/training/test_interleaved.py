"""Looks between the steps of a filter: the best way of interleaving them, found exhaustively, against what is charged.

One machine is a filter over coins, the other above-threshold on counts that the record may raise, which keeps a secret
(its noisy threshold) from one look to the next. Whoever asks chooses by all answers so far.
"""

import math
from functools import cache

import numpy as np
import pytest

from dpcalc.accounting.compose import compose
from dpcalc.mechanisms.declared import DeclaredDP
from dpcalc.training.looks import Looks

THRESHOLDS = np.arange(-40, 41)
# Counts without the record, relative to where the run stops, and whether it raises them.
QUESTIONS = tuple((count, own) for count in (-2, 0) for own in (0, 1))
BUDGET, COINS = 1.0, (0.4, 1.0)


def chances_above(count, scale):
    """P(count + noise > threshold), for each threshold; P(noise ≥ k) = q^k/(1 + q) for k ≥ 1."""
    q, least = math.exp(-1 / scale), THRESHOLDS - count + 1
    return np.where(least >= 1, q ** np.abs(least) / (1 + q), 1 - q ** np.abs(1 - least) / (1 + q))


def best_delta(epsilon, scale, *, joining, looks):
    """The largest P(S) − e^ε Q(S) over all ways of asking; P has the record if it is `joining`, otherwise Q."""
    prior = np.exp(-np.abs(THRESHOLDS) / scale)
    prior /= prior.sum()
    worlds = (1, 0) if joining else (0, 1)

    def masses(asked, last=None):
        """What P and Q give to: all counts asked so far were below, and the last one, if any, above."""
        found = []
        for here in worlds:
            chances = prior
            for count, own in asked:
                chances = chances * (1 - chances_above(count + own * here, scale))
            if last is not None:
                chances = chances * chances_above(last[0] + last[1] * here, scale)
            found.append(float(chances.sum()))
        return tuple(found)

    @cache
    def most(left, loss, asked, stopped):
        p, q = stopped or masses(asked)
        found = max(0.0, p - math.exp(epsilon - loss) * q)
        for cost in COINS:
            if cost <= left:
                heads = 1 / (1 + math.exp(-cost))
                rest, ways = round(left - cost, 9), ((heads, cost), (1 - heads, -cost))
                further = sum(p * most(rest, round(loss + gain, 9), asked, stopped) for p, gain in ways)
                found = max(found, further)
        if stopped is None and len(asked) < looks:
            for question in QUESTIONS:
                above = most(left, loss, (), masses(asked, question))
                found = max(found, above + most(left, loss, tuple(sorted((*asked, question))), None))
        return found

    return most(BUDGET, 0.0, (), None)


@pytest.mark.parametrize("joining", [True, False])
@pytest.mark.parametrize("epsilon", [1.6, 1.8])
def test_no_way_of_interleaving_looks_and_steps_tells_more_than_is_charged(joining, epsilon):
    scale = 2
    looks = Looks(deviation=scale * math.sqrt(2), watched=3, stop_by="above-threshold")
    assert looks.scale == scale
    reached = best_delta(epsilon, scale, joining=joining, looks=3)
    filtered = (DeclaredDP(epsilon=BUDGET), 1)
    assert compose([filtered, *looks.releases()], delta=reached).epsilon >= epsilon
    # It does tell more than the filter alone, and than a look at half its price.
    assert compose([filtered], delta=reached).epsilon < epsilon
    assert compose([filtered, (DeclaredDP(epsilon=1 / scale), 1)], delta=reached).epsilon < epsilon
