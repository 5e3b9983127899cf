"""Linear queries under individual filters: the literal algorithm, exact sums, the error bound, and a lasting state."""

from fractions import Fraction

import numpy as np
import pytest

from dpcalc import conversions
from dpcalc.errors import InputError, WriteError
from dpcalc.files import archive
from dpcalc.training import queries as module
from dpcalc.training.noise import SeededNoise
from dpcalc.training.queries import LinearQueries, Terms
from dpcalc.training.query_report import guarantee


class _Silent:
    """Noise that adds none and keeps what it was given."""

    description = "none"

    def __init__(self):
        self.released = []

    def add(self, sums, *, deviation, sensitivity):
        self.released.append((sums.copy(), deviation, sensitivity))
        return sums


def _literal(budget, values):
    """Feldman–Zrnic, Algorithm 3, in rational arithmetic: the sum over the active records of each query."""
    spent, sums = [Fraction(0)] * len(values[0]), []
    for query in values:
        costs = [sum(Fraction(float(v)) ** 2 for v in row) for row in query]
        active = [s + c <= budget for s, c in zip(spent, costs, strict=True)]
        spent = [s + c if a else s for s, c, a in zip(spent, costs, active, strict=True)]
        sums.append(
            [sum(float(row[j]) for row, a in zip(query, active, strict=True) if a) for j in range(len(query[0]))]
        )
    return sums, spent


@pytest.mark.parametrize("dimension", [1, 3])
def test_who_takes_part_is_the_literal_algorithm(dimension):
    generator = np.random.default_rng(dimension)
    # Multiples of 1/8 with many equal sums, so that budgets are met exactly and records come back to smaller queries.
    values = generator.integers(-6, 7, (40, 25, dimension)) / 8
    noise = _Silent()
    queries = LinearQueries(Terms.of(norm_budget=4, mu=1), noise=noise)
    for index, query in enumerate(values):
        queries.answer(f"q{index}", query)
    sums, spent = _literal(4, values)
    assert [released.tolist() for released, _, _ in noise.released] == sums
    assert np.array([*queries.spent.values()]) ** 2 * queries.terms.sigma**2 == pytest.approx([*map(float, spent)])
    assert max(spent) <= 4
    assert queries.left_out > 0
    assert any(a == b for a, b in [(s, 4) for s in spent])  # equality is within the budget


def test_all_answers_together_have_the_budget_that_was_asked_for():
    for terms, mu in (
        (Terms.of(norm_budget=3, mu=0.7), 0.7),
        (Terms.of(norm_budget=0.2, rho=0.3), 0.6**0.5),
        (Terms.of(norm_budget=9, epsilon=2, delta=1e-6), conversions.gdp_mu(2, 1e-6)),
    ):
        assert mu * (1 - 1e-9) <= terms.rule.notion.mu <= mu
    # Theorem 1.2 and Corollary 4.7: σ² = B/(2κ).
    assert Terms.of(norm_budget=5, rho=0.1).sigma == pytest.approx((5 / 0.2) ** 0.5, rel=1e-9)


@pytest.mark.parametrize(
    "given", [{}, {"mu": 1, "rho": 1}, {"epsilon": 1}, {"mu": -1}, {"sigma": float("inf")}, {"mu": 1, "norm_budget": 0}]
)
def test_terms_that_say_nothing_or_too_much_are_refused(given):
    with pytest.raises(InputError):
        Terms.of(**({"norm_budget": 1.0} | given))


def test_a_record_moves_the_sum_by_exactly_what_it_is_charged():
    """Values over thirty decades, whose floating-point sum would depend on the order and on the others."""
    generator = np.random.default_rng(7)
    values = generator.standard_normal((3000, 4)) * 10.0 ** generator.uniform(-30, 0, (3000, 1)) / 4
    terms, sums = Terms.of(norm_budget=1, mu=0.5), []
    for gone in (None, 17, 2999):
        for order in (slice(None), slice(None, None, -1)):
            noise, kept = _Silent(), values.copy()
            if gone is not None:
                kept[gone] = 0
            queries = LinearQueries(terms, noise=noise)
            queries.answer("q", kept[order], ids=[str(i) for i in range(3000)][order])
            sums.append((noise.released[0][0], queries.spent))
        assert np.array_equal(sums[-1][0], sums[-2][0])
        assert sums[-1][1] == sums[-2][1]
    (whole, spent), (without, _), (last, _) = sums[0], sums[2], sums[4]
    for other, gone in ((without, "17"), (last, "2999")):
        moved = float(np.linalg.norm(whole - other))
        assert moved <= spent[gone] * terms.sigma <= moved * (1 + 1e-12)


def test_errors_are_as_large_as_told_and_not_much_smaller():
    """20,000 answers of three numbers each, β = 0.1: about 2,000 are further off; and the paper's bound is above."""
    terms, beta, far = Terms.of(norm_budget=6, rho=0.4), 0.1, 0
    queries = LinearQueries(terms, noise=SeededNoise(3))
    values = np.ones((4, 3))
    for index in range(6):  # 6 ones of three numbers are 18: all are used up after two
        queries.answer(f"q{index}", values)
    assert queries.left_out == 4
    for index in range(20_000):
        found = queries.answer(f"r{index}", 0 * values, beta=beta)
        far += max(map(abs, found.values)) > found.error
    assert abs(far - 2000) < 5 * (20_000 * 0.1 * 0.9) ** 0.5
    published = (6 * np.log(3 / beta) / 0.4) ** 0.5
    assert 0.8 * published < terms.error(dimension=3, beta=beta) < published


def test_an_error_does_not_tell_how_many_people_there_are():
    terms = Terms.of(norm_budget=6, rho=0.4)
    few, many = (LinearQueries(terms).answer("q", np.full(people, 0.3)).error for people in (100, 101))
    assert few == many


def test_the_noise_is_hardened_and_of_the_stated_deviation():
    terms = Terms.of(norm_budget=1, mu=0.25)
    answers = np.array(LinearQueries(terms).answer("q", np.zeros((2, 40_000))).values)
    assert np.std(answers) == pytest.approx(4, rel=0.02)
    assert np.array_equal(np.round(answers / terms.width()) * terms.width(), answers)  # on the grid


def test_a_state_goes_on_and_gives_an_answer_again(tmp_path):
    path, terms = str(tmp_path / "state"), Terms.of(norm_budget=2, mu=1)
    ones = np.ones(5)
    first = LinearQueries(terms, state=path).answer("monday", ones, ids="abcde")
    again = LinearQueries(terms, state=path)
    assert again.answer("monday", ones, ids="abcde") == first
    assert [*again.spent.values()] == pytest.approx([1 / terms.sigma] * 5)
    with pytest.raises(InputError, match="another name"):
        again.answer("monday", 2 * ones, ids="abcde")
    noise = _Silent()
    later = LinearQueries(terms, state=path, noise=noise)
    for day in ("tuesday", "wednesday"):  # two ones are the budget; f is new, and has all of its own
        later.answer(day, np.ones(6), ids="abcdef")
    assert [float(sums[0]) for sums, _, _ in noise.released] == [6, 1]
    assert list(later.answers) == ["monday", "tuesday", "wednesday"]
    with pytest.raises(InputError, match="fixed for ever"):
        LinearQueries(Terms.of(norm_budget=3, mu=1), state=path)


def test_nothing_is_answered_that_is_not_on_the_disk(tmp_path, monkeypatch):
    path, terms = str(tmp_path / "state"), Terms.of(norm_budget=2, mu=1)
    queries = LinearQueries(terms, state=path)
    queries.answer("monday", [1, 1])

    def full(*_):
        raise WriteError("no space left", where=path)

    new = LinearQueries(terms, state=str(tmp_path / "new"))
    monkeypatch.setattr(module, "save_sealed", full)
    for failing in (queries, new):
        with pytest.raises(WriteError):
            failing.answer("tuesday", [1, 1])
    monkeypatch.undo()
    assert "tuesday" not in new.answers
    # What was lost was never told: it is drawn anew, and charged once.
    assert LinearQueries(terms, state=path).answer("tuesday", [1, 1])
    assert list(LinearQueries(terms, state=path).answers) == ["monday", "tuesday"]


def test_an_edited_state_is_refused(tmp_path):
    path = tmp_path / "state"
    LinearQueries(Terms.of(norm_budget=2, mu=1), state=str(path)).answer("monday", [1, 1])
    assert path.stat().st_mode & 0o077 == 0
    content = dict(np.load(path))
    content["totals"] = content["totals"] * 0
    with path.open("wb") as stream:
        np.savez(stream, **content)
    with pytest.raises(InputError, match="digest"):
        LinearQueries(Terms.of(norm_budget=2, mu=1), state=str(path))


@pytest.mark.parametrize(
    ("values", "ids"),
    [([np.nan, 1], None), ([np.inf, 1], None), ([], None), ([1, 2], ["a"]), ([1, 2], ["a", "a"]), ([[[1]]], None)],
)
def test_bad_values_are_refused(values, ids):
    with pytest.raises(InputError):
        LinearQueries(Terms.of(norm_budget=2, mu=1)).answer("q", values, ids=ids)


def test_a_value_beyond_the_budget_never_counts():
    noise = _Silent()
    queries = LinearQueries(Terms.of(norm_budget=2, mu=1), noise=noise)
    queries.answer("q", [1e300, -1e300, 1.5, 1.25])
    assert float(noise.released[0][0][0]) == 1.25
    assert [*queries.spent.values()][:3] == [0, 0, 0]


TABLE = "id,a,b\nx,1,0\ny,1,1\nz,0.5,1\n"


def test_the_command_goes_on_and_is_read_back(dpcalc, tmp_path):
    table, state, told = tmp_path / "t.csv", tmp_path / "s", tmp_path / "r.json"
    table.write_text(TABLE)
    asked = ("queries", table, "--norm-budget", "2", "--rho", "0.1", "--delta", "1e-6", "--state", state)
    found = dpcalc(*asked, "-f", "json", "-o", told)
    assert found.code == 0, found.err
    again = dpcalc(*asked, "-f", "json").json
    assert (again["guarantee"], again["adjacency"]) == ("certified", "add-remove")
    assert again["mu"] == pytest.approx(0.2**0.5, rel=1e-9)
    assert again["rho"] <= 0.1
    assert len({entry["answer"] for entry in again["details"]["answers"]}) == 2
    assert dpcalc(*asked, "-f", "json").json["details"]["answers"] == again["details"]["answers"]
    assert dpcalc("compose", told, "--delta", "1e-6").code == 0
    told.write_text(told.read_text().replace(f'"sigma": {again["details"]["sigma"]!r}', '"sigma": 1e3'))
    assert dpcalc("compose", told, "--delta", "1e-6").code == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id\nx\n", "name of its own"),
        ("a,b\n1,2\n", "header with id"),
        ("id,a\nx,1\nx,0\n", "one line for each id"),
        ("id,a\nx,nan\n", "t.csv:2"),
        ("id,a\nx,1,2\n", "expected 2 values"),
        ("id,a\n", "found none"),
    ],
)
def test_bad_tables_are_refused_with_their_place(dpcalc, tmp_path, text, words):
    table = tmp_path / "t.csv"
    table.write_text(text)
    found = dpcalc("queries", table, "--norm-budget", "2", "--mu", "1")
    assert (found.code, words in found.err) == (2, True)


def test_a_state_whose_answers_lack_something_is_not_read(tmp_path):
    """Sealed again after an answer lost what it was asked for."""
    path = str(tmp_path / "state")
    LinearQueries(Terms.of(norm_budget=3, sigma=2.0), state=path).answer("q", [1.0, 0.0])
    facts, arrays = archive.load_sealed(path, what="a state")
    del facts["given"]["q"]["asked"]
    archive.save_sealed(path, facts, arrays)
    with pytest.raises(InputError, match="not a readable state of queries"):
        LinearQueries(Terms.of(norm_budget=3, sigma=2.0), state=path).answer("q", [1.0, 0.0])


@pytest.mark.parametrize("mu", [0.3, 1.7])
def test_no_more_is_claimed_from_below_than_the_noise_that_is_drawn_allows(mu):
    """A single query of the whole budget is as bad as it gets, and its noise is enlarged for its grid."""
    terms, delta = Terms.of(norm_budget=3.0, mu=mu), 1e-6
    found = guarantee(terms, delta)
    reached = conversions.gdp_epsilon(3.0**0.5 / terms.deviation(1), delta)
    assert reached * (1 + 1e-9) < found.epsilon
    assert found.epsilon_lower is None or found.epsilon_lower <= reached
    assert found.mu_kind == "upper"
