"""Answers one case with one library, warm, best of several, and prints it as JSON. Runs in that library's environment.

python benchmarks/worker.py "dp-accounting PLD" < case.json
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

# A run this long is not repeated.
LONG = 5.0
REPEATS = 7

Case = dict[str, Any]
Answer = dict[str, Any]


def dpcalc(case: Case) -> Callable[[], Answer]:
    from dpcalc.spec import composition
    from dpcalc.spec.composition import Question, compose_entries, read_entries
    from dpcalc.spec.node import Node
    from dpcalc.spec.specification import Document
    from dpcalc.spec.text import parse

    def document(mechanisms: list[dict[str, Any]]) -> Document:
        nodes = parse(json.dumps({"mechanisms": mechanisms}), "case").mapping("a case")["mechanisms"]
        return Document(entries=tuple(nodes.items("a list")), adjacency="add-remove")

    def compose() -> Answer:
        # Built anew each time: nothing that was worked out before is carried over.
        composition._composed.cache_clear()
        entries = read_entries([listed], None)
        guarantee = compose_entries(entries, Question(delta=case["delta"], tolerance=case["tolerance"]))
        said = [line for line in (*guarantee.warnings, *guarantee.remarks) if "wider than the tolerance" in line]
        return {
            "said": said[0] if said else None,
            "epsilon": guarantee.epsilon,
            "lower": guarantee.epsilon_lower,
            "estimate": guarantee.epsilon_estimate,
            "accountant": guarantee.accountant,
        }

    def calibrate() -> Answer:
        from dpcalc.spec.calibration import calibrate_documents
        from dpcalc.spec.targets import Target

        composition._composed.cache_clear()
        targets = [Target("epsilon", case["calibrate_epsilon"], case["delta"])]
        solved = calibrate_documents([unknown], Question(delta=case["delta"]), targets)
        found = solved.guarantee
        return {"epsilon": found.epsilon, "lower": found.epsilon_lower, "solution": solved.value}

    listed = document(case["mechanisms"])
    if case["calibrate_epsilon"] is None:
        return compose
    unknown = document([with_unknown(case, "solve")])
    assert isinstance(unknown.entries[0], Node)
    return calibrate


def with_unknown(case: Case, value: Any) -> dict[str, Any]:
    """The mechanism of a calibration with a value, or a word, where the unknown is."""
    (entry,) = case["mechanisms"]
    if case["unknown"] == "rate":
        return {**entry, "sampling": {**entry["sampling"], "rate": value}}
    return {**entry, case["unknown"]: value}


def _events(case: Case) -> Any:
    import dp_accounting as dpa

    events = []
    for entry in case["mechanisms"]:
        if entry["type"] == "laplace":
            event: Any = dpa.LaplaceDpEvent(entry["scale"] / entry["sensitivity"])
        else:
            event = dpa.GaussianDpEvent(entry["noise_multiplier"])
        if "sampling" in entry:
            event = dpa.PoissonSampledDpEvent(entry["sampling"]["rate"], event)
        events.append(dpa.SelfComposedDpEvent(event, entry["count"]))
    return dpa.ComposedDpEvent(events)


def _dp_accounting(case: Case, make: Callable[[], Any]) -> Callable[[], Answer]:
    import dp_accounting as dpa

    def compose() -> Answer:
        return {"epsilon": make().compose(_events(case)).get_epsilon(case["delta"])}

    def calibrate() -> Answer:
        whole = case["unknown"] == "count"

        def event(value: float) -> Any:
            return _events({"mechanisms": [with_unknown(case, int(value) if whole else value)]})

        # Well bracketed: 12 % round the solution, which dpcalc found without knowing it.
        low, high = (case["near"] * factor for factor in (0.88, 1.12))
        bracket = dpa.ExplicitBracketInterval(int(low) if whole else low, int(high) if whole else high)
        found = dpa.calibrate_dp_mechanism(
            make, event, case["calibrate_epsilon"], case["delta"], bracket, discrete=whole, tol=1e-3 * case["near"]
        )
        return {"solution": found, "epsilon": case["calibrate_epsilon"]}

    return compose if case["calibrate_epsilon"] is None else calibrate


def dp_accounting_pld(case: Case) -> Callable[[], Answer]:
    from dp_accounting.pld import PLDAccountant

    grid = case.get("grid") or 1e-4
    return _dp_accounting(case, lambda: PLDAccountant(value_discretization_interval=grid))


def dp_accounting_rdp(case: Case) -> Callable[[], Answer]:
    from dp_accounting.rdp import RdpAccountant

    return _dp_accounting(case, RdpAccountant)


def prv_accountant(case: Case) -> Callable[[], Answer]:
    from prv_accountant import LaplaceMechanism, PoissonSubsampledGaussianMechanism, PRVAccountant

    def variable(entry: dict[str, Any]) -> Any:
        if entry["type"] == "laplace":
            return LaplaceMechanism(mu=entry["sensitivity"] / entry["scale"])
        rate = entry.get("sampling", {"rate": 1.0})["rate"]
        return PoissonSubsampledGaussianMechanism(noise_multiplier=entry["noise_multiplier"], sampling_probability=rate)

    def compose() -> Answer:
        counts = [entry["count"] for entry in case["mechanisms"]]
        accountant = PRVAccountant(
            prvs=[variable(entry) for entry in case["mechanisms"]],
            max_self_compositions=counts,
            eps_error=0.01,
            delta_error=case["delta"] / 1000,
        )
        lower, estimate, upper = accountant.compute_epsilon(case["delta"], counts)
        return {"epsilon": upper, "lower": lower, "estimate": estimate}

    if case["calibrate_epsilon"] is not None:
        raise NotImplementedError("prv-accountant does not calibrate")
    return compose


def _opacus(case: Case, kind: str) -> Callable[[], Answer]:
    from opacus.accountants import create_accountant
    from opacus.accountants.utils import get_noise_multiplier

    entries = case["mechanisms"]
    if any(entry["type"] != "gaussian" for entry in entries):
        raise NotImplementedError("opacus has Gaussian steps only")

    def rate(entry: dict[str, Any]) -> float:
        return float(entry.get("sampling", {"rate": 1.0})["rate"])

    def compose() -> Answer:
        accountant = create_accountant(mechanism=kind)
        accountant.history = [(entry["noise_multiplier"], rate(entry), entry["count"]) for entry in entries]
        return {"epsilon": float(accountant.get_epsilon(delta=case["delta"]))}

    def calibrate() -> Answer:
        if case["unknown"] != "noise_multiplier":
            raise NotImplementedError("opacus solves for noise alone")
        (entry,) = entries
        found = get_noise_multiplier(
            target_epsilon=case["calibrate_epsilon"],
            target_delta=case["delta"],
            sample_rate=rate(entry),
            steps=entry["count"],
            accountant=kind,
        )
        return {"solution": found, "epsilon": case["calibrate_epsilon"]}

    return compose if case["calibrate_epsilon"] is None else calibrate


def opacus_rdp(case: Case) -> Callable[[], Answer]:
    return _opacus(case, "rdp")


def opacus_prv(case: Case) -> Callable[[], Answer]:
    return _opacus(case, "prv")


LIBRARIES: dict[str, Callable[[Case], Callable[[], Answer]]] = {
    "dpcalc": dpcalc,
    "dp-accounting PLD": dp_accounting_pld,
    "dp-accounting RDP": dp_accounting_rdp,
    "prv-accountant": prv_accountant,
    "opacus RDP": opacus_rdp,
    "opacus PRV": opacus_prv,
}


def measure(answer: Callable[[], Answer], repeats: int) -> Answer:
    """The answer with the best of several times; the first run warms up unless it is long.

    Time is that of the processor: on one thread it is the time that passes, whatever else the machine is doing.
    """
    times: list[float] = []
    found: Answer = {}
    while len(times) < repeats:
        start = time.process_time()
        found = answer()
        times.append(time.process_time() - start)
        if times[-1] > LONG:
            break
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {**found, "seconds": min(times), "megabytes": memory}


def result_of(library: str, case: Case, repeats: int) -> Answer:
    """The answer, or how the library refused or failed."""
    try:
        return measure(LIBRARIES[library](case), repeats)
    except NotImplementedError as error:
        return {"refused": str(error)}
    except Exception as error:  # a peer may fail in any way; the table says how
        return {"failed": f"{type(error).__name__}: {str(error)[:80]}"}


def main() -> None:
    asked = json.load(sys.stdin)
    library = sys.argv[1]
    if isinstance(asked, list):
        print(json.dumps([result_of(library, case, 1) for case in asked]))
    else:
        print(json.dumps(result_of(library, asked, REPEATS + 1)))


if __name__ == "__main__":
    main()
