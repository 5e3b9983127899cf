"""The page: right numbers, nothing from outside, and as a real browser shows it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpcalc.render.html import _environment

Run = Callable[..., Any]

ROOT = Path(__file__).resolve().parents[2]
# 1-GDP: ε at δ = 1e-5 from the closed form of Balle and Wang, 4.37717809568…
SPEC = "delta: 1e-5\nbudget: {epsilon: 5}\nmechanisms: [{type: gdp, mu: 0.6, name: <b>one</b>}, {type: gdp, mu: 0.8}]\n"
WITHIN_ONE = re.compile(r"ε = 4\.37[789]")


class Page(HTMLParser):
    """What a browser would make of the page, as far as the tests look."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "link", "br", "line", "path", "circle", "polygon", "polyline"):
            self.open.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "action", "srcset")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        if tag in self.open:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC)
    return path


def page(dpcalc: Run, target: Path, *arguments: object, code: int = 0) -> tuple[str, Page]:
    pytest.importorskip("jinja2")
    outcome = dpcalc("report", *arguments, "-o", target)
    assert outcome.code == code, outcome.err
    text = target.read_text(encoding="utf-8")
    return text, Page(text)


def test_the_page_has_verdict_numbers_pictures_conditions_date_and_version(
    dpcalc: Run, spec: Path, tmp_path: Path
) -> None:
    from datetime import date

    from dpcalc import __version__

    text, found = page(dpcalc, tmp_path / "r.html", spec)
    assert WITHIN_ONE.search(found.text)
    assert "within the limit 5" in found.text
    assert found.tags.count("svg") == 3
    assert "the declared guarantee holds" in found.text
    assert f"dpcalc {__version__}" in found.text
    assert date.today().isoformat() in found.text
    assert not found.open
    assert 'lang="en"' in text
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_the_page_needs_nothing_from_outside_and_names_stay_text(dpcalc: Run, spec: Path, tmp_path: Path) -> None:
    text, found = page(dpcalc, tmp_path / "r.html", spec)
    assert not {"script", "iframe", "img", "object", "b"} & set(found.tags)
    assert found.addresses == ["data:,"]
    assert "http:" not in text
    assert "https:" not in text
    assert "<b>one</b>" in found.text


def test_a_verdict_that_fails_is_on_the_page_and_in_the_exit_code(dpcalc: Run, spec: Path, tmp_path: Path) -> None:
    _, found = page(dpcalc, tmp_path / "r.html", spec, "--max-epsilon", "4", code=1)
    assert "OVER the limit 4" in found.text
    assert "over the limit" in found.text


def test_the_spec_on_the_page_gives_the_same_number_again(dpcalc: Run, tmp_path: Path) -> None:
    source = ROOT / "examples" / "mixed-release.yaml"
    text, _ = page(dpcalc, tmp_path / "r.html", source)
    match = re.search(r"<pre[^>]*><code>(.*?)</code></pre>", text, re.DOTALL)
    assert match is not None
    again = dpcalc("compose", "-", "-f", "json", stdin=match[1]).json
    first = dpcalc("compose", source, "-f", "json").json
    assert again["epsilon"] == pytest.approx(first["epsilon"], rel=1e-3)
    assert again["budget"] == first["budget"] == {"within": True, "max_epsilon": 3.0}
    assert yaml.safe_load(match[1])["adjacency"] == "add-remove"


def test_a_fitted_mu_is_told_on_the_page_with_its_slack(dpcalc: Run, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    asked = ("-m", "laplace,scale=5,sensitivity=1,count=4", "--delta", "1e-6")
    dpcalc("compose", *asked, "--slack", "1e-4", "-f", "json", "-o", result)
    told = json.loads(result.read_text())["details"]["fitted"]
    for options in ((), ("--slack", "1e-4")):
        found = dpcalc("report", result, *options, "-f", "json").json["details"]["fitted"]
        assert found == told
    assert "-GDP up to slack 1e-4" in dpcalc("report", result, "-f", "html").out
    # Slacks add up under composition: so does what two results tell.
    both = dpcalc("report", result, result, "-f", "json").json["details"]["fitted"]
    assert both["slack"] == pytest.approx(2e-4)
    assert "fitted" not in dpcalc("report", "examples/dp-sgd.yaml", "-f", "json").json["details"]


def test_without_jinja_a_page_is_an_error_that_names_the_extra(
    dpcalc: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("jinja2", "markupsafe"):
        monkeypatch.setitem(sys.modules, name, None)
    _environment.cache_clear()
    result = dpcalc("report", "examples/dp-sgd.yaml", "-o", tmp_path / "r.html")
    _environment.cache_clear()
    assert result.code == 2
    assert result.err == "dpcalc: pages need Jinja2\n        in dpcalc's checkout: pip install '.[report]'\n"


def test_numbers_stand_on_the_right_of_a_table(dpcalc: Run) -> None:
    page = dpcalc("report", "examples/mixed-release.yaml", "-f", "html").out
    assert '<th scope="col" class="">mechanism</th>' in page
    assert '<th scope="col" class="number">its own ε</th>' in page
    assert '<td class="number">91 %</td>' in page


def test_results_of_several_commands_are_computed_again_and_composed(dpcalc: Run, tmp_path: Path) -> None:
    for name, mu in (("a", "0.6"), ("b", "0.8")):
        assert dpcalc("convert", "--gdp", mu, "--delta", "1e-5", "-o", tmp_path / f"{name}.json").code == 0
    _, found = page(dpcalc, tmp_path / "r.html", tmp_path / "a.json", tmp_path / "b.json")
    assert WITHIN_ONE.search(found.text)
    assert "What each file costs" in found.text
    claimed = json.loads((tmp_path / "a.json").read_text())
    (tmp_path / "a.json").write_text(json.dumps(claimed | {"epsilon": claimed["epsilon"] / 2}))
    outcome = dpcalc("report", tmp_path / "a.json", "-o", tmp_path / "r.html")
    assert outcome.code == 2
    assert "epsilon" in outcome.err


def test_a_run_tells_its_own_story(dpcalc: Run, tmp_path: Path) -> None:
    log = ROOT / "examples" / "filter-norms.csv"
    flags = ("--filter", "gdp", "--sigma", "4", "--mu", "1", "--delta", "1e-5")
    assert dpcalc("filter", log, *flags, "-o", tmp_path / "f.json").code == 0
    _, found = page(dpcalc, tmp_path / "r.html", tmp_path / "f.json")
    assert "Records that take part" in found.text
    assert (tmp_path / "r.html").stat().st_mode & 0o077 == 0, "what tells about individuals is for its owner"


def test_a_ledger_is_told_budget_by_budget(dpcalc: Run, tmp_path: Path) -> None:
    ledger = tmp_path / "team.db"
    assert dpcalc("ledger", "init", ledger, "--budget", "census", "--mu", "1", "--filter", "gdp").code == 0
    assert dpcalc("ledger", "spend", ledger, "census", "-m", "gdp,mu=0.5", "--key", "k1").code == 0
    _, found = page(dpcalc, tmp_path / "r.html", ledger)
    assert "census: 25 %" in found.text.replace("25.0", "25").replace("\u00a0", " ")
    assert "k1" in found.text
    assert dpcalc("report", ledger, "--max-epsilon", "3", "-o", tmp_path / "x.html").code == 2


def test_markdown_by_name(dpcalc: Run, spec: Path, tmp_path: Path) -> None:
    target = tmp_path / "r.md"
    assert dpcalc("report", spec, "-o", target).code == 0
    text = target.read_text(encoding="utf-8")
    assert text.startswith("**ε = 4.37")
    assert "&lt;b>one" in text


@pytest.mark.parametrize(("kind", "field"), [("model-card", "Neighbours"), ("registry", "privacy_unit")])
def test_statements_have_words_and_fields(dpcalc: Run, spec: Path, kind: str, field: str) -> None:
    outcome = dpcalc("report", spec, "--statement", kind, "--unit", "household", "-f", "json")
    statement = outcome.json["details"]["statement"]
    assert re.search(r"\(ε = 4\.37[789], δ = 1e-5\)-differential privacy for one household", statement["words"])
    assert "household" in statement["fields"][field]
    assert dpcalc("report", spec, "--statement", kind, "--max-epsilon", "1").code == 1


def test_a_statement_about_what_is_not_certified_says_so(dpcalc: Run) -> None:
    text = "delta: 1e-5\nmechanisms: [{type: gdp, mu: 1, guarantee: approximate}]\n"
    words = dpcalc("report", "-", "--statement", "model-card", stdin=text).out
    assert words.startswith("Not a guarantee")


def test_three_mechanisms_take_less_than_two_seconds_and_300_kilobytes(tmp_path: Path, spec: Path) -> None:
    pytest.importorskip("jinja2")
    spec.write_text(
        "delta: 1e-6\nmechanisms:\n"
        "  - {type: dp-sgd, noise_multiplier: 1.3, rate: 512/50000, epochs: 12, sampling: poisson}\n"
        "  - {type: laplace, scale: 30, sensitivity: 1, count: 4}\n"
        "  - {type: gaussian, noise_multiplier: 12, count: 3}\n"
    )
    target = tmp_path / "r.html"
    command = [sys.executable, "-m", "dpcalc", "report", str(spec), "-o", str(target)]
    taken = []
    for _ in range(2):
        before = os.times()
        subprocess.run(
            command, check=True, capture_output=True, timeout=600, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        )
        after = os.times()
        taken.append(after.children_user + after.children_system - before.children_user - before.children_system)
    assert min(taken) < 2.0, f"{taken} s of processor time"
    assert target.stat().st_size < 300_000


def test_what_a_command_derived_is_called_by_its_name(dpcalc: Run, tmp_path: Path) -> None:
    log, result = ROOT / "examples" / "filter-norms.csv", tmp_path / "filter.json"
    assert (
        dpcalc("filter", log, "--filter", "gdp", "--sigma", "6", "--mu", "0.7", "--delta", "1e-5", "-o", result).code
        == 0
    )
    told = dpcalc("report", result, "-f", "json").json["details"]["mechanisms"]
    assert [entry["name"] for entry in told] == ["filter"]


# -- in a real browser -----------------------------------------------------------------------------------------------

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)


def in_chromium(target: Path, tmp_path: Path, *flags: str) -> tuple[str, str]:
    """The document that the browser made of a page, and everything it logged."""
    assert CHROMIUM is not None
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
        "--enable-logging=stderr", "--v=0", f"--user-data-dir={tmp_path / 'profile'}", "--no-first-run",
        # Every name leads nowhere: a request would be an error in the log.
        "--host-resolver-rules=MAP * ~NOTFOUND", *flags, target.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, timeout=600, check=True, cwd=tmp_path)
    return done.stdout.decode(), done.stderr.decode(errors="replace")


in_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
# Whom the browser asks on its own account: for updates, the time and the like.
_ITS_OWN = ("google.com", "googleapis.com", "gvt1.com")


def asked_for(events: str) -> set[str]:
    """The hosts of a log of the network, but for those that the browser asks without any page."""
    hosts = set(re.findall(r'"url":"(?:http|ws)s?://([^/":]+)', events))
    return {host for host in hosts if not host.endswith(_ITS_OWN)}


@in_a_browser
def test_chromium_shows_the_numbers_without_errors_or_requests(dpcalc: Run, spec: Path, tmp_path: Path) -> None:
    target = tmp_path / "r.html"
    page(dpcalc, target, spec)
    log_file = tmp_path / "net.json"
    document, log = in_chromium(target, tmp_path, "--dump-dom", f"--log-net-log={log_file}")
    assert "CONSOLE" not in log
    assert WITHIN_ONE.search(Page(document).text)
    assert not asked_for(log_file.read_text(errors="replace"))


@in_a_browser
def test_chromium_would_tell_of_errors_and_requests(tmp_path: Path) -> None:
    """The test above can fail."""
    target, log_file = tmp_path / "bad.html", tmp_path / "net.json"
    target.write_text('<script>console.error("no"); fetch("https://example.org/x")</script>')
    _, log = in_chromium(target, tmp_path, "--dump-dom", f"--log-net-log={log_file}")
    assert "CONSOLE" in log
    assert asked_for(log_file.read_text(errors="replace")) == {"example.org"}


@in_a_browser
@pytest.mark.parametrize("width", [400, 1000])
@pytest.mark.parametrize("dark", [False, True])
def test_chromium_draws_ink_that_stands_out_from_its_paper(
    dpcalc: Run, spec: Path, tmp_path: Path, width: int, dark: bool
) -> None:
    image = pytest.importorskip("matplotlib.image")
    target, shot = tmp_path / "r.html", tmp_path / "r.png"
    page(dpcalc, target, spec)
    flags = ("--force-dark-mode", "--blink-settings=preferredColorScheme=0") if dark else ()
    in_chromium(target, tmp_path, f"--window-size={width},900", f"--screenshot={shot}", *flags)
    light = image.imread(shot)[:, :, :3].mean(axis=2)
    paper = float(light[0, 0])
    assert (paper < 0.2) if dark else (paper > 0.95)
    assert (abs(light - paper) > 0.6).mean() > 0.002, "some of it is ink"


@in_a_browser
def test_chromium_prints_it(dpcalc: Run, spec: Path, tmp_path: Path) -> None:
    target, paper = tmp_path / "r.html", tmp_path / "r.pdf"
    page(dpcalc, target, spec)
    in_chromium(target, tmp_path, f"--print-to-pdf={paper}")
    assert paper.read_bytes().startswith(b"%PDF")


def test_a_page_says_which_files_it_is_about_and_what_a_run_reached(dpcalc: Run, tmp_path: Path) -> None:
    import dpcalc as library

    run = library.train(model="logistic", epochs=1, noise_multiplier=2, seed=3)
    run.save(tmp_path / "run.json")
    page = dpcalc("report", tmp_path / "run.json", "-f", "html").out
    assert "<p>run.json; dpcalc " in page
    assert str(tmp_path) not in page
    reached = f"{100 * run.details['test_accuracy']:.1f} % of the test records right, with ε = "
    assert page.count(f"<h2>{reached}") == 1
    assert page.count("sgd, batch 512, noise/clip 2, clip 1, epochs 1, δ 1e-5; certified</small>") > 1
