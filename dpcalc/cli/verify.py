"""`dpcalc verify`: results recomputed by code that shares nothing with the accountants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpcalc.cli.command import command
from dpcalc.cli.options import number
from dpcalc.errors import InputError
from dpcalc.guarantee import Outcome, Result, Section

if TYPE_CHECKING:
    from dpcalc.referee.check import Finding

_LARGEST = 10_000_000
_OUTCOMES: dict[str, Outcome] = {"confirmed": "within", "contradicted": "over", "not-checked": "unproved"}

Files = Annotated[
    list[str] | None, typer.Argument(metavar="RESULT…", help="JSON of any dpcalc command; - is standard input.")
]
SelfTest = Annotated[
    bool, typer.Option("--self-test", help="Check what is assumed of this machine: rounding, transforms, functions.")
]
Seconds = Annotated[float, number("--seconds", help="How long to refine the grids of one result.")]


@command(example="dpcalc verify result.json")
def verify(*, result: Files = None, self_test: SelfTest = False, seconds: Seconds = 60.0) -> Result:
    """Recompute results in ball arithmetic, and say of each: confirmed, contradicted or not checked.

    Exit code 0 if all are confirmed, 1 if any is contradicted, 3 if any could not be checked. Needs the extra `verify`.
    """
    try:
        from dpcalc.referee.check import Finding, checked
        from dpcalc.referee.platform import tested
    except ImportError:
        raise InputError("ball arithmetic needs python-flint: install dpcalc with its extra `verify`") from None
    names = result or []
    if not names and not self_test:
        raise InputError("there is nothing to verify: give a RESULT, or --self-test")
    rows: list[tuple[str, Finding]] = []
    if self_test:
        rows += [(name, Finding("confirmed" if holds else "contradicted", words)) for name, holds, words in tested()]
    rows += [(name, checked(_read(name), seconds)) for name in names]
    return Result(
        command="verify",
        details={"checks": [{"result": name, "verdict": f.verdict, "reason": f.reason} for name, f in rows]},
        headline=_headline([finding for _, finding in rows]),
        sections=(
            Section(
                title="",
                columns=("what", "verdict", "why"),
                rows=tuple((name, finding.verdict, finding.reason) for name, finding in rows),
            ),
        ),
        records=tuple({"result": name, "verdict": f.verdict, "reason": f.reason} for name, f in rows),
        goal=_goal([finding for _, finding in rows]),
    )


def _read(name: str) -> dict[str, Any]:
    import json

    from dpcalc.files import read_bytes

    data = read_bytes(name, limit=_LARGEST, what="a result")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise InputError("not the JSON of a dpcalc command", where=name) from None
    if not isinstance(document, dict) or document.get("schema") != "dpcalc/1":
        raise InputError('not the JSON of a dpcalc command ("schema": "dpcalc/1" is missing)', where=name)
    return document


def _goal(findings: list[Finding]) -> Outcome:
    outcomes = {_OUTCOMES[finding.verdict] for finding in findings}
    return "over" if "over" in outcomes else "unproved" if "unproved" in outcomes else "within"


def _headline(findings: list[Finding]) -> str:
    count = {verdict: sum(f.verdict == verdict for f in findings) for verdict in _OUTCOMES}
    if count["contradicted"]:
        return f"NO: {count['contradicted']} of {len(findings)} contradicted"
    if count["not-checked"]:
        return f"{count['confirmed']} of {len(findings)} confirmed, {count['not-checked']} could not be checked"
    return "confirmed" if len(findings) == 1 else f"all {len(findings)} confirmed"
