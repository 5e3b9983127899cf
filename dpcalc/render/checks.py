"""A result for continuous integration: annotations of a GitHub workflow, and JUnit's XML."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from dpcalc.guarantee import Outcome, Result
from dpcalc.render.screen import printable
from dpcalc.render.words import answer
from dpcalc.report import SYMBOLS, rounded_up, verdict_line, written

_COLOURS = {"within": "brightgreen", "over": "red", "unproved": "yellow"}


def as_annotations(result: Result) -> str:
    """One line that GitHub shows beside the run: a notice, or an error where a limit is not kept; then the warnings."""
    level = "error" if set(result.outcomes) - {"within"} else "notice"
    lines = [annotation(level, f"dpcalc {result.command}", answer(result))]
    warnings = () if result.guarantee is None else result.guarantee.warnings
    lines += [annotation("warning", f"dpcalc {result.command}", line) for line in warnings]
    return "\n".join(lines) + "\n"


def annotation(level: str, title: str, message: str, **place: object) -> str:
    """A workflow command; what would end its property or line is escaped as the runner expects."""
    lines = "\n".join(map(printable, message.splitlines()))
    text = lines.replace("%", "%25").replace("\n", "%0A")
    properties = ",".join(f"{name}={_property(value)}" for name, value in {**place, "title": title}.items())
    return f"::{level} {properties}::{text}"


def _property(value: object) -> str:
    text = printable(str(value))
    return text.replace("%", "%25").replace(":", "%3A").replace(",", "%2C")


def as_badge(result: Result) -> str:
    """The JSON that shields.io reads from an address and draws as a badge."""
    import json

    outcomes = result.outcomes
    colour = next((_COLOURS[outcome] for outcome in ("over", "unproved", "within") if outcome in outcomes), "blue")
    guarantee = result.guarantee
    if guarantee is None or guarantee.epsilon is None:
        message = answer(result)
    else:
        at = "" if guarantee.delta is None else f", δ = {written(guarantee.delta)}"
        message = f"ε = {rounded_up(guarantee.epsilon)}{at}"
        colour = colour if guarantee.status == "certified" else _COLOURS["unproved"]
    badge = {"schemaVersion": 1, "label": "differential privacy", "message": message, "color": colour}
    return json.dumps(badge, ensure_ascii=False) + "\n"


def as_junit(result: Result) -> str:
    """A test case for each limit and for a goal, or for the answer: failed where over, an error if not certified."""
    cases = [
        _case(result, f"{SYMBOLS[each.quantity]} within {written(each.limit)}", each.outcome, verdict_line(each))
        for each in result.verdicts
    ]
    if result.goal is not None or not cases:
        said = xml(answer(result))
        cases.append(_case(result, said, result.goal or "within", said))
    failures, errors = result.outcomes.count("over"), result.outcomes.count("unproved")
    return suite(f"dpcalc {result.command}", cases, failures=failures, errors=errors, said=xml(answer(result)))


def suite(name: str, cases: Sequence[str], *, failures: int, errors: int, said: str) -> str:
    """The document around test cases, with what was said while they ran."""
    counts = f'tests="{len(cases)}" failures="{failures}" errors="{errors}"'
    body = "\n".join(cases)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<testsuites {counts}>\n  <testsuite name={quoteattr(name)} {counts}>\n{body}\n"
        f"    <system-out>{escape(said)}</system-out>\n  </testsuite>\n</testsuites>\n"
    )


def _case(result: Result, name: str, outcome: Outcome, message: str) -> str:
    head = f"    <testcase classname={_attribute(result)} name={quoteattr(name)}"
    if outcome == "within":
        return f"{head}/>"
    tag = "failure" if outcome == "over" else "error"
    return f"{head}><{tag} message={quoteattr(xml(message))}/></testcase>"


def _attribute(result: Result) -> str:
    return quoteattr(f"dpcalc {result.command}")


def xml(text: str) -> str:
    """The text without characters that XML cannot hold."""
    return "".join(c if c.isprintable() or c in " \t\n" else "\ufffd" for c in text)
