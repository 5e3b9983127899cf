"""`dpcalc report`: one page about a release, or about a ledger, that can be sent, printed and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from dpcalc.asked import Asked, argument, option
from dpcalc.commands.common import ADJACENCY, DELTAS, SLACK, asked_at
from dpcalc.commands.compose import breakdown, fitted
from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency, Outcome, Result
from dpcalc.report import to_json

if TYPE_CHECKING:
    from dpcalc.spec.specification import Document

_SQLITE = b"SQLite format 3\0"
_POSTGRES = ("postgresql://", "postgres://")
# Commands whose result says more than its mechanisms do: steps, records, accuracy.
_WITH_A_STORY = ("filter", "train", "sgd-bound", "exp-mech")
_WORST: tuple[Outcome, ...] = ("over", "unproved", "within")


@dataclass(frozen=True, kw_only=True)
class Report(Asked):
    """A self-contained page (-o report.html, or .md): verdict, numbers, risk, curves, breakdown, conditions, spec.

    Results are computed again from what they list, and composed, as compose does; of a ledger every budget is told as
    it stands. Without a file the report is printed.
    """

    example: ClassVar[str] = "dpcalc report examples/mixed-release.yaml -o report.html"

    sources: Annotated[
        tuple[str, ...],
        argument(
            metavar="RESULT|LEDGER...", help="JSON results, specs or ledgers; - is standard input.", repeated=True
        ),
    ]
    delta: Annotated[tuple[float, ...], DELTAS] = ()
    adjacency: Annotated[Adjacency | None, ADJACENCY] = None
    slack: Annotated[float | None, SLACK] = None
    statement: Annotated[
        Literal["model-card", "registry"] | None,
        option("--statement", help="Only the words and fields to publish."),
    ] = None
    unit: Annotated[str, option("--unit", metavar="WORD", help="What a record is, such as a person.")] = "record"

    def idle(self) -> Mapping[str, str]:
        """The unit is a word of a statement, which tells no risk that has a prior."""
        if self.statement:
            return {"prior": "has no effect on a statement"}
        return {"unit": "has no effect without a statement"}

    def answer(self) -> Result:
        """The page, or the words to publish."""
        ledgers = [source for source in self.sources if _is_ledger(source)]
        others = [source for source in self.sources if source not in ledgers]
        if self.statement is not None and ledgers:
            raise InputError("is about a release; a ledger has none of its own", where="statement")
        if self.unit != "record" and (reason := self.idle().get("unit")):
            raise InputError(reason, where="unit")
        pages = [page for ledger in ledgers for page in _pages(ledger)]
        if not others:
            if self.delta or self.adjacency or self.slack or self.limits.limits():
                raise InputError("a ledger has fixed its δ, adjacency and limits; these have no effect on it")
            first, *rest = pages
            return _with_parts(replace(first, command="report"), rest, self._names())
        result, documents = self._release(others)
        if self.statement is not None:
            return _stated(result, self.statement, self.unit, self.prior)
        return _with_parts(result, [*_stories(documents), *pages], self._names())

    def _names(self) -> list[str]:
        """What the page is about, by the names of the files: nobody's folders, no address of a server."""
        return [Path(source).name for source in self.sources if source != "-" and not source.startswith(_POSTGRES)]

    def _release(self, paths: Sequence[str]) -> tuple[Result, list[Document]]:
        """Everything that the files list, composed."""
        from dpcalc.spec.composition import Question, compose_documents
        from dpcalc.spec.sources import read_documents
        from dpcalc.spec.specification import common_budget

        documents = read_documents(paths, ())
        points, epsilon = asked_at(documents, self.delta, None)
        question = Question(delta=points[0] if points else None, epsilon=epsilon)
        composition = compose_documents(documents, question, self.adjacency)
        sections, details = breakdown(documents, composition)
        slack = self.slack or _told_slack(documents)
        if slack:
            details["fitted"] = fitted(composition, slack)
        result = Result(
            command="report",
            guarantee=composition.guarantee,
            details=details,
            sections=sections,
            curve=tuple(composition.curve(sorted(set(points), reverse=True))) if len(points) > 1 else (),
            budget=common_budget(documents, self.limits),
        )
        return result, documents


def _told_slack(documents: Sequence[Document]) -> float | None:
    """The slack of the μ that results tell, which adds up as they are composed; None if none of them tells one."""
    details = [document.told.get("details") for document in documents if document.told is not None]
    fits = [each.get("fitted") for each in details if isinstance(each, Mapping)]
    slacks = [each.get("slack") for each in fits if isinstance(each, Mapping)]
    known = sum(each for each in slacks if isinstance(each, float) and 0 < each < 1)
    return known if 0 < known < 1 else None


def _is_ledger(source: str) -> bool:
    if source.startswith(_POSTGRES):
        return True
    try:
        with Path(source).open("rb") as stream:
            return stream.read(len(_SQLITE)) == _SQLITE
    except (OSError, ValueError):
        return False


def _pages(ledger: str) -> list[Result]:
    from dpcalc.ledger.standing import pages

    return pages(ledger)


def _stories(documents: Sequence[Document]) -> list[Result]:
    """The results that say more than what they list, as they were told; reading them has checked their claims."""
    from dpcalc.report import from_json

    told = [document.told for document in documents if document.told is not None]
    return [_story(from_json(each)) for each in told if each.get("command") in _WITH_A_STORY]


def _story(result: Result) -> Result:
    """A result that was read back, with what a trained model reached before what it cost."""
    if result.command != "train":
        return result
    from dpcalc.training.words import preface_of

    return replace(result, preface=preface_of(result.details))


def _with_parts(result: Result, parts: Sequence[Result], names: list[str]) -> Result:
    details = {**result.details, "sources": names, "parts": [to_json(part) for part in parts]}
    private = result.private or any(part.private for part in parts)
    return replace(result, parts=tuple(parts), details=details, private=private)


def _stated(result: Result, kind: str, unit: str, prior: float) -> Result:
    """The words to publish; a limit that is not kept still decides the exit code."""
    from dpcalc.render.statement import model_card, registry
    from dpcalc.spec.risk import with_risk

    assert result.guarantee is not None
    guarantee = with_risk(result.guarantee, prior)
    words, fields = (model_card if kind == "model-card" else registry)(guarantee, unit)
    outcomes = {verdict.outcome for verdict in result.budget.judge(guarantee)}
    goal: Outcome | None = next((each for each in _WORST if each in outcomes), None)
    return Result(
        command="report",
        headline=words,
        facts=tuple(fields.items()),
        details={"statement": {"kind": kind, "words": words, "fields": fields}},
        goal=goal,
    )
