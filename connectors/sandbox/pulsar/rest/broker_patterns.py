"""Patterns of isolation policies as the simulated brokers evaluate them: like ``java.util.regex``.

The product evaluates them in linear time and refuses what that cannot express, a back reference for
example. Brokers take such a pattern, so the sandbox has to; it stores it and answers with Python's
own engine. Its placement goes through the product's view, which leaves the policy out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from core.pulsar.isolation import matcher_of
from core.pulsar.java_pattern import UnsupportedPatternError


def broker_matcher(expressions: Iterable[str]) -> Callable[[str], bool]:
    """Return whether one of the expressions matches a whole text, as brokers match it.

    Raises:
        PatternError: Java refuses one of them as well.
    """
    matchers = [_matcher(one) for one in expressions]
    return lambda text: any(matches(text) for matches in matchers)


def _matcher(expression: str) -> Callable[[str], bool]:
    try:
        return matcher_of((expression,))
    except UnsupportedPatternError:
        pass
    try:
        pattern = re.compile(expression, re.ASCII)
    except re.error:  # Java takes it, Python has nothing like it
        return lambda _: False
    return lambda text: pattern.fullmatch(text) is not None
