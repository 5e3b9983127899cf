"""The page for everybody: contrast in light and dark, lists with terms, headings that stay with what they head."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

STYLE = (resources.files("dpcalc.render") / "templates" / "style.css").read_text(encoding="utf-8")
TEXTS = ("ink", "soft", "main", "good", "bad", "doubt")
CHROMIUM, TO_TEXT = shutil.which("chromium") or shutil.which("chromium-browser"), shutil.which("pdftotext")


def colours(block: str) -> dict[str, str]:
    found = dict(re.findall(r"--(\w+): #([0-9a-f]{3,6})", block))
    return {name: value if len(value) == 6 else "".join(2 * digit for digit in value) for name, value in found.items()}


def luminance(colour: str) -> float:
    """Relative luminance of sRGB (WCAG 2.2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_the_measure_of_contrast_knows_black_on_white() -> None:
    assert contrast("000000", "ffffff") == pytest.approx(21)
    assert contrast("777777", "ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("text", TEXTS)
def test_every_text_stands_out_from_its_ground(scheme: str, text: str) -> None:
    light, _, rest = STYLE.partition("@media (prefers-color-scheme: dark)")
    known = colours(light if scheme == "light" else rest.partition("* {")[0])
    for ground in ("paper", "panel"):
        assert contrast(known[text], known[ground]) >= 4.5, (text, ground)


def test_lists_have_no_empty_terms_and_parts_say_what_made_them(dpcalc: Run, tmp_path: Path) -> None:
    result, page = tmp_path / "filter.json", tmp_path / "report.html"
    log = ("filter", "examples/filter-norms.csv", "--filter", "gdp", "--sigma", "5", "--mu", "1", "--delta", "1e-6")
    assert dpcalc(*log, "-o", result).code == 0
    assert dpcalc("report", "examples/mixed-release.yaml", result, "-o", page).code in (0, 1)
    text = page.read_text()
    assert "<dt></dt>" not in text
    assert text.count("<dd>") > text.count("<dt>")
    assert '<p class="note">dpcalc filter</p>' in text


@pytest.mark.skipif(not (CHROMIUM and TO_TEXT), reason="no Chromium or no pdftotext")
def test_no_heading_is_the_last_line_of_a_printed_page(dpcalc: Run, tmp_path: Path) -> None:
    page, paper, words = tmp_path / "report.html", tmp_path / "report.pdf", tmp_path / "report.txt"
    file = tmp_path / "team.db"
    assert dpcalc("ledger", "init", file, "--budget", "a", "--epsilon", "3", "--delta", "1e-6").code == 0
    for key in ("one", "two", "three"):
        assert dpcalc("ledger", "spend", file, "a", "-m", "gdp,mu=0.1", "--key", key).code == 0
    assert dpcalc("report", "examples/mixed-release.yaml", file, "-o", page).code == 0
    settings = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    settings += ["--no-pdf-header-footer", f"--print-to-pdf={paper}", page.as_uri()]
    subprocess.run([str(CHROMIUM), *settings], check=True, capture_output=True, timeout=600)
    subprocess.run([str(TO_TEXT), "-layout", paper, words], check=True)
    headings = {" ".join(found.split()) for found in re.findall(r"<h[23]>(.*?)</h[23]>", page.read_text())}
    headings |= {"How to compute it again", *re.findall(r"<caption>(.*?)</caption>", page.read_text())}
    pages = [
        [" ".join(line.split()) for line in text.splitlines() if line.strip()] for text in words.read_text().split("\f")
    ]
    assert sum(len(page) > 0 for page in pages) > 2
    assert not [page[-1] for page in pages if page and page[-1].lstrip("▼ ") in headings]


def test_small_shares_stand_under_large_ones(dpcalc: Run) -> None:
    out = dpcalc("compose", "-m", "gdp,mu=1,name=large", "-m", "gdp,mu=0.03,name=small", "--delta", "1e-5").out
    rows = [line for line in out.splitlines() if line.endswith(" %")]
    assert [row.split()[0] for row in rows] == ["large", "small"]
    assert len({len(row) for row in rows}) == 1, "to the right"
