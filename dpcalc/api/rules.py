"""The rules of filters, for steps that are asked about one by one; errors name arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from dpcalc.api.functions import naming_arguments
from dpcalc.filters import rules

P = ParamSpec("P")
R = TypeVar("R")


def _spoken(function: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(function)
    def called(*arguments: P.args, **options: P.kwargs) -> R:
        with naming_arguments():
            return function(*arguments, **options)

    return called


dp_rule = _spoken(rules.dp_rule)
gdp_rule = _spoken(rules.gdp_rule)
rdp_rule = _spoken(rules.rdp_rule)
