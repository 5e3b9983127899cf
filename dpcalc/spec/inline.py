"""`-m gaussian,noise_multiplier=1.1,count=10`: one entry written on the command line."""

from __future__ import annotations

from dpcalc.errors import InputError
from dpcalc.spec.node import Node
from dpcalc.spec.text import parse_yaml

_SHOWN = 48  # letters of an entry that an error begins with: a word that fits the narrowest terminal


def parse_inline(text: str) -> Node:
    """The entry: a type, then key=value pairs; a dotted key (sampling.rate) or a value in [] or {} goes deeper."""
    short = text[: _SHOWN - 4]
    source = f"-m {text}" if len(text) <= _SHOWN else f"-m {short.rpartition(',')[0] or short},..."
    kind, *pairs = _split(text, source)
    if not kind or "=" in kind:
        raise InputError(f"expected a type first, as in gaussian,noise_multiplier=1.1, got {kind!r}", where=source)
    fields: dict[str, Node] = {"type": Node(kind, source, "type")}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key or not value:
            raise InputError(f"expected key=value, got {pair!r}", where=source)
        _insert(fields, key, _value(value, source, key), source)
    return Node(fields, source)


def _value(text: str, source: str, key: str) -> Node:
    return parse_yaml(text, source, key) if text[0] in "[{" else Node(text, source, key)


def _insert(fields: dict[str, Node], key: str, value: Node, source: str) -> None:
    """Put a value at its dotted key, making the blocks in between."""
    *blocks, last = key.split(".")
    for depth, block in enumerate(blocks):
        inner = fields.setdefault(block, Node({}, source, ".".join(blocks[: depth + 1]))).content
        if not isinstance(inner, dict):
            raise InputError(f"{block} is given as a word and as a block", where=source)
        fields = inner
    if last in fields:
        raise InputError(f"the key {key!r} is given twice", where=source)
    fields[last] = value


def _split(text: str, source: str) -> list[str]:
    """The parts between commas that are not inside brackets."""
    parts, depth, start = [], 0, 0
    for i, character in enumerate(text):
        depth += (character in "[{") - (character in "]}")
        if character == "," and depth == 0:
            parts.append(text[start:i].strip(" "))
            start = i + 1
    if depth:
        raise InputError("a bracket is not closed", where=source)
    return [*parts, text[start:].strip(" ")]
