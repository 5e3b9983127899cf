"""The errors a user can meet, each with the exit code the command line answers with."""

from __future__ import annotations

import re

# What was found may be in quotes, and hold anything then.
_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_EXPECTED = re.compile(rf"expected (?P<allowed>.+?)[,;] got (?P<found>{_QUOTED}|.+?)(?:; (?P<hint>.+))?", re.DOTALL)


class DpcalcError(Exception):
    """A problem that is told in one or two lines: where, what was found, what is allowed.

    `where` is a place in a file, or the name of a field; the command line tells the latter by its option. A message has
    one form, so that programs get its parts too: what is wrong, most often `expected A, got B`, and after a semicolon
    what to do. What does not fit into it is given beside it.
    """

    exit_code = 2

    def __init__(
        self, message: str, *, where: str | None = None, found: str | None = None, allowed: str | None = None
    ) -> None:
        super().__init__(f"{where}: {message}" if where else message)
        form = _EXPECTED.fullmatch(message)
        self.message = message
        self.where = where
        self.found = _unquoted(form["found"]) if form and found is None else found
        self.allowed = form["allowed"] if form and allowed is None else allowed

    @property
    def hint(self) -> str | None:
        """What to do about it, if anybody knows."""
        return self._split[1]

    @property
    def wrong(self) -> str:
        """The message without its hint."""
        return self._split[0]

    @property
    def _split(self) -> tuple[str, str | None]:
        form = _EXPECTED.fullmatch(self.message)
        if form is not None:
            return self.message[: form.end("found")], form["hint"]
        wrong, semicolon, hint = self.message.rpartition("; ")
        whole = not semicolon or wrong.count("(") > wrong.count(")")  # a semicolon in brackets parts nothing
        return (self.message, None) if whole else (wrong, hint)

    def at(self, where: str | None, message: str | None = None) -> DpcalcError:
        """The same problem, told of another place or in other words."""
        self.where, self.message = where, self.message if message is None else message
        self.args = (f"{where}: {self.message}" if where else self.message,)
        return self


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


class InputError(DpcalcError):
    """The input is wrong: a bad value, a bad file, a violated precondition (exit code 2)."""


class IncompatibleError(InputError):
    """Guarantees that do not fit together: adjacency, sampler or notion differ (exit code 2)."""


class CertificationError(DpcalcError):
    """The input is fine, but the answer could not be certified (exit code 3)."""

    exit_code = 3


class WriteError(CertificationError):
    """The answer is there, but it could not be written (exit code 3)."""


class BusyError(CertificationError):
    """Another process is at the same file (exit code 3)."""


def missing(what: str, extra: str, *, where: str | None = None) -> InputError:
    """Something that is not installed, with the line that installs it: dpcalc is on no index, but in its checkout."""
    return InputError(f"{what}; in dpcalc's checkout: pip install '.[{extra}]'", where=where)
