"""Columns beside a value: each is used as the mathematics says, or refused by name."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcalc.errors import InputError
from dpcalc.filters.carrying import carry_out
from dpcalc.filters.logs.meaning import _whole_steps
from dpcalc.filters.logs.ordering import Entries
from dpcalc.filters.mixture import Mixture
from dpcalc.filters.request import Request
from dpcalc.filters.run import Run
from dpcalc.filters.summary import guarantee

RNG = np.random.default_rng(5)
STEPS, PEOPLE = 14, 6
NORMS = RNG.uniform(0.1, 1.5, (STEPS, PEOPLE))
NOISE = RNG.uniform(1.5, 5.0, STEPS)


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    """Rows of a long table, in the format that the name says."""
    if path.suffix == ".csv":
        lines = [",".join(rows[0]), *(",".join(str(value) for value in row.values()) for row in rows)]
        path.write_text("\n".join(lines) + "\n")
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
        parquet.write_table(arrow.Table.from_pylist(rows), path)
    return str(path)


def noisy_rows() -> list[dict[str, Any]]:
    return [
        {"step": t, "id": f"p{i}", "norm": NORMS[t, i].item(), "sigma": NOISE[t].item()}
        for t in range(STEPS)
        for i in range(PEOPLE)
    ]


def outcome(run: Run) -> tuple[Any, ...]:
    return list(run.steps.active), run.filter.steps_active.tolist(), run.filter.totals.tolist()


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("clip", [None, 0.9])
def test_each_step_has_its_own_noise(tmp_path: Path, suffix: str, shuffled: bool, clip: float | None) -> None:
    rows = noisy_rows()
    if shuffled:
        RNG.shuffle(rows)
    run = carry_out(Request(kind="gdp", mu=0.6, clip=clip), write(tmp_path / f"log{suffix}", rows))
    clipped = NORMS if clip is None else np.minimum(NORMS, clip)
    plain = [
        {"step": t, "id": f"p{i}", "mu": (clipped[t, i] / NOISE[t]).item()} for t in range(STEPS) for i in range(PEOPLE)
    ]
    expected = carry_out(Request(kind="gdp", mu=0.6), write(tmp_path / "plain.csv", plain))
    by_name = np.argsort(np.array(run.names))
    assert list(run.steps.active) == list(expected.steps.active)
    assert run.filter.totals[:, by_name] == pytest.approx(expected.filter.totals, rel=1e-15)
    assert run.filter.lost.sum() > 0
    assert run.clipped_values == (0 if clip is None else int((clip < NORMS).sum()))


def test_the_noise_of_a_step_counts(tmp_path: Path) -> None:
    """Twice the noise is a quarter of the cost, and the other way round: no column is passed over."""
    rows = noisy_rows()
    louder = [{**row, "sigma": 2 * row["sigma"]} for row in rows]
    request = Request(kind="rdp", mu=100.0)
    once, twice = (carry_out(request, write(tmp_path / "log.csv", log)).filter.totals for log in (rows, louder))
    assert once == pytest.approx(4 * twice, rel=1e-13)


def test_a_sampled_filter_takes_the_noise_of_each_step(tmp_path: Path) -> None:
    request = Request(kind="rdp", orders=(4.0,), rhos=(1e-3,), sample_rate=0.1)
    run = carry_out(request, write(tmp_path / "log.csv", noisy_rows()))
    scaled = NORMS / NOISE[:, None]
    np.save(tmp_path / "plain.npy", scaled)
    expected = carry_out(
        Request(kind="rdp", sigma=1.0, orders=(4.0,), rhos=(1e-3,), sample_rate=0.1), str(tmp_path / "plain.npy")
    )
    assert outcome(run)[:2] == outcome(expected)[:2]
    assert run.filter.totals == pytest.approx(expected.filter.totals, rel=1e-12)


def test_two_noises_in_one_step_are_refused_with_their_line(tmp_path: Path) -> None:
    rows = noisy_rows()
    rows[PEOPLE + 2]["sigma"] += 1e-9
    with pytest.raises(InputError, match=rf"log.csv:{PEOPLE + 4}: expected one sigma"):
        carry_out(Request(kind="gdp", mu=1.0), write(tmp_path / "log.csv", rows))


def global_run(tmp_path: Path, rows: list[dict[str, Any]], **options: Any) -> Run:
    return carry_out(Request(scope="global", **options), write(tmp_path / "steps.csv", rows))


def test_the_own_deltas_of_steps_are_added_up(tmp_path: Path) -> None:
    """Σδ_t ≤ δ″, equality included, whatever is left of ε; a step without one goes on after a refusal."""
    rows = [{"step": t, "epsilon": 1e-4, "delta": 1e-7 if t != 7 else 0.0} for t in range(9)]
    run = global_run(tmp_path, rows, kind="dp", epsilon=1.0, delta=1e-6)
    assert list(run.steps.active) == [1, 1, 1, 1, 1, 0, 0, 1, 0]
    assert run.halt_step == 5
    more = global_run(tmp_path, rows, kind="dp", epsilon=1.0, delta=1e-6, steps_delta=7e-7)
    assert list(more.steps.active) == [1] * 8 + [0]
    stated = guarantee(more, epsilon=1.0, delta=1e-6)
    assert (stated.epsilon, stated.delta) == (1.0, 1e-6)
    assert stated.mechanisms == ({"type": "dp", "epsilon": 1.0, "delta": 1e-6},)


def test_a_split_costs_what_it_must(tmp_path: Path) -> None:
    """458 steps of ε = 0.01 at (1, ½e-6 + ½e-6) by B* = 0.0229374466887; a few more by the RDP of the steps."""
    rows = [{"step": t, "epsilon": 0.01, "delta": 1e-9} for t in range(520)]
    ran = sum(global_run(tmp_path, rows, kind="dp", epsilon=1.0, delta=1e-6).steps.active)
    assert 458 <= ran <= 463
    # Of steps with larger own δ only as many as δ″ has room for.
    rows = [{**row, "delta": 2e-9} for row in rows]
    assert sum(global_run(tmp_path, rows, kind="dp", epsilon=1.0, delta=1e-6).steps.active) == 250


def test_gaussian_steps_may_have_a_delta_of_their_own(tmp_path: Path) -> None:
    rows = [{"step": t, "mu": 0.3, "delta": 1e-7} for t in range(20)]
    run = global_run(tmp_path, rows, kind="gdp", mu=1.0, delta=1e-5)
    assert sum(run.steps.active) == 11
    stated = guarantee(run, epsilon=None, delta=1e-5)
    plain = global_run(tmp_path, [{"step": t, "mu": 0.3} for t in range(20)], kind="gdp", mu=1.0, delta=1e-5)
    half = guarantee(plain, epsilon=None, delta=5.00003e-6)
    whole = guarantee(plain, epsilon=None, delta=1e-5)
    assert stated.mu is None
    assert whole.epsilon < stated.epsilon
    assert stated.epsilon == pytest.approx(half.epsilon, rel=1e-6)


def test_records_may_have_deltas_of_their_own(tmp_path: Path) -> None:
    rows = [
        {"step": t, "id": i, "epsilon": 0.05, "delta": delta}
        for t in range(12)
        for i, delta in enumerate([0.0, 1e-6, 2e-6])
    ]
    log = write(tmp_path / "log.csv", rows)
    run = carry_out(Request(kind="dp", epsilon=0.5, delta=2e-5, steps_delta=1e-5), log)
    assert run.filter.steps_active.tolist() == [10, 10, 5]


ORDERS = (2.0, 4.0, 8.0, 16.0, 32.0)


def curve(order: float) -> float:
    return order * 0.06**2 / 2 + 1e-4 * (order - 1)


def order_rows(steps: int, orders: tuple[float, ...] = ORDERS) -> list[dict[str, Any]]:
    rows = [{"step": t, "order": order, "rho": curve(order)} for t in range(steps) for order in orders]
    RNG.shuffle(rows)
    return rows


def test_orders_of_a_log_are_kept_each_within_its_own_budget(tmp_path: Path) -> None:
    run = global_run(tmp_path, order_rows(200), kind="rdp", orders=(4.0, 16.0), rhos=(0.5, 2.5))
    assert sum(run.steps.active) == min(int(0.5 / curve(4.0)), int(2.5 / curve(16.0)))


@pytest.mark.parametrize(
    ("order", "charged"),
    [
        (1.5, curve(2.0)),
        (3.0, (1 * curve(2.0) + 3 * curve(4.0)) / 2 / 2),
        (6.0, (3 * curve(4.0) + 7 * curve(8.0)) / 2 / 5),
        (32.0, curve(32.0)),
        (33.0, math.inf),
    ],
)
def test_between_orders_the_chord_is_charged_and_beyond_them_nothing_is_known(
    tmp_path: Path, order: float, charged: float
) -> None:
    budget = 0.7
    run = global_run(tmp_path, order_rows(200), kind="rdp", orders=(order,), rhos=(budget,))
    assert sum(run.steps.active) == int(budget / charged)


def test_a_log_of_several_orders_is_kept_within_epsilon_by_the_mixture(tmp_path: Path) -> None:
    rows = order_rows(400)
    mixture = Mixture.default(3.0, 1e-5)
    known = sorted(ORDERS)
    points = [(order - 1) * curve(order) for order in known]
    at = np.array(mixture.orders)
    cost = np.where(at <= 32, np.interp(at, [1.0, *known], [0.0, *points]) / (at - 1), 1e200)
    expected = next(n for n in range(1, 400) if not mixture.allows(cost * n)) - 1
    run = global_run(tmp_path, rows, kind="rdp", epsilon=3.0, delta=1e-5)
    assert 20 < sum(run.steps.active) == expected
    two = Mixture(3.0, 1e-5, (8.0, 16.0), (0.5, 0.5))
    cost = np.array([curve(8.0), curve(16.0)])
    expected = next(n for n in range(1, 400) if not two.allows(cost * n)) - 1
    run = global_run(tmp_path, rows, kind="rdp", epsilon=3.0, delta=1e-5, orders=(8.0, 16.0))
    assert sum(run.steps.active) == expected
    stated = guarantee(run, epsilon=3.0, delta=1e-5)
    assert (stated.epsilon, stated.delta, stated.mu) == (3.0, 1e-5, None)


def test_a_step_that_says_nothing_at_an_order_loses_that_order_only(tmp_path: Path) -> None:
    rows = [{"step": 0, "order": 8.0, "rho": curve(8.0)}, *({**row, "step": row["step"] + 1} for row in order_rows(60))]
    alone = global_run(tmp_path, rows, kind="rdp", epsilon=3.0, delta=0.5e-5, orders=(8.0,))
    run = global_run(tmp_path, rows, kind="rdp", epsilon=3.0, delta=1e-5, orders=(8.0, 16.0))
    assert run.filter.totals[1, 0] >= 1e199
    mixture = Mixture(3.0, 0.5e-5, (8.0,), (1.0,))
    cost = curve(8.0)
    expected = next(n for n in range(1, 400) if not mixture.allows(np.array([cost * n]))) - 1
    assert sum(run.steps.active) == min(expected, 61)
    assert sum(alone.steps.active) >= sum(run.steps.active)


@pytest.mark.parametrize(
    ("rows", "options", "words"),
    [
        ([{"step": 0, "mu": 1.0, "colour": 2}], {"kind": "gdp", "mu": 1.0}, "no use for column colour"),
        ([{"step": 0, "mu": 1.0, "rho": 2, "x": 1}], {"kind": "gdp", "mu": 1.0}, "rho, x.*one unit"),
        ([{"step": 0, "mu": 1.0, "sigma": 2}], {"kind": "gdp", "mu": 1.0}, "no use for column sigma"),
        ([{"step": 0, "id": 3, "mu": 1.0}], {"kind": "gdp", "mu": 1.0}, "`scope=individual`"),
        ([{"step": 0, "norm": 1.0, "sigma": 2}], {"kind": "gdp", "mu": 1.0, "sigma": 2.0}, "give no other"),
        ([{"step": 0, "norm": 1.0, "sigma": 2}], {"kind": "gdp", "norm_budget": 1.0}, "no `norm_budget`"),
        ([{"step": 0, "norm": 1.0, "sigma": 0}], {"kind": "gdp", "mu": 1.0}, r"sigma in \(0, inf\)"),
        ([{"step": 0, "mu": 1.0, "delta": 1}], {"kind": "gdp", "mu": 1.0, "delta": 1e-5}, r"delta in \[0, 1\)"),
        ([{"step": 0, "mu": 1.0, "delta": 0.1}], {"kind": "gdp", "mu": 1.0}, "need the whole δ"),
        ([{"step": 0, "rho": 1.0, "order": 1}], {"kind": "rdp", "epsilon": 1.0, "delta": 0.1}, r"order in \(1, inf\)"),
        ([{"rho": 1.0, "order": 2}], {"kind": "rdp", "epsilon": 1.0, "delta": 0.1}, "needs a column step"),
        (
            [{"step": 0, "order": 2, "rho": 1.0}, {"step": 0, "order": 2, "rho": 2.0}],
            {"kind": "rdp", "epsilon": 1.0, "delta": 0.1},
            "steps.csv:3: step 0 has an order twice",
        ),
        (
            [{"step": 0, "order": 2, "rho": 1.0, "delta": 0}, {"step": 0, "order": 3, "rho": 2.0, "delta": 0.1}],
            {"kind": "rdp", "epsilon": 1.0, "delta": 0.1},
            "steps.csv:3: expected one delta",
        ),
        ([{"step": 0, "mu": 1.0}], {"kind": "gdp", "mu": 1.0, "clip": 1.0}, "belongs to norms"),
        ([{"step": 0, "mu": 1.0, "delta": 0}], {"kind": "gdp", "mu": 1.0, "delta": 0.1, "odometer": 1.0}, "not proved"),
    ],
)
def test_what_has_no_use_is_refused_by_name(
    tmp_path: Path, rows: list[dict[str, Any]], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        global_run(tmp_path, rows, **options)


def test_a_column_that_appears_later_is_refused_too(tmp_path: Path) -> None:
    rows = [{"step": 0, "id": 1, "norm": 1.0}, {"step": 0, "id": 2, "norm": 1.0, "weight": 3}]
    with pytest.raises(InputError, match=r"log.jsonl:2: .* got also weight"):
        carry_out(Request(kind="gdp", sigma=1.0, mu=1.0), write(tmp_path / "log.jsonl", rows))
    folder = tmp_path / "parts"
    folder.mkdir()
    write(folder / "a.parquet", rows[:1])
    write(folder / "b.parquet", rows[1:])
    with pytest.raises(InputError, match=r"b.parquet: .* got also weight"):
        carry_out(Request(kind="gdp", sigma=1.0, mu=1.0), str(folder))


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("budget", [{"orders": (4.0, 16.0), "rhos": (0.05, 0.2)}, {"epsilon": 0.8, "delta": 1e-5}])
def test_everybody_has_several_orders_of_their_own(tmp_path: Path, budget: dict[str, Any], shuffled: bool) -> None:
    """Each record's fold is that of a run whose steps are its own."""
    rng = np.random.default_rng(7)
    sizes = {f"p{i}": rng.uniform(0.2, 3, 40) for i in range(4)}
    rows = [
        {"step": t, "id": name, "order": order, "rho": float(size[t]) * curve(order)}
        for t in range(40)
        for name, size in sizes.items()
        for order in ((2.0, 8.0, 64.0) if t % 3 else (4.0, 32.0))
    ]
    if shuffled:
        rng.shuffle(rows)  # type: ignore[arg-type]
    path = write(tmp_path / "log.csv", rows)
    run = carry_out(Request(kind="rdp", **budget), path)
    assert run.names is not None
    for name in sizes:
        own = [{key: value for key, value in row.items() if key != "id"} for row in rows if row["id"] == name]
        alone = global_run(tmp_path, own, kind="rdp", **budget)
        place = run.names.index(name)
        assert run.filter.steps_active[place] == sum(alone.steps.active)
        assert run.filter.totals[:, place] == pytest.approx(alone.filter.totals[:, 0], rel=1e-12)
    assert 0 < sum(run.steps.active) < 160


def test_an_order_that_a_record_has_twice_is_told_with_its_line(tmp_path: Path) -> None:
    rows = [{"step": 0, "id": name, "order": 2, "rho": 1.0} for name in ("a", "b", "a")]
    with pytest.raises(InputError, match=r"log.csv:4: step 0 has an order twice"):
        carry_out(Request(kind="rdp", epsilon=1.0, delta=1e-5), write(tmp_path / "log.csv", rows))


def test_whole_steps_are_never_cut_in_two() -> None:
    steps = np.array([0, 0, 1, 1, 1, 1, 2, 5, 5])
    for size in range(1, 10):
        batches = [
            Entries(steps[k : k + size], steps[k : k + size], np.arange(9.0)[None, k : k + size])
            for k in range(0, 9, size)
        ]
        whole = list(_whole_steps(iter(batches)))
        assert np.concatenate([part.steps for part in whole]).tolist() == steps.tolist()
        assert sum(len(set(part.steps.tolist())) for part in whole) == 4
