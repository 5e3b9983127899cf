"""Pictures: the right curves, on axes that show them, drawn the same by Matplotlib and on a page."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import dpcalc as library
from dpcalc.charts import Chart, Line, is_logarithmic, tick_text, ticks
from dpcalc.render.drawing import as_svg, bars_as_svg
from dpcalc.render.pictures import bars, charts

Run = Callable[..., Any]

ROOT = Path(__file__).resolve().parents[2]


def told(result: library.Result) -> Any:
    return result._complete


@pytest.mark.parametrize(
    ("values", "expected"), [([1, 7.9], False), ([1, 8], True), ([0, 100], False), ([-1, 50], False), ([], False)]
)
def test_an_axis_is_logarithmic_from_a_ratio_of_eight(values: list[float], expected: bool) -> None:
    assert is_logarithmic(values) is expected


@pytest.mark.parametrize(("low", "high"), [(0, 1), (3, 97), (0.2, 0.9), (-4, 4), (0, 12345)])
def test_ticks_are_round_and_inside(low: float, high: float) -> None:
    found = ticks(low, high, logarithmic=False)
    assert 2 <= len(found) <= 12
    assert all(low - 1e-9 <= value <= high + 1e-9 for value in found)
    assert tick_text(ticks(1e-10, 1e-2, logarithmic=True)[0]) == "1e-10"
    assert all(1.5 <= value <= 60 for value in ticks(1.5, 60, logarithmic=True))


def test_the_curve_of_a_gaussian_is_its_profile_and_the_attack_its_tradeoff() -> None:
    curve, attack = charts(told(library.convert(gdp=1.3, delta=1e-6)))
    for delta, epsilon in curve.lines[0].points():
        assert epsilon == pytest.approx(float(library.gdp_epsilon(1.3, delta)), rel=2e-2)
        assert epsilon >= float(library.gdp_epsilon(1.3, delta)) * (1 - 1e-9)
    from dpcalc.conversions import gdp_tradeoff

    for rate, reached in attack.lines[0].points():
        assert reached >= float(gdp_tradeoff(1.3, rate)) * (1 - 1e-9)
        assert reached <= float(gdp_tradeoff(1.3, rate)) * 1.01
    assert curve.lines[0].marks[0][0] == 1e-6


def test_an_attack_bound_is_concave_and_above_guessing() -> None:
    result = library.compose(library.Laplace(scale=4, sensitivity=1, count=5), library.GDP(mu=0.3), delta=1e-6)
    _, attack = charts(told(result))
    points = attack.lines[0].points()
    assert all(y >= x for x, y in points)
    assert all(later >= earlier for (_, earlier), (_, later) in itertools.pairwise(points))
    assert points[-1] == (1.0, 1.0)


def test_a_band_lies_below_its_line() -> None:
    run = library.DPSGD(noise_multiplier=1.1, rate=0.01, steps=400, sampling="poisson")
    curve = charts(told(library.compose(run, delta=1e-5, max_epsilon=7)))[0]
    line = curve.lines[0]
    assert all(low <= high for low, high in zip(line.lower, line.y, strict=True))
    assert curve.limit == 7


def test_steps_stay_on_a_linear_axis_and_a_limit_is_drawn() -> None:
    result = library.filter(ROOT / "examples" / "filter-norms.csv", filter="gdp", sigma=4, mu=1, delta=1e-5)
    active, individual, spending = charts(told(result))
    assert not active.x_is_logarithmic()
    assert not spending.x_is_logarithmic()
    assert [line.points()[-1][1] for line in spending.lines] == pytest.approx(
        [result.details["individual_epsilon"][place] for place in (0, 2, 5)], rel=1e-6
    )
    assert active.lines[0].y == tuple(map(float, result.details["active_per_step"]))
    assert individual.limit == result.epsilon


def test_a_training_run_shows_how_epsilon_grows() -> None:
    result = library.train(model="logistic", epochs=2, seed=5, epsilon=2)
    right, growth, *_ = charts(told(result))
    assert [x for x, _ in right.lines[0].points()][-1] == result.details["steps"]
    assert all(0 <= y <= 100 for _, y in right.lines[0].points())
    heights = [y for _, y in growth.lines[0].points()]
    assert growth.y_label == "ε at δ = 1e-5"
    assert heights == sorted(heights)
    assert heights[-1] == result.epsilon


def test_a_filtered_run_never_shows_more_than_it_guarantees() -> None:
    result = library.train(model="logistic", filter="gdp", steps=12, seed=5, epsilon=2)
    growth = next(chart for chart in charts(told(result)) if chart.title == "ε after each step")
    heights = [y for _, y in growth.lines[0].points()]
    assert heights == sorted(heights)
    assert heights[-1] == result.epsilon


def test_two_swept_parameters_are_a_line_for_each_value_of_the_second() -> None:
    settings = {"algorithm": "cgd", "clip": 5, "noise_multiplier": 3, "n": 60000, "batch_size": 1500, "delta": 1e-5}
    loss = {"strong_convexity": 0.002, "smoothness": 2}
    result = library.sgd_bound(**settings, **loss, sweep=["epochs=10:50:20", "lr=0.01,0.1"])
    (chart,) = charts(told(result))
    assert [line.x for line in chart.lines] == [(10.0, 30.0, 50.0)] * 2
    for line, rate in zip(chart.lines, (0.01, 0.1), strict=True):
        alone = [library.sgd_bound(**settings, **loss, lr=rate, epochs=epochs).epsilon for epochs in (10, 30, 50)]
        assert line.y == pytest.approx(alone, rel=1e-9)
    assert [line.main for line in chart.lines] == [False, True]
    assert result.epsilon == max(y for line in chart.lines for y in line.y)
    with pytest.raises(library.InputError, match="one fixes the other"):
        library.sgd_bound(**settings, **loss, lr=0.1, sweep=["epochs=10:20:10", "steps=10,20"])


def test_of_a_sweep_the_best_line_is_the_main_one() -> None:
    settings = {"algorithm": "cgd", "lr": 0.05, "clip": 5, "noise_multiplier": 3, "n": 60000, "batch_size": 1500}
    loss = {"strong_convexity": 0.002, "smoothness": 2, "delta": 1e-5}
    (chart,) = charts(told(library.sgd_bound(**settings, **loss, sweep="epochs=10:200:50")))
    (main,) = [line for line in chart.lines if line.main]
    for line in chart.lines:
        assert all(best <= y for best, y in zip(main.y, line.y, strict=True) if y is not None)
    assert main.x[-1] == 200
    assert is_logarithmic(chart.y_values())
    assert "cgd" in chart.subtitle


def test_svg_is_well_formed_named_and_inside_its_frame() -> None:
    gap = Line(label='a<b & "c"', x=(1.0, 2.0, 3.0, 50.0), y=(1.0, None, math.inf, 90.0), lower=(0.5, None, None, 80.0))
    chart = Chart(
        title="T & <t>",
        x_label="x",
        y_label="y",
        lines=(gap, Line(label="o", x=(1.0, 50.0), y=(2.0, 88.0), main=False)),
        limit=40.0,
    )
    root = ElementTree.fromstring(as_svg(chart))
    assert root.get("role") == "img"
    assert "T & <t>" in (root.get("aria-label") or "")
    _, _, width, height = map(float, (root.get("viewBox") or "").split())
    for path in root.iter("path"):
        numbers = re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path.get("d") or "")
        assert numbers
        assert all(0 <= float(x) <= width and 0 <= float(y) <= height for x, y in numbers)
    labels = [float(text.get("y") or 0) for text in root.iter("text") if "end" in (text.get("class") or "")]
    assert abs(labels[0] - labels[1]) >= 14, "names do not overlap"


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("convert", "--gdp", "1.2", "--delta", "1e-5"),
        ("filter", str(ROOT / "examples" / "filter-norms.csv"), "--filter", "gdp", "--sigma", "4", "--mu", "1",
         "--delta", "1e-5"),
    ],
    ids=["convert", "filter"],
)  # fmt: skip
def test_plot_writes_a_picture_whole(dpcalc: Run, tmp_path: Path, arguments: Any, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    target = tmp_path / f"p{suffix}"
    outcome = dpcalc(*arguments, "--plot", target)
    assert outcome.code == 0, outcome.err
    start = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[suffix]
    assert target.read_bytes().startswith(start)
    assert list(tmp_path.iterdir()) == [target]
    assert (target.stat().st_mode & 0o077 == 0) is (arguments[0] == "filter")


def test_a_picture_that_cannot_be_drawn_stops_before_any_work(dpcalc: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    base = ("convert", "--gdp", "1", "--delta", "1e-5")
    assert "--plot" in dpcalc(*base, "--plot", tmp_path / "x.gif").err
    assert dpcalc(*base, "--plot", tmp_path / "x.gif").code == 2
    assert dpcalc(*base, "--plot", tmp_path / "x.svg", "-o", tmp_path / "x.svg").code == 2
    assert dpcalc(*base, "--plot", tmp_path / "none" / "x.svg").code in (2, 3)
    assert not list(tmp_path.iterdir())


def test_several_deltas_are_drawn_on_the_screen(dpcalc: Run) -> None:
    screen = dpcalc("convert", "--gdp", "1", "--delta", "1e-3", "--delta", "1e-6", "--delta", "1e-9").out
    bars = [line.count("█") for line in screen.splitlines() if "█" in line]
    assert len(bars) == 3
    assert bars == sorted(bars)
    assert bars[-1] == 40


def test_a_badge_is_what_shields_reads(dpcalc: Run) -> None:
    import json

    base = ("convert", "--gdp", "1", "--delta", "1e-5", "-f", "badge")
    for limit, colour in (("9", "brightgreen"), ("1", "red")):
        badge = json.loads(dpcalc(*base, "--max-epsilon", limit).out)
        assert badge == {
            "schemaVersion": 1, "label": "differential privacy", "message": "ε = 4.378, δ = 1e-5", "color": colour,
        }  # fmt: skip
    run = ("compose", "-m", "gdp,mu=1,guarantee=approximate", "--delta", "1e-5", "-f", "badge")
    assert json.loads(dpcalc(*run).out)["color"] == "yellow"


def test_the_breakdown_is_drawn_with_the_shares_of_the_table() -> None:
    result = library.compose(library.GDP(mu=1.0, name="a <b>"), library.GDP(mu=2.0, name="big"), delta=1e-6)
    (drawn,) = bars(told(result))
    # Rényi divergences of Gaussians add as μ²: 1 to 4.
    assert [name for name, _, _ in drawn.bars] == ["big", "a <b>"]
    assert [share for _, share, _ in drawn.bars] == pytest.approx([0.8, 0.2])
    assert drawn.bars[0][2].startswith("80 %, own ε")
    root = ElementTree.fromstring(bars_as_svg(drawn))
    long, short = (float(each.attrib["width"]) for each in root.iter("rect"))
    assert long / short == pytest.approx(4, rel=0.01)
    assert "a <b>" in [each.text for each in root.iter("text")]


def test_a_long_breakdown_keeps_its_sum_and_one_mechanism_has_none() -> None:
    listed = [library.GDP(mu=0.1 * i, name=f"query {i}") for i in range(1, 31)]
    (drawn,) = bars(told(library.compose(*listed, delta=1e-6)))
    assert drawn.bars[-1][0] == "18 more"
    assert sum(share for _, share, _ in drawn.bars) == pytest.approx(1)
    assert bars(told(library.compose(library.GDP(mu=1.0), delta=1e-6))) == ()


def test_the_best_attack_on_a_pure_mechanism_is_near_its_exact_curve() -> None:
    """Randomised response at ε = 1.5: two segments, T(α) = min(e^ε α, 1 − e^{−ε}(1 − α))."""
    result = library.compose(library.RandomizedResponse(epsilon=1.5), delta=1e-6)
    attack = next(chart for chart in charts(told(result)) if chart.identity)
    rates, reached = zip(*attack.lines[0].points(), strict=True)
    for rate, value in zip(rates, reached, strict=True):
        exact = min(math.exp(1.5) * rate, 1 - math.exp(-1.5) * (1 - rate))
        assert exact * (1 - 1e-9) <= value <= exact * 1.02 + 1e-5


def test_the_best_attack_has_no_kink_upwards() -> None:
    result = library.compose(library.Exponential(epsilon=4), library.Laplace(scale=9, sensitivity=1), delta=1e-5)
    attack = next(chart for chart in charts(told(result)) if chart.identity)
    pieces = itertools.pairwise(attack.lines[0].points())
    slopes = [(high - low) / (right - left) for (left, low), (right, high) in pieces]
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in itertools.pairwise(slopes))


def test_a_line_under_the_main_one_is_drawn_above_it_in_dashes() -> None:
    x = (10.0, 20.0, 40.0)
    main = Line(label="best", x=x, y=(1.0, 2.0, 4.0))
    near = Line(label="near", x=x, y=(1.01, 2.01, 4.01), main=False)
    far = Line(label="far", x=x, y=(3.0, 5.0, 9.0), main=False)
    chart = Chart(title="t", x_label="x", y_label="y", lines=(near, far, main))
    assert [chart.hidden(line) for line in chart.lines] == [True, False, False]
    svg = as_svg(chart)
    assert svg.index('<path class="main"') < svg.index('<path class="over"')


def test_ends_tell_counts_with_separators_and_settings_stand_below_the_title(dpcalc: Run) -> None:
    assert Line(label="", x=(1.0, 2.0), y=(9000.0, 7572.0)).end() == "7,572"
    result = library.sgd_bound(
        algorithm="cgd", lr=0.05, clip=5, noise_multiplier=3, n=60000, batch_size=1500, strong_convexity=0.002,
        smoothness=2, delta=1e-5, sweep=["epochs=10:20:10"],
    )  # fmt: skip
    (chart,) = charts(told(result))
    assert chart.subtitle == "cgd, n 60,000, batch 1,500, noise/clip 3, clip 5, rate 0.05, m 0.002, M 2, δ 1e-5"


def test_the_pictures_of_a_run_tell_its_settings() -> None:
    result = library.train(filter="gdp", model="logistic", steps=8, seed=2)
    assert {chart.subtitle.partition(", ")[0] for chart in charts(told(result))} == {"gd"}
    assert all("noise" in chart.subtitle and "clip 1" in chart.subtitle for chart in charts(told(result)))


def test_the_line_of_guessing_is_drawn_and_labelled_to_its_end() -> None:
    _, attack = charts(told(library.convert(gdp=1.3, delta=1e-6)))
    assert min(attack.y_values()) == min(attack.x_values())
    assert as_svg(attack).count(">1e-4</text>") == 2  # on both axes


def test_a_whole_run_shows_its_odometer_and_no_count_of_records(tmp_path: Path) -> None:
    log = tmp_path / "steps.csv"
    log.write_text("step,mu\n" + "".join(f"{step},0.15\n" for step in range(1, 13)))
    result = library.filter(log, filter="gdp", scope="global", mu=0.5, odometer=0.25)
    (chart,) = charts(told(result))
    assert (chart.limit, chart.steps, chart.y_label) == (0.5, True, "μ, at most")
    ends = result.details["odometer"]["stopping_times"]
    points = chart.lines[0].points()
    assert [at for at, _ in points] == [1.0, *(end + 1.0 for end in ends[:-1]), float(ends[-1])]
    for at, loss in points:  # the loss of a step is that of the stretch it is in, never the one before
        assert loss**2 >= 0.15**2 * at


def test_a_comparison_shows_what_was_before() -> None:
    before, after = (library.Gaussian(noise_multiplier=noise) for noise in (2, 4))
    curve, _ = charts(told(library.diff(before, after, delta=1e-6)))
    old, new = curve.lines
    assert (old.main, new.main) == (False, True)
    for line, mu in ((old, 0.5), (new, 0.25)):
        for delta, epsilon in line.points():
            exact = float(library.gdp_epsilon(mu, delta))
            assert exact * (1 - 1e-9) <= epsilon <= exact * 1.02
    assert old.marks[0][2].startswith("before: ")


def test_a_filtered_run_shows_what_people_have_lost_so_far() -> None:
    result = library.train(model="logistic", filter="gdp", steps=12, seed=5, epsilon=2, clip=4)
    *_, spending = charts(told(result))
    assert [line.label for line in spending.lines] == ["the least", "half of all", "the most"]
    heights = [[y for _, y in line.points()] for line in spending.lines]
    assert all(line == sorted(line) for line in heights)
    assert all(low <= middle <= high <= 2 + 1e-9 for low, middle, high in zip(*heights, strict=True))
    assert spending.limit == result.epsilon


def test_captions_tell_the_question_and_round_what_is_declared_up() -> None:
    bound = library.exp_mech(lipschitz=1, strong_convexity=4, delta=1e-5)
    assert charts(told(bound))[0].subtitle == "L 1, m 4, δ 1e-5; certified"
    run = library.compose(library.Gaussian(noise_multiplier=1, sampling="poisson", rate=0.01, count=5), delta=1e-5)
    expected = "gaussian noise multiplier 1, poisson 0.01, 5 times; add-remove; certified"
    assert charts(told(run))[0].subtitle == expected
    several = library.compose(library.GDP(mu=0.1), library.GDP(mu=0.2), library.GDP(mu=0.9), delta=1e-5)
    assert charts(told(several))[0].subtitle == "gdp mu 0.9; gdp mu 0.2; 1 more; add-remove; certified"
    declared = library.compose(library.GDP(mu=1.23401), delta=1e-5)
    assert charts(told(declared))[0].subtitle == "gdp mu 1.235; add-remove; certified"
