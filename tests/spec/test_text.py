"""Hostile and odd texts end in one line that says where, and quickly."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dpcalc.errors import InputError
from dpcalc.files import read_text
from dpcalc.spec.text import MAX_BYTES, parse, parse_yaml

SECONDS = 5.0


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def text_of(data: bytes) -> str:
    Path("spec.yaml").write_bytes(data)
    return read_text("spec.yaml", limit=MAX_BYTES, what="a spec")


def refusal(text: str | bytes) -> str:
    """The message a text is refused with, in bounded time."""
    data = text.encode() if isinstance(text, str) else text
    start = time.process_time()
    with pytest.raises(InputError) as error:
        parse(text_of(data), "spec.yaml")
    assert time.process_time() - start < SECONDS
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "spec.yaml:3: the key 'a' is given twice"),
        ("a: &x 1\nb: 2\n", "spec.yaml:1: anchors are not read"),
        ("a: *x\n", "spec.yaml:1: aliases are not read"),
        ("a: !!python/object/apply:os.system [ls]\n", "spec.yaml:1: tags are not read"),
        ("a: 1\n---\nb: 2\n", "spec.yaml:2: a second document begins"),
        ("? [1, 2]\n: 3\n", "spec.yaml:1: a key must be a word"),
        ("a: [1, 2\nb: 3\n", "spec.yaml:2: not YAML"),
        ("a: 1\nb: \x07\n", "spec.yaml:2: not YAML"),
        (b"a: 1\nb: \x00\n", "spec.yaml:2: not a text file"),
        (b"a: 1\nb: \xff\n", "spec.yaml:2: not UTF-8"),
    ],
)
def test_what_is_not_plain_data_is_refused_with_its_line(text: str | bytes, message: str) -> None:
    assert refusal(text).startswith(message)


def test_an_alias_bomb_is_refused_at_its_first_anchor() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10))
    assert refusal(bomb).startswith("spec.yaml:1: anchors are not read")


@pytest.mark.parametrize("text", ["[" * 1_000_000, "- " * 1_000_000, "{a: " * 200_000, '{"a":' * 200_000])
def test_nesting_that_does_not_end_is_refused(text: str) -> None:
    assert "nested deeper than" in refusal(text)


def test_a_text_larger_than_the_limit_is_refused_before_it_is_parsed() -> None:
    assert "larger than the 10 MB" in refusal(b"x" * (MAX_BYTES + 1))


def test_more_values_than_any_spec_has_are_refused() -> None:
    assert "more than 300,000 values" in refusal("- 1\n" * 2_000_000)


def test_line_numbers_survive_windows_line_ends_and_a_byte_order_mark() -> None:
    root = parse(text_of(b"\xef\xbb\xbfa: 1\r\nb:\r\n  - 2\r\n"), "spec.yaml")
    assert root.mapping("a mapping")["b"].items("a list")[0].where == "spec.yaml:3: b[0]"


def test_a_json_result_keeps_its_text_and_points_by_key() -> None:
    root = parse('{"schema": "dpcalc/1", "names": ["\\ud83d\\ude00"], "delta": 1e-05}', "run.json")
    values = root.mapping("a mapping")
    assert values["names"].items("a list")[0].content == "\N{GRINNING FACE}"
    assert values["delta"].content == "1e-05"
    assert values["delta"].where == "run.json: delta"


def test_a_key_given_twice_is_refused_in_json_too() -> None:
    assert "'a' is given twice" in refusal('{"schema": "dpcalc/1", "a": 1, "a": 2}')


def test_three_thousand_entries_are_read_quickly() -> None:
    line = "  - {type: gaussian, noise_multiplier: 1.1, sampling: {scheme: poisson, rate: 0.01}, count: 1}\n"
    start = time.process_time()
    parse_yaml("mechanisms:\n" + line * 3000, "spec.yaml")
    assert time.process_time() - start < 2.0
