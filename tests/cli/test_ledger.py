"""`dpcalc ledger` as people and scripts use it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

GAUSSIANS = "gaussian,noise_multiplier=20"


@pytest.fixture
def team(dpcalc, tmp_path, monkeypatch) -> Path:
    """A folder with a ledger `team.db` and a budget of ε = 3 at δ = 1e-5, GDP filter: 206 Gaussians of noise 20."""
    monkeypatch.chdir(tmp_path)
    done = dpcalc(
        "ledger", "init", "team.db", "--budget", "census", "--epsilon", 3, "--delta", "1e-5", "--filter", "gdp"
    )
    assert done.code == 0
    return tmp_path


def test_a_spend_is_accepted_and_says_what_is_left(dpcalc, team) -> None:
    done = dpcalc("ledger", "spend", "team.db", "census", "-m", f"{GAUSSIANS},count=100", "--key", "k", "-f", "json")
    assert done.code == 0
    details = done.json["details"]
    assert (details["accepted"], details["key"], details["entry"], details["refusal"]) == (True, "k", 2, None)
    assert details["spent"]["mu"] == pytest.approx(0.5, rel=1e-9)
    assert set(details["remaining"]) >= {"epsilon", "delta"}
    assert (done.json["epsilon"], done.json["delta"]) == (3, 1e-5)
    assert done.json["guarantee"] == "certified"


def test_the_first_line_is_the_answer(dpcalc, team) -> None:
    done = dpcalc("ledger", "spend", "team.db", "census", "-m", f"{GAUSSIANS},count=100", "--key", "k")
    assert "census: gaussian accepted as entry 2, key k; 48." in done.out
    shown = dpcalc("ledger", "status", "team.db", "census")
    assert "is spent; " in shown.out
    assert "106 more like gaussian" in shown.out


def quarter(dpcalc, monkeypatch) -> None:
    """A ledger `quarter.db` with January, February and March as in the documentation."""
    from dpcalc.ledger import records

    monkeypatch.setattr(records.time, "time", lambda: 1767225600.0)
    limit = ("--epsilon", 3, "--delta", "1e-6", "--filter", "gdp")
    assert dpcalc("ledger", "init", "quarter.db", "--budget", "land", *limit).code == 0
    for at, who, mechanism, key in (
        (1768910400, "ann", "gaussian,name=yearly counts,sigma=40,sensitivity=1,count=12", "counts-2025"),
        (1770811200, "bob", "gdp,name=age histogram,mu=0.05", "hist-1"),
        (1772452800, "ann", "gaussian,name=risk model,noise_multiplier=13.9,count=30", "train-7"),
    ):
        monkeypatch.setattr(records.time, "time", lambda at=at: float(at))
        assert dpcalc("ledger", "spend", "quarter.db", "land", "-m", mechanism, "--key", key, "--by", who).code == 0


@pytest.mark.parametrize("width", [60, 80, 120])
def test_screens_fit_their_terminal_and_say_what_matters(dpcalc, tmp_path, monkeypatch, width) -> None:
    from dpcalc.ledger.ledger import Ledger
    from dpcalc.ledger.results import audited, logged
    from dpcalc.ledger.standing import standing
    from dpcalc.ledger.verify import verify
    from dpcalc.render.screen import as_text

    monkeypatch.chdir(tmp_path)
    quarter(dpcalc, monkeypatch)
    with Ledger.open("quarter.db", write=False) as ledger:
        screens = [
            as_text(result, width=width)
            for result in (standing(ledger, "land"), logged(ledger, "land"), audited(verify(ledger), ledger))
        ]
    assert all(len(line) <= width for screen in screens for line in screen.splitlines())
    status = screens[0]
    assert status.startswith("land: 39.4 % of ε = 3 at δ = 1e-6 is spent; 60.6 % is left\n")
    assert "in μ²: 0.1653 of 0.4195" in status  # 0.0075 + 0.0025 + 30/13.9², rounded up
    rows = [line.split() for line in status.splitlines()]
    assert ["risk", "model", "2026-03-02", "37.0", "%", "train-7", "ann"] in rows
    assert ["2026-02", "1", "0.6", "%"] in rows
    assert ["bob", "1", "0.6", "%"] in rows
    flat = " ".join(status.split())
    assert "49 more like risk model; 60 would need noise_multiplier 15.37" in flat
    assert "had all been fixed beforehand, ε = 1.798" in flat
    assert "holds if" not in status
    assert "counts-2025" in screens[1]


def test_the_forecast_goes_on_at_the_pace_so_far(dpcalc, tmp_path, monkeypatch) -> None:
    from datetime import datetime, timezone

    from dpcalc.ledger import records
    from dpcalc.ledger.ledger import Ledger
    from dpcalc.ledger.status import status_of

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(records.time, "time", lambda: datetime(2026, 1, 1, tzinfo=timezone.utc).timestamp())
    dpcalc("ledger", "init", "quarter.db", "--budget", "land", "--rho", 1)
    dpcalc("ledger", "spend", "quarter.db", "land", "-m", "zcdp,rho=0.25")
    with Ledger.open("quarter.db", write=False) as ledger:
        status = status_of(ledger, "land")
    assert status.forecast(datetime(2026, 1, 31, tzinfo=timezone.utc)) == "2026-05-01"  # 30 days for a quarter, 90 more
    assert status.forecast(datetime(2026, 1, 1, 12, tzinfo=timezone.utc)) is None


def test_a_refusal_helps_and_writes_nothing(dpcalc, team) -> None:
    refused = dpcalc("ledger", "spend", "team.db", "census", "-m", f"{GAUSSIANS},count=300", "--key", "k", "-f", "json")
    assert refused.code == 1
    refusal = refused.json["details"]["refusal"]
    assert refusal["largest_count"] == 206
    noise = refusal["least_noise"]["noise_multiplier"]
    assert 20 * (300 / 207) ** 0.5 < noise <= 20 * (300 / 206) ** 0.5
    assert not refused.json["details"]["accepted"]
    assert {"asked", "left"} <= set(refusal)
    retried = f"gaussian,noise_multiplier={noise},count=300"
    assert dpcalc("ledger", "spend", "team.db", "census", "-m", retried, "--dry-run").code == 0
    barely = f"gaussian,noise_multiplier={noise * 0.999},count=300"
    assert dpcalc("ledger", "spend", "team.db", "census", "-m", barely, "--dry-run").code == 1
    assert dpcalc("ledger", "spend", "team.db", "census", "-m", f"{GAUSSIANS},count=206", "--key", "k").code == 0


def test_a_refused_mixed_release_is_advised_on_its_costliest_entry(dpcalc, team) -> None:
    small, large = "gaussian,noise_multiplier=100", "gaussian,noise_multiplier=10,count=100,name=model"
    refused = dpcalc("ledger", "spend", "team.db", "census", "-m", small, "-m", large, "-f", "json")
    assert refused.code == 1
    refusal = refused.json["details"]["refusal"]
    assert (refusal["entry"], refusal["count"], refusal["largest_count"]) == ("model", 100, 51)


def test_a_refused_declared_cost_is_told_how_much_it_may_be(dpcalc, team) -> None:
    refused = dpcalc("ledger", "spend", "team.db", "census", "-m", "gdp,mu=0.8", "-f", "json")
    assert refused.code == 1
    largest = refused.json["details"]["refusal"]["largest_mu"]
    assert dpcalc("ledger", "spend", "team.db", "census", "-m", f"gdp,mu={largest}", "--dry-run").code == 0
    assert dpcalc("ledger", "spend", "team.db", "census", "-m", f"gdp,mu={largest + 1e-3}", "--dry-run").code == 1


def test_keys_make_spends_idempotent(dpcalc, team) -> None:
    command = ("ledger", "spend", "team.db", "census", "-m", f"{GAUSSIANS},count=100", "--key", "k")
    assert dpcalc(*command).code == 0
    again = dpcalc(*command, "-f", "json")
    assert (again.code, again.json["details"]["entry"]) == (0, 2)
    other = dpcalc("ledger", "spend", "team.db", "census", "-m", f"{GAUSSIANS},count=101", "--key", "k")
    assert other.code == 2
    assert "other content" in other.err


def test_what_is_not_certified_is_exit_2(dpcalc, team) -> None:
    done = dpcalc("ledger", "spend", "team.db", "census", "-m", "gdp,mu=0.1,guarantee=numerical")
    assert done.code == 2
    assert "only what is certified" in done.err


def test_results_of_other_commands_are_spent(dpcalc, team) -> None:
    composed = dpcalc("compose", "-m", f"{GAUSSIANS},count=4", "--delta", "1e-5", "-f", "json")
    Path("result.json").write_text(composed.out)
    done = dpcalc("ledger", "spend", "team.db", "census", "result.json", "-f", "json")
    assert done.json["details"]["spent"]["mu"] == pytest.approx(0.1, rel=1e-9)


def test_results_of_filter_and_train_are_spent_with_their_assumptions(dpcalc, team) -> None:
    limit = ("--epsilon", 8, "--delta", "1e-4")
    assert dpcalc("ledger", "init", "team.db", "--budget", "wide", *limit).code == 0
    Path("norms.csv").write_text("id,step,norm\n" + "".join(f"{i},{t},1\n" for i in range(3) for t in range(4)))
    filtered = dpcalc(
        "filter", "norms.csv", "--filter", "gdp", "--sigma", 4, "--mu", 0.5, "--delta", "1e-5", "-f", "json"
    )
    trained = dpcalc("train", "--model", "logistic", "--epochs", 1, "--seed", 1, "-f", "json")
    for name, result in (("filter", filtered), ("train", trained)):
        assert result.code == 0
        Path(f"{name}.json").write_text(result.out)
        spent = dpcalc("ledger", "spend", "team.db", "wide", f"{name}.json", "--key", name, "-f", "json")
        assert spent.code == 0
        assert set(result.json["assumptions"]) <= set(spent.json["details"]["assumptions"])
    assert dpcalc("ledger", "verify", "team.db").code == 0


def test_a_guarantee_for_the_other_adjacency_is_exit_2_where_nothing_follows_from_it(dpcalc, team) -> None:
    bound = dpcalc("exp-mech", "--lipschitz", 1, "--strong-convexity", 4, "--delta", "1e-5", "-f", "json")
    Path("replaced.json").write_text(bound.out)
    refused = dpcalc("ledger", "spend", "team.db", "census", "replaced.json")
    assert (refused.code, "says nothing about adding or removing" in refused.err) == (2, True)
    limit = ("--mu", 1, "--adjacency", "replace-one")
    assert dpcalc("ledger", "init", "team.db", "--budget", "moved", *limit).code == 0
    assert dpcalc("ledger", "spend", "team.db", "moved", "replaced.json").code == 0


def test_a_status_can_be_composed_again(dpcalc, team) -> None:
    Path("status.json").write_text(dpcalc("ledger", "status", "team.db", "census", "-f", "json").out)
    composed = dpcalc("compose", "status.json", "--delta", "1e-5", "-f", "json")
    assert composed.json["epsilon"] == pytest.approx(3, rel=1e-6)


def test_what_if_never_writes(dpcalc, team) -> None:
    Path("spec.yaml").write_text("mechanisms: [{type: gaussian, noise_multiplier: 20, count: 300}]\n")
    done = dpcalc("ledger", "status", "team.db", "census", "--what-if", "spec.yaml", "-f", "json")
    assert done.code == 1
    assert done.json["details"]["what_if"]["refusal"]["largest_count"] == 206
    assert done.json["details"]["entries"] == 0


def test_status_names_what_a_plan_would_have_cost(dpcalc, team) -> None:
    dpcalc("ledger", "spend", "team.db", "census", "-m", f"{GAUSSIANS},count=100", "--by", "ann")
    dpcalc("ledger", "spend", "team.db", "census", "-m", "laplace,scale=20,sensitivity=1", "--by", "bob")
    details = dpcalc("ledger", "status", "team.db", "census", "-f", "json").json["details"]
    composed = dpcalc(
        *("compose", "-m", f"{GAUSSIANS},count=100", "-m", "laplace,scale=20,sensitivity=1"),
        *("--delta", "1e-5", "-f", "json"),
    )
    assert details["planned"]["epsilon"] == pytest.approx(composed.json["epsilon"], rel=0.02)
    assert details["planned"]["epsilon"] < details["spent"]["epsilon"] * (1 + 5e-3)
    assert {each["by"] for each in details["by"]} == {"ann", "bob"}
    assert sum(each["share"] for each in details["by"]) == pytest.approx(details["level"], rel=1e-9)


@pytest.mark.parametrize("format", ["table", "csv", "json", "markdown"])
def test_the_log_comes_in_every_format(dpcalc, team, format) -> None:
    dpcalc("ledger", "spend", "team.db", "census", "-m", GAUSSIANS, "--key", "k-1", "--by", "ann", "--note", "a|b")
    done = dpcalc("ledger", "log", "team.db", "census", "-f", format)
    assert done.code == 0
    assert "k-1" in done.out
    assert "ann" in done.out


def test_export_and_import_carry_the_chain(dpcalc, team) -> None:
    dpcalc("ledger", "spend", "team.db", "census", "-m", GAUSSIANS, "--key", "k-1")
    assert dpcalc("ledger", "export", "team.db", "-o", "team.jsonl").code == 0
    assert Path("team.jsonl").stat().st_mode & 0o777 == 0o600
    assert dpcalc("ledger", "import", "copy.db", "team.jsonl").code == 0
    assert dpcalc("ledger", "verify", "copy.db").code == 0
    assert dpcalc("ledger", "export", "copy.db").out == Path("team.jsonl").read_text()
    assert dpcalc("ledger", "export", "team.db", "-o", "team.db").code == 2
    Path("team.jsonl").write_text(Path("team.jsonl").read_text().replace("k-1", "k-2"))
    bad = dpcalc("ledger", "import", "other.db", "team.jsonl")
    assert bad.code == 2
    assert not Path("other.db").exists()


def test_verify_notices_a_change_and_a_lost_head(dpcalc, team) -> None:
    import sqlite3

    head = dpcalc("ledger", "verify", "team.db", "-f", "json").json["details"]["head"]
    assert dpcalc("ledger", "verify", "team.db", "--head", head).code == 0
    assert dpcalc("ledger", "verify", "team.db", "--head", "0" * 64).code == 1
    connection = sqlite3.connect("team.db")
    connection.execute("DROP TRIGGER dpcalc_entries_no_update")
    connection.execute("UPDATE dpcalc_entries SET body = replace(body, '3.0', '9.0')")
    connection.commit()
    connection.close()
    done = dpcalc("ledger", "verify", "team.db")
    assert done.code == 1
    assert "entry 1 was changed" in done.out


def test_a_void_needs_a_reason_and_frees_what_was_charged(dpcalc, team) -> None:
    dpcalc("ledger", "spend", "team.db", "census", "-m", f"{GAUSSIANS},count=206", "--key", "k")
    assert dpcalc("ledger", "void", "team.db", "k").code == 2
    done = dpcalc("ledger", "void", "team.db", "k", "--reason", "the job was never scheduled", "-f", "json")
    assert (done.code, done.json["details"]["voids"]) == (0, 2)
    assert done.json["details"]["spent"]["mu"] == 0
    assert dpcalc("ledger", "void", "team.db", "absent", "--reason", "x").code == 2
    assert dpcalc("ledger", "verify", "team.db").code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("--epsilon", 1),
        ("--delta", "1e-6"),
        ("--epsilon", 1, "--delta", "1e-6", "--mu", 1),
        ("--mu", 1, "--filter", "rdp"),
        ("--mu", 1, "--step-delta", "1e-7"),
        ("--epsilon", 1, "--delta", "1e-6", "--step-delta", "1e-5"),
        ("--epsilon", 1, "--delta", "1e-6", "--filter", "gdp", "--step-delta", "1e-7"),
        ("--mu", 1, "--parallel", "one"),
        ("--mu", 1, "--parallel", "a,a"),
        ("--mu", 1, "--parent", "absent"),
        ("--mu", "nan"),
        ("--mu", 1, "--plan", "plan.yaml"),
        ("--epsilon", 1, "--delta", "1e-6", "--filter", "gdp", "--plan", "plan.yaml"),
        ("--mu", 0),
    ],
)
def test_wrong_terms_are_exit_2_and_make_no_ledger_entry(dpcalc, team, arguments) -> None:
    Path("plan.yaml").write_text("mechanisms: [{type: gaussian, noise_multiplier: 20}]\n")
    done = dpcalc("ledger", "init", "team.db", "--budget", "other", *arguments)
    assert done.code == 2
    assert dpcalc("ledger", "log", "team.db", "-f", "json").json["details"]["entries"][-1]["entry"] == 1


def test_auto_explains_its_choice(dpcalc, team) -> None:
    limit = ("--epsilon", 3, "--delta", "1e-5")
    blind = dpcalc("ledger", "init", "team.db", "--budget", "blind", *limit, "-f", "json").json["details"]["budget"]
    assert (blind["filter"], "whatever is certified" in blind["reason"]) == ("rdp", True)
    Path("plan.yaml").write_text("mechanisms: [{type: gaussian, noise_multiplier: 20, count: 10}]\n")
    plan = ("--plan", "plan.yaml", "-f", "json")
    planned = dpcalc("ledger", "init", "team.db", "--budget", "planned", *limit, *plan).json["details"]["budget"]
    assert planned["filter"] == "gdp"


def test_unknown_places_and_names_are_exit_2(dpcalc, team) -> None:
    for arguments in (
        ("status", "absent.db"),
        ("spend", "team.db", "absent", "-m", GAUSSIANS),
        ("spend", "team.db", "census"),
        ("status", "mysql://host/db"),
        ("import", "x.db", "absent.jsonl"),
        ("spend", "team.db", "census", "-m", GAUSSIANS, "--dry-run", "--by", "ann"),
        ("spend", "team.db", "census", "-m", GAUSSIANS, "--key", " "),
        ("spend", "team.db", "census", "-m", GAUSSIANS, "--key", "\ud800"),
    ):
        assert dpcalc("ledger", *arguments).code == 2
    assert not Path("absent.db").exists()


def test_an_overview_lists_all_budgets(dpcalc, team) -> None:
    dpcalc("ledger", "init", "team.db", "--budget", "land", "--rho", "0.1", "--parallel", "north,south")
    dpcalc("ledger", "spend", "team.db", "land/north", "-m", "zcdp,rho=0.05")
    details = dpcalc("ledger", "status", "team.db", "-f", "json").json["details"]
    levels = {each["budget"]: each["level"] for each in details["budgets"]}
    assert levels["land"] == pytest.approx(0.5, rel=1e-9)
    assert levels["land/north"] == levels["land"]
    assert levels["land/south"] == levels["census"] == 0


def test_names_cannot_steer_a_terminal_or_break_the_log(dpcalc, team) -> None:
    evil = "\x1b[31mred\n'; DROP TABLE dpcalc_entries; --"
    done = dpcalc("ledger", "spend", "team.db", "census", "-m", GAUSSIANS, "--key", evil, "--by", evil, "-f", "json")
    assert done.code == 0
    assert json.loads(dpcalc("ledger", "log", "team.db", "-f", "json").out)["details"]["entries"][1]["key"] == evil
    assert dpcalc("ledger", "verify", "team.db").code == 0


TRAIN = ("train", "--model", "logistic", "--algorithm", "gd", "--steps", 5, "--seed", 1, "--ledger", "team.db")


def test_training_starts_only_if_the_ledger_accepted_it(dpcalc, team, monkeypatch) -> None:
    from dpcalc.training.loop import Trainer

    run = (*TRAIN, "--budget", "census", "--key", "run-1", "--noise-multiplier", 5, "-f", "json")
    done = dpcalc(*run)
    assert (done.code, done.json["details"]["ledger"]["entry"]) == (0, 2)
    status = dpcalc("ledger", "status", "team.db", "census", "-f", "json").json["details"]
    assert status["spent"]["mu"] == pytest.approx(5**0.5 / 5, rel=1e-9)
    again = dpcalc(*run)
    assert (again.code, "may have told something" in again.err) == (2, True)  # another run, and charged once
    monkeypatch.setattr(Trainer, "advance", lambda *_, **__: pytest.fail("a refused run must not take a step"))
    refused = dpcalc(*TRAIN, "--budget", "census", "--key", "run-2", "--noise-multiplier", 2)
    assert refused.code == 1
    assert "census refused" in refused.err
    assert "would fit" in refused.err


@pytest.mark.parametrize(
    "wrong",
    [
        ("--log", "norms.txt"),
        ("--resume",),
        ("--checkpoint", "there.npz"),
        ("--checkpoint", "there.npz", "--resume"),
        ("--grid", "grid.yaml"),
        ("--grid", "models.yaml", "--data", "data.csv", "--test-data", "data.csv"),
        ("--validate-every", 2, "--data", "data.csv"),
        ("--model", "cnn", "--data", "data.csv"),
    ],
)
def test_nothing_is_charged_for_a_run_that_is_wrong(dpcalc, team, wrong) -> None:
    (team / "data.csv").write_text("a,b,label\n" + "".join(f"{n % 3},{n % 5},{n % 2}\n" for n in range(12)))
    (team / "there.npz").write_bytes(b"not a checkpoint")
    (team / "grid.yaml").write_text("batch-size: [10, 100000000]\n")
    (team / "models.yaml").write_text("model: [logistic, cnn]\n")
    train = [word for word in TRAIN if wrong[0] != "--model" or word not in ("--model", "logistic")]
    run = dpcalc(*train, "--budget", "census", "--key", "run-1", "--noise-multiplier", 50, *wrong)
    assert run.code == 2, run.err
    status = dpcalc("ledger", "status", "team.db", "census", "-f", "json").json["details"]
    assert status["spent"]["mu"] == 0


def test_a_refused_run_leaves_files_alone(dpcalc, team) -> None:
    (team / "norms.csv").write_text("kept")
    files = ("--log", "norms.csv", "--checkpoint", "new.npz")
    assert dpcalc(*TRAIN, "--budget", "census", "--key", "run-1", "--noise-multiplier", 0.1, *files).code == 1
    assert (team / "norms.csv").read_text() == "kept"
    assert not (team / "new.npz").exists()


def test_a_filtered_run_is_charged_its_budget(dpcalc, team) -> None:
    run = (*TRAIN, "--budget", "census", "--key", "run-1", "--noise-multiplier", 10, "--filter", "gdp", "-f", "json")
    done = dpcalc(*run)
    assert done.code == 0
    status = dpcalc("ledger", "status", "team.db", "census", "-f", "json").json["details"]
    assert status["spent"]["mu"] == pytest.approx(done.json["mu"], rel=1e-9)


def test_ledger_budget_and_key_go_together(dpcalc, team) -> None:
    assert dpcalc(*TRAIN, "--key", "k").code == 2
    assert dpcalc(*TRAIN, "--budget", "absent", "--key", "k").code == 2
