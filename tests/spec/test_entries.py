# ruff: noqa: E501
"""Entries say what they mean, and errors say what is wrong, where, and what is allowed."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.laplace import Laplace
from dpcalc.mechanisms.once_per_epoch import OncePerEpoch
from dpcalc.mechanisms.randomized_response import RandomizedResponse
from dpcalc.mechanisms.sampled import FixedSizeSampled, PoissonSampled
from dpcalc.spec.composition import Question
from dpcalc.spec.documents import read_document
from dpcalc.spec.entries import Entry
from dpcalc.spec.inline import parse_inline
from dpcalc.spec.specification import Document, common_adjacency
from dpcalc.spec.text import parse


def document(text: str) -> Document:
    return read_document(parse(text, "spec.yaml"))


def entry(text: str, adjacency: Adjacency = "add-remove") -> Entry:
    """The one entry of a spec that consists of it."""
    (found,) = document(f"mechanisms:\n  - {text}\n").read(adjacency)
    return found


def refusal(text: str, adjacency: Adjacency = "add-remove") -> str:
    with pytest.raises(InputError) as error:
        entry(text, adjacency)
    return str(error.value)


@pytest.mark.parametrize("number", ["0.5", ".5", "5e-1", "5E-1", "+0.5", "1/2", "0.25/0.5", "'1/2'"])
def test_numbers_are_read_as_people_write_them(number: str) -> None:
    assert entry(f"{{type: gaussian, noise_multiplier: {number}}}").mechanism == Gaussian(noise_multiplier=0.5)


@pytest.mark.parametrize(
    "number",
    ["nan", ".nan", "inf", ".inf", "-.inf", "-1", "0", "1e999", "1e-999", "true", "yes", "null", "~", "", "[1]", "{a: 1}", "'1'", '"1.5"', "abc", "1_000", "0x10", "010", "1:30", "１", "1/0", "1/2/3", "−1", "1e", "2020-01-01"],
)  # fmt: skip
def test_what_is_not_a_finite_positive_number_is_refused_at_its_key(number: str) -> None:
    message = refusal(f"{{type: gaussian, noise_multiplier: {number}}}")
    assert message.startswith("spec.yaml:2: mechanisms[0].noise_multiplier: expected a number")


@pytest.mark.parametrize("count", ["0", "-1", "1.5", "1e16", "nan", "true"])
def test_a_count_is_a_whole_number_of_at_least_one(count: str) -> None:
    assert "mechanisms[0].count: expected" in refusal(f"{{type: gaussian, noise_multiplier: 1, count: {count}}}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{type: gausian, noise_multiplier: 1}", "mechanisms[0].type: expected"),
        ("{type: gausian, noise_multiplier: 1}", "; did you mean gaussian?"),
        ("{type: gaussian, noise_multplier: 1}", "noise_multplier: no such key for gaussian; did you mean noise_multiplier?"),
        ("{noise_multiplier: 1}", "mechanisms[0]: type is missing"),
        ("{type: gaussian}", "noise_multiplier or sigma with sensitivity is missing"),
        ("{type: gaussian, sigma: 1}", "sensitivity is missing"),
        ("{type: gaussian, sigma: 1, noise_multiplier: 1}", "noise_multiplier and sigma do not go together"),
        ("{type: laplace, scale: 1}", "sensitivity is missing"),
        ("{type: gaussian, noise_multiplier: 1, rate: 0.1}", "rate belongs to a sampling"),
        ("{type: gaussian, noise_multiplier: 1, sampling: poison}", "; did you mean poisson?"),
        ("{type: gaussian, noise_multiplier: 1, sampling: poisson}", "rate or batch_size with dataset_size is missing"),
        ("{type: gaussian, noise_multiplier: 1, sampling: {rate: 0.1}}", "mechanisms[0].sampling: scheme is missing"),
        ("{type: gaussian, noise_multiplier: 1, sampling: {scheme: poisson, rat: 0.1}}", "; did you mean rate?"),
        ("{type: gaussian, noise_multiplier: 1, sampling: {scheme: poisson, rate: 1.5}}", "sampling.rate: expected a number in (0, 1]"),
        ("{type: dp-sgd, noise_multiplier: 1, epochs: 1}", "sampling is missing"),
        ("{type: dp-sgd, noise_multiplier: 1, sampling: poisson, rate: 0.1}", "steps or epochs is missing"),
        ("{type: dp-sgd, noise_multiplier: 1, sampling: poisson, rate: 0.1, steps: 1, epochs: 1}", "steps and epochs do not go together"),
        ("{type: dp-sgd, noise_multiplier: 1, sampling: poisson, batch_size: 20, dataset_size: 10, steps: 1}", "no larger than the data set of 10"),
        ("{type: gaussian, noise_multiplier: solve}", "which is for dpcalc calibrate"),
        ("gaussian", "expected an entry such as"),
        ("[1]", "expected an entry such as"),
    ],
)  # fmt: skip
def test_a_bad_entry_is_told_where_and_what_is_allowed(text: str, message: str) -> None:
    told = refusal(text)
    assert told.startswith("spec.yaml:2: mechanisms[0]")
    assert message in told


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the spec is empty"),
        ("# nothing\n", "the spec is empty"),
        ("null\n", "the spec is empty"),
        ("gaussian\n", "expected a mapping"),
        ("delta: 1e-5\n", "mechanisms is missing"),
        ("mechanisms: []\n", "spec.yaml:1: mechanisms: the list is empty"),
        ("mechanisms:\n", "expected a list of entries, got nothing"),
        ("mechanims: []\n", "; did you mean mechanisms?"),
        ("delta: 1\nmechanisms: [{type: gaussian, noise_multiplier: 1}]\n", "spec.yaml:1: delta: expected a number in [0, 1)"),
        ("adjacency: add-remov\nmechanisms: [{type: gaussian, noise_multiplier: 1}]\n", "; did you mean add-remove?"),
        ("budget: {epsilon: -1}\nmechanisms: [{type: gaussian, noise_multiplier: 1}]\n", "budget.epsilon: expected a number"),
        ("budget: {}\nmechanisms: [{type: gaussian, noise_multiplier: 1}]\n", "the budget is empty"),
        ("budget: {eps: 1}\nmechanisms: [{type: gaussian, noise_multiplier: 1}]\n", "budget.eps: no such key for a budget"),
    ],
)  # fmt: skip
def test_a_bad_spec_is_told_where_and_what_is_allowed(text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        document(text)
    assert message in str(error.value)


def test_sigma_is_relative_to_the_sensitivity() -> None:
    assert entry("{type: gaussian, sigma: 4, sensitivity: 2}").mechanism == Gaussian(noise_multiplier=2.0)


def test_the_sampling_may_be_a_block_or_a_word_with_its_keys_beside_it() -> None:
    block = entry("{type: gaussian, noise_multiplier: 1.1, sampling: {scheme: poisson, rate: 256/60000}}")
    word = entry("{type: gaussian, noise_multiplier: 1.1, sampling: poisson, batch_size: 256, dataset_size: 60000}")
    assert block.mechanism == word.mechanism
    assert block.mechanism == PoissonSampled(base=Gaussian(noise_multiplier=1.1), sampling_rate=256 / 60000)


@pytest.mark.parametrize(
    ("length", "steps"),
    [
        ("batch_size: 256, dataset_size: 60000, epochs: 60", 14063),  # 14062.5 rounded up
        ("batch_size: 10, dataset_size: 100, epochs: 1.1", 11),  # not 12: 1.1 is meant as written
        ("rate: 1/3, epochs: 10", 30),
        ("rate: 0.1, steps: 7", 7),
    ],
)
def test_a_run_has_its_epochs_times_the_batches_rounded_up(length: str, steps: int) -> None:
    assert entry(f"{{type: dp-sgd, noise_multiplier: 1, sampling: poisson, {length}}}").count == steps


def test_a_count_multiplies_a_whole_run() -> None:
    run = entry("{type: dp-sgd, noise_multiplier: 1, sampling: poisson, rate: 0.1, steps: 7, count: 3}")
    assert run.count == 21


@pytest.mark.parametrize(
    ("length", "epochs"),
    [
        ("batch_size: 256, dataset_size: 60000, epochs: 60", 60),
        ("epochs: 2.5", 3),
        ("batch_size: 3, dataset_size: 10, steps: 10", 4),  # three full batches an epoch: 3 + 3 + 3 + 1
        ("batch_size: 5, dataset_size: 10, steps: 4", 2),
        ("rate: 0.3, steps: 7", 3),  # three batches an epoch, not four: 3 + 3 + 1
    ],
)
@pytest.mark.parametrize("scheme", ["cyclic", "shuffled"])
def test_in_a_fixed_order_a_record_is_used_once_an_epoch(scheme: str, length: str, epochs: int) -> None:
    found = entry(f"{{type: dp-sgd, noise_multiplier: 1, sampling: {scheme}, {length}}}")
    assert found.count == epochs
    assert found.mechanism == OncePerEpoch(base=Gaussian(noise_multiplier=1.0), shuffled=scheme == "shuffled")


def test_replacing_a_record_moves_a_clipped_sum_by_twice_the_clip() -> None:
    run = "{{type: dp-sgd, noise_multiplier: 2, sampling: {}, batch_size: 1, dataset_size: 10, steps: 1}}"
    half = Gaussian(noise_multiplier=1.0, adjacency="replace-one")
    assert entry(run.format("cyclic"), "replace-one").mechanism == OncePerEpoch(base=half)
    assert entry(run.format("fixed-size"), "replace-one").mechanism == FixedSizeSampled(base=half, sampling_rate=0.1)


def test_the_sensitivity_is_meant_under_the_adjacency_of_the_spec() -> None:
    same = entry("{type: gaussian, noise_multiplier: 2}", "replace-one").mechanism
    assert same == Gaussian(noise_multiplier=2.0, adjacency="replace-one")


def test_a_mixture_of_adjacencies_is_accounted_under_replace_one() -> None:
    one = document("adjacency: add-remove\nmechanisms: [{type: gaussian, noise_multiplier: 2}]")
    other = document("adjacency: replace-one\nmechanisms: [{type: gaussian, noise_multiplier: 2}]")
    assert common_adjacency([one, other], None) == "replace-one"
    assert one.read("replace-one")[0].mechanism.gdp() == pytest.approx(1.0)
    assert other.read("replace-one")[0].mechanism.gdp() == pytest.approx(0.5)


def test_replace_one_says_nothing_about_adding_a_record() -> None:
    stated = document("adjacency: replace-one\nmechanisms: [{type: gaussian, noise_multiplier: 2}]")
    with pytest.raises(InputError, match=r"spec.yaml:2: mechanisms\[0\]: is stated under replace-one"):
        stated.read("add-remove")


@pytest.mark.parametrize(
    "text",
    [
        "gaussian,noise_multiplier=1.1,sampling=poisson,rate=0.1,count=3",
        "gaussian,noise_multiplier=1.1,sampling.scheme=poisson,sampling.rate=0.1,count=3",
        "gaussian,noise_multiplier=1.1,sampling={scheme: poisson, rate: 0.1},count=3",
    ],
)
def test_an_inline_entry_reads_like_one_in_a_file(text: str) -> None:
    written = entry("{type: gaussian, noise_multiplier: 1.1, sampling: {scheme: poisson, rate: 0.1}, count: 3}")
    assert Document(entries=(parse_inline(text),)).read("add-remove") == [written]


@pytest.mark.parametrize(
    "text",
    ["", "noise_multiplier=1", "gaussian,1", "gaussian,noise_multiplier=", "gaussian,=1", "gaussian,noise_multiplier=1,noise_multiplier=2", "gaussian,sampling={scheme: poisson", "gaussian,sampling=poisson,sampling.rate=1"],
)  # fmt: skip
def test_a_bad_inline_entry_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"^-m "):
        parse_inline(text)


@pytest.mark.parametrize(
    ("epsilon", "count"), [(4.3580404967067965, 12345), (0.1, 3), (0.7, 9), (2.340453085230556, 7)]
)
def test_pure_epsilon_adds_up_to_no_less(epsilon: float, count: int) -> None:
    found = Question(delta=0.0).ask([(RandomizedResponse(epsilon=epsilon), count)]).epsilon
    exact = Fraction(epsilon) * count
    assert exact <= Fraction(found) <= exact * (1 + Fraction(1, 2**52))


def test_pure_epsilon_is_between_its_bounds_in_rationals() -> None:
    for scale, count in ((0.7, 3), (1.1, 7), (3.3, 11), (0.3, 13)):
        found = Question(delta=0).ask([(Laplace(scale=scale), count)])
        exact = count / Fraction(scale)
        assert found.epsilon_lower is not None
        assert found.epsilon is not None
        assert Fraction(found.epsilon_lower) <= exact <= Fraction(found.epsilon)
