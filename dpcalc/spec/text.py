"""YAML and JSON text to nodes, in time and memory proportional to a bounded text.

Only plain data is read: no tags, no anchors or aliases (so nothing expands), one document, no key twice, and nesting
that ends. Positions are kept for YAML; a JSON result is usually one machine-written line, so it is pointed into by key.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import yaml

from dpcalc.errors import InputError
from dpcalc.spec.node import Node

MAX_BYTES = 10_000_000
MAX_VALUES = 300_000
MAX_DEPTH = 20

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse(text: str, source: str) -> Node:
    """The nodes of a YAML text, or of a JSON object."""
    if text.lstrip()[:1] == "{":
        node = _parse_json(text, source)
        if node is not None:
            return node
    return parse_yaml(text, source)


class _Number(str):
    """The text of a JSON number, told apart from a JSON string."""


def _parse_json(text: str, source: str) -> Node | None:
    """The nodes of a JSON result; None if the text is not JSON or not a result (YAML then keeps the lines)."""
    try:
        data = json.loads(
            text, parse_float=_Number, parse_int=_Number, parse_constant=_Number, object_pairs_hook=_unique(source)
        )
    except (ValueError, RecursionError):
        return None
    return _from_json(data, source, "", MAX_DEPTH) if "schema" in data else None


def _unique(source: str) -> Any:
    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
            raise InputError(f"the key {twice[:40]!r} is given twice", where=source)
        return found

    return mapping


def from_data(data: Any, source: str) -> Node:
    """The nodes of plain values, as if they had been read from JSON."""
    text = json.dumps(data, ensure_ascii=False)
    return _from_json(json.loads(text, parse_float=_Number, parse_int=_Number), source, "", MAX_DEPTH)


def _from_json(data: Any, source: str, path: str, depth: int) -> Node:
    if depth == 0:
        raise InputError(f"nested deeper than {MAX_DEPTH} levels", where=source)
    if isinstance(data, dict):
        fields = {key: _from_json(value, source, f"{path}.{key}".lstrip("."), depth - 1) for key, value in data.items()}
        return Node(fields, source, path)
    if isinstance(data, list):
        parts = [_from_json(value, source, f"{path}[{i}]", depth - 1) for i, value in enumerate(data)]
        return Node(parts, source, path)
    if isinstance(data, str):
        return Node(str(data), source, path, None, isinstance(data, _Number))
    return Node("null" if data is None else str(data).lower(), source, path)


def parse_yaml(text: str, source: str, path: str = "") -> Node:
    """The nodes of one YAML document."""
    try:
        return _Builder(source, path).build(yaml.parse(text, Loader=_LOADER))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "unreadable"
        position = getattr(error, "position", None)  # of a character that YAML does not allow
        line = mark.line + 1 if mark is not None else text.count("\n", 0, position) + 1
        where = f"{source}:{line}"
        raise InputError(f"not YAML: {reason}", where=where) from None


class _Frame:
    """A list or mapping that is being filled."""

    __slots__ = ("key", "key_line", "node", "values")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.values = node.content
        self.key: str | None = None
        self.key_line = 0


class _Builder:
    """Builds nodes from YAML events with a stack of its own: deep nesting cannot overflow anything."""

    def __init__(self, source: str, path: str) -> None:
        self.source = source
        self.root_path = path
        self.stack: list[_Frame] = []
        self.root: Node | None = None
        self.left = MAX_VALUES

    def build(self, events: Iterator[Any]) -> Node:
        for event in events:
            kind = type(event)
            if kind is yaml.ScalarEvent:
                self._scalar(event)
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                self._open(event)
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                self.stack.pop()
            elif kind is yaml.AliasEvent:
                self._refuse(event, f"aliases are not read (*{event.anchor}); write the value out")
            elif kind is yaml.DocumentStartEvent and self.root is not None:
                self._refuse(event, "a second document begins; a spec is one document")
        return self.root if self.root is not None else Node("", self.source, self.root_path)

    def _scalar(self, event: Any) -> None:
        self._check(event)
        frame = self.stack[-1] if self.stack else None
        if frame is not None and type(frame.values) is dict and frame.key is None:
            if event.value in frame.values:
                self._refuse(event, f"the key {event.value[:40]!r} is given twice")
            frame.key, frame.key_line = event.value, event.start_mark.line + 1
        else:
            self._add(event, event.value, event.implicit[0])

    def _open(self, event: Any) -> None:
        self._check(event)
        if len(self.stack) == MAX_DEPTH:
            self._refuse(event, f"nested deeper than {MAX_DEPTH} levels")
        frame = self.stack[-1] if self.stack else None
        if frame is not None and type(frame.values) is dict and frame.key is None:
            self._refuse(event, "a key must be a word, not a list or a mapping")
        empty: dict[str, Node] | list[Node] = {} if type(event) is yaml.MappingStartEvent else []
        self.stack.append(_Frame(self._add(event, empty, True)))

    def _add(self, event: Any, content: Any, plain: bool) -> Node:
        line = event.start_mark.line + 1
        if not self.stack:
            node = self.root = Node(content, self.source, self.root_path, line, plain)
            return node
        frame = self.stack[-1]
        path = frame.node.path
        if type(frame.values) is dict:
            key = frame.key or ""
            node = Node(content, self.source, f"{path}.{key}" if path else key, line, plain, frame.key_line)
            frame.values[key] = node
            frame.key = None
        else:
            assert isinstance(frame.values, list)
            node = Node(content, self.source, f"{path}[{len(frame.values)}]", line, plain)
            frame.values.append(node)
        return node

    def _check(self, event: Any) -> None:
        self.left -= 1
        if self.left < 0:
            self._refuse(event, f"more than {MAX_VALUES:,} values")
        if event.anchor is not None:
            self._refuse(event, f"anchors are not read (&{event.anchor}); write the value out where it is used")
        if event.tag is not None:
            self._refuse(event, f"tags are not read ({event.tag})")

    def _refuse(self, event: Any, message: str) -> None:
        raise InputError(message, where=f"{self.source}:{event.start_mark.line + 1}")
