"""The commands of the papers: every setting has its published figure, and their loaders read their files."""

import argparse
import itertools
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from dpcalc import conversions
from dpcalc.training.data import load

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_every_setting_of_feldman_and_zrnic_is_summed_up_beside_its_paper(example):
    module = example("train_feldman_zrnic")
    for epsilon, (multiplier, clip, _, steps, factor, _) in module.HYPERPARAMETERS.items():
        for setting in ("tuned", "clip", "noise"):
            chosen = module.settings(epsilon, setting, 0, "numpy")
            # At equal clip units the privacy of plain training is k/σ², which both suboptimal settings keep.
            budget = chosen.steps / chosen.noise_multiplier**2
            assert budget == pytest.approx(steps / multiplier**2, rel=0.03)
            assert chosen.clip == (clip * factor if setting == "clip" else clip)
            looks = [[chosen.steps + 5 * i, 0.8 + 0.01 * i, 0.7 + 0.01 * i, 60_000 - i] for i in range(8)]
            run = {"looks": looks, "settings": chosen.as_dict()}
            cells = module.summary(epsilon, setting, [run, run], chosen, 60_000).strip("| ").split(" | ")
            assert len(cells) == len(module.COLUMNS)
            named = dict(zip(module.COLUMNS, cells, strict=True))
            assert named["ours"] == "70.00 ± 0.00"
            assert named["best of 8"] == "77.00 ± 0.00"
            assert float(named["with looks"]) >= float(named["ε (GDP)"])


def test_published_tables_of_galli_are_complete(example):
    module = example("galli_published")
    for (task, _), table in module.RESULTS.items():
        assert set(table) == set(module.METHODS)
        assert all(len(row) == len(module.EPSILONS[task]) for row in table.values())
    assert all(len(row) == 4 for row in module.BEST.values())


def cells(rows):
    """The tables of an output as lists of rows by column."""
    tables, head = [], None
    for row, following in itertools.pairwise([*rows, ""]):
        values = [cell.strip() for cell in row.strip("|").split(" | ")]
        if following.startswith("|---"):
            head, found = values, []
            tables.append(found)
        elif row.startswith("| ") and head is not None:
            assert len(values) == len(head)
            tables[-1].append(dict(zip(head, values, strict=True)))
    return tables


COMMANDS = sorted(path.stem for path in EXAMPLES.glob("*.py") if "argparse" in path.read_text())


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_has_an_example_and_leaves_nothing_behind(main, name, tmp_path, capsys):
    with pytest.raises(SystemExit) as ending:
        main(name, "--help")
    assert ending.value.code == 0
    assert f"python examples/{name}.py" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_a_grid_of_galli_is_validated_and_compared(main, tmp_path):
    generator = np.random.default_rng(0)
    y = generator.integers(0, 2, 800)
    x = (y[:, None] + 0.5 * generator.standard_normal((800, 4))).astype(np.float32)
    path = tmp_path / "data.npz"
    np.savez(path, x_train=x[:600], y_train=y[:600], x_test=x[600:], y_test=y[600:])
    asked = ["--data", path, "--model", "logistic", "--backend", "numpy", "--epochs", 2, "--granularity", 2]
    more = ["--epsilons", 9, "--methods", "online", "adam-wosm", "--seeds", 2, "--no-privacy"]
    kept = ["--results", tmp_path / "runs.json", "--folder", tmp_path / "pictures"]
    rows = main("train_galli", *asked, *more, *kept)
    assert "2 seeds" in rows[0]
    (table,) = cells(rows)
    assert [row["method"] for row in table] == ["no privacy", "online", "adam-wosm"]
    assert all(" ± " in row["test, ours"] for row in table)
    assert (tmp_path / "pictures" / "galli-mnist-2.png").stat().st_size > 1000
    again = cells(main("train_galli", *asked, *more, *kept))[0]
    assert [row["test, ours"] for row in again] == [row["test, ours"] for row in table]
    (only,) = cells(main("train_galli", *asked, *more[:-1], "--only", "lr=31.62", *kept[:2]))
    assert only[0]["runs"] == "1 of 2"
    assert only[0]["winner"] == "lr = 31.62"
    # The budget is the whole grid's, whatever is run of it.
    assert only[0]["noise multiplier"] == table[1]["noise multiplier"]


def test_what_won_in_the_paper_is_on_its_grid(example):
    module = example("galli_published")
    for (_, k), methods in module.BEST.items():
        rates, clips = np.logspace(-2.5, 1.5, k), np.logspace(-2, 2, k)
        for winner in (each for row in methods.values() for each in row if each is not None):
            assert "lr" not in winner or np.isclose(rates, winner["lr"], rtol=0.01).any()
            assert "clip" not in winner or np.isclose(clips, winner["clip"], rtol=0.01).any()
            assert winner.get("quantile", 0.5) in (0.1, 0.3, 0.5, 0.7, 0.9)


def test_news_from_files_is_searched(main, tmp_path):
    words = ["sun", "rain", "wind", "snow"]
    lines = [f'"{1 + i % 4}","{words[i % 4]} {words[i % 4]}","{words[i % 4]}"' for i in range(200)]
    for name in ("train.csv", "test.csv"):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    vectors = np.eye(4, 6)
    glove = [f"{word} {' '.join(map(str, vector))}" for word, vector in zip(words, vectors, strict=True)]
    (tmp_path / "glove.txt").write_text("\n".join(glove) + "\n")
    asked = ["--task", "news", "--data", tmp_path, "--glove", tmp_path / "glove.txt", "--backend", "numpy"]
    records = ["--granularity", 9, "--epsilons", 9, "--methods", "online", "--best", "--epochs", 1]
    (tmp_path / "train.csv").write_text("\n".join(lines * 4) + "\n")
    (table,) = cells(main("train_galli", *asked, *records))
    assert table[0]["test, paper"] == "86.43 ± 0.08"
    assert table[0]["runs"] == "1 of 9"
    records[1:4] = [5, "--epsilons", 7]  # Table 13
    (table,) = cells(main("train_galli", *asked, *records, "--no-privacy"))
    assert [row["test, paper"] for row in table] == ["–", "86.32 ± 0.09"]
    assert table[0]["winner"].endswith("(paper: 0.003162)")
    assert table[1]["winner"] == "lr = 0.3162"


def test_what_nobody_ran_has_not_diverged(example, monkeypatch):
    """In the paper no quantile won on Fashion-MNIST at ε = 1, so --best runs none."""
    module = example("train_galli")
    asked = ["--task", "fashion", "--data", "none", "--granularity", "5", "--epochs", "1", "--best"]
    monkeypatch.setattr(sys, "argv", ["train_galli.py", *asked])
    arguments = module.parse()
    found = module.one_row("quantile", 1, range(1000), arguments, module.Results(None))
    assert " 0 of 25 " in module.told(found, arguments)
    assert "none won in the paper" in module.told(found, arguments)


def test_a_baseline_of_which_every_rate_diverges_says_so(example, monkeypatch):
    module = example("train_galli")
    monkeypatch.setattr(module, "_plain_run", lambda *_: -math.inf)
    monkeypatch.setattr(sys, "argv", ["train_galli.py", "--data", "none", "--granularity", "5"])
    told = module.baseline(range(1000), module.parse(), module.Results(None))
    assert "all diverged" in told
    assert "inf" not in told


def test_news_without_vectors_is_told_before_anything_is_read(main, tmp_path, capsys):
    with pytest.raises(SystemExit) as ending:
        main("train_galli", "--task", "news", "--data", tmp_path / "none")
    assert ending.value.code == 2
    assert "--glove FILE" in capsys.readouterr().err


def test_what_is_wrong_with_the_reader_s_files_is_told_in_a_line(example, tmp_path):
    module = example("tables")

    def main():
        example("train_bok")
        load(str(tmp_path / "none"))

    with pytest.raises(SystemExit) as ending:
        module.as_command(main)
    assert "none" in ending.value.code
    assert "\n" not in ending.value.code.strip()


def test_figures_1_and_2_of_galli(main, images):
    asked = ["--model", "logistic", "--backend", "numpy", "--steps", 2, 4, "--lr", 0.5, "--folder", "pictures"]
    rows = main("galli_figures", "--data", images, *asked, "--seeds", 2)
    first, second = cells(rows)
    assert "2 seeds" in rows[0]
    assert [row["step"] for row in first] == ["2", "4"]
    assert all(" ± " in row["its cosine"] for row in first)
    assert all(abs(float(row["difference"])) < 1e-4 for row in second)  # ν_g = 1.01 ν in the paper
    assert Path("pictures/galli-1-2.png").stat().st_size > 1000


def test_feldman_and_zrnic_in_miniature(main, images, tmp_path):
    pytest.importorskip("torch")
    asked = ["--data", images, "--epsilons", 0.3, "--settings", "noise", "--records", 40, "--seeds", 2]
    rows = main("train_feldman_zrnic", *asked, "--results", tmp_path / "runs.json", "--folder", "pictures")
    assert "40 records" in rows[0]
    assert Path("pictures/feldman-zrnic.png").stat().st_size > 1000
    (table,) = cells([row for row in rows[:-1] if not row.startswith("<!--")])
    assert table[0]["plain, paper"] == "86.88 ± 2.28"
    assert table[0]["seeds"] == "2"
    assert not [row for row in main("train_feldman_zrnic", *asked, "--results", "runs.json") if "<!--" in row]


def test_bok_in_miniature(main, images, tmp_path):
    asked = ["--data", images, "--batch-size", 30, "--epochs", 2, 50, "--seeds", 2, "--algorithms", "cgd"]
    asked += ["--regularizations", 0.002, "--results", tmp_path / "runs.json"]
    (table,) = cells(main("train_bok", *asked))
    assert [row["train, paper"] for row in table] == ["–", "89.36"]
    assert "Theorem 4.5" in table[1]["bound"]


@pytest.mark.parametrize(("algorithm", "bound"), [("cgd", "Theorem 4.5, approximate"), ("sgd", "D.4), certified")])
def test_epsilons_of_bok_are_those_of_its_table(example, algorithm, bound):
    module = example("train_bok")
    chosen = module.settings(algorithm, 0.002, 50, 0, 1500)
    cells = module.told(range(60_000), chosen, [{"50": (90.0, 91.0)}]).strip("| ").split(" | ")
    paper, ours, told = cells[-3:]
    assert float(ours) == pytest.approx(float(paper), abs=0.005)  # two digits are printed
    assert told.endswith(bound)


def test_figures_of_bok_are_those_of_its_tables(main):
    (table,) = cells(main("bok_figures", "pictures", "--figures", 2, 4, 6, 7, 8, 9))
    for row in table:
        if row["difference"] == "–":
            assert float(row["ours"]) < 1e-5 if row["paper"] == "0" else row["ours"] == row["paper"]
        else:
            assert abs(float(row["difference"])) <= 5.1e-4  # three digits are printed
    assert {path.name for path in Path("pictures").iterdir()} == {f"figure-{n}.png" for n in (2, 4, 6, 7, 8, 9)}


def test_every_cell_of_bok_s_tables_is_the_printed_one_but_for_its_slip(main):
    """E* of Tables 10 to 12: its script multiplies where the bound adds (docs/sgd-bound.md)."""
    rows = main("bok_tables")
    tables = [row.split(":")[0] for row in rows if row.startswith("Table ") and "printed numbers differ" not in row]
    assert tables == [f"Table {number}" for number in (1, 3, 4, 7, 8, 9, 10, 11, 12)]
    differing = [row.split(":")[0] for row in rows if "printed numbers differ" in row]
    assert set(differing) <= {"Table 10", "Table 11", "Table 12"}
    assert not any("→ 0.00" in row for row in rows)


def test_bok_chooses_the_steps_where_its_approximation_is_least(example):
    module = example("bok_choices")
    for _, setting in module.settings():
        if setting.diameter is None:
            choose, mu = module.strongly_convex_choice, module.strongly_convex_mu
        else:
            choose, mu = module.constrained_choice, module.constrained_mu
        steps, least = choose(setting)
        assert all(mu(setting, other * steps) > least for other in (0.5, 0.97, 1.03, 2.0))
    distances = module.where_to_shift(module.settings()[4][1], 500)
    assert distances["the last"] == min(distances.values())


def test_individual_epsilons_of_koskela_in_miniature(main, images):
    asked = ["--epochs", 1, "--steps", 4, "--sample", 50, "--seeds", 2, "--results", "runs.json"]
    rows = main("train_koskela", "--data", images, *asked, "--folder", "pictures")
    digits, spread, records, curve = cells(rows)
    assert len(digits) == 10
    assert "means of 2 seeds" in " ".join(rows)
    assert all(" ± " in row[name] for row in spread for name in ("plain", "filtered"))
    few, many, loss = ([float(row[name].split()[0]) for row in records] for name in list(records[0])[1:])
    for *counts, _, _ in (few, many, loss):  # the last two rows are the least and the median
        assert sum(counts) == 50
    # A minimum over more orders is no larger; by both, more is lost than by the loss distributions.
    assert few[-2] >= many[-2] > loss[-2]
    assert few[-1] >= many[-1] > loss[-1]
    assert all(float(row["ε, loss distributions"]) <= float(row["ε, GDP"]) + 1e-4 for row in curve)
    assert Path("pictures/koskela-1.png").stat().st_size > 1000
    # Seeds are runs of their own, and a run that is there is not run again.
    kept = json.loads(Path("runs.json").read_text())
    assert len({json.dumps(run) for run in kept.values()}) == len(kept) == 4
    assert main("train_koskela", "--data", images, *asked) == rows[:-1]


def test_small_epsilons_need_large_orders(example):
    """With orders up to 32 nothing is below log(1 − 1/32) + (log 10⁶ − log 32)/31, by Canonne et al.'s conversion."""
    module = example("train_koskela")
    floor = math.log1p(-1 / 32) + (math.log(1e6) - math.log(32)) / 31
    assert 0.302 < floor < 0.303
    for rho in (1e-6, 1e-5, 1e-4):
        few = module.as_in_the_paper(np.array([[rho * order] for order in module.PAPER_ORDERS]))
        many = conversions.rdp_epsilon(module.ORDERS, [rho * order for order in module.ORDERS], module.DELTA)
        assert few == pytest.approx([floor + 32 * rho], rel=1e-9)
        # ρ-zCDP has ε ≤ ρ + 2√(ρ log 1/δ) (Bun, Steinke 2016).
        assert many < rho + 2 * math.sqrt(rho * math.log(1e6)) < floor


def test_a_digit_s_spread_and_its_mean_are_over_seeds(example, monkeypatch, capsys):
    """Two seeds told by hand: ε of digit 0 is 1 and 3, of all others 0; losses are 10 times that."""
    module = example("train_koskela")
    runs = {"seed 0": 1.0, "seed 1": 3.0}
    looks = [[[(v, 10 * v, 10 * v, 0.5)] + [(0.0, 0.0, 0.0, 0.5)] * 9] * 2 for v in runs.values()]
    found = iter([{"looks": look, "epsilon": 2.7524} for look in looks])
    monkeypatch.setattr(module, "one_run", lambda *_: next(found))
    arguments = argparse.Namespace(steps=50, seeds=range(2))
    module.subgroups(range(10), arguments, module.Results(None))
    digits, spread = cells(capsys.readouterr().out.strip().splitlines())
    assert digits[0]["mean individual ε"] == "2.000 → 2.000"
    assert [row["plain"] for row in spread] == [
        "2.000 ± 1.414",
        "20.000 ± 14.142",
        "20.000 ± 14.142",
        *["1.000 ± 0.000"] * 2,
    ]


def test_figures_3_to_5_of_koskela(main):
    numbers = cells(main("koskela_figures", "--folder", "pictures"))[0]
    assert [row["ours"] for row in numbers[:2]] == ["0.8156", "495"]


def test_several_labels_in_miniature(main, images, tmp_path):
    asked = [
        "--data",
        images,
        "--planned",
        3,
        "--total",
        6,
        "--every",
        1,
        "--hidden",
        5,
        "--factors",
        1,
        50,
        "--clip",
        0.05,
    ]
    kept = ["--results", tmp_path / "runs.json", "--folder", "pictures", "--epsilons", 2.75, 10, "--seeds", 2]
    clips, large, groups = cells(main("koskela_labels", *asked, *kept))
    assert [row["case"] for row in clips] == ["1 × clip", "50 × clip"]
    # A clip that never acts leaves records with budget, one that always does leaves none.
    active = [int(row["active after one more step"].replace(",", "")) for row in clips]
    assert active[1] > active[0]
    assert large[0]["case"] == "ε = 10"
    assert len(groups) == 5
    assert len(list(Path("pictures").iterdir())) == 2


def test_records_of_a_filtered_fit_stay_in_beyond_the_planned_steps(main):
    rows = main("filter_online")
    active = [int(row.split()[2]) for row in rows if row.startswith("step")]
    assert active[:2] == [2000, 2000]  # nobody can have run out before step 144, by the budget of the worst case
    assert 1000 < active[3] < active[2] < 2000
    assert "after 144 steps" in rows[-2]


def test_a_file_of_results_that_was_cut_off_is_replaced_whole(example, tmp_path):
    module, path = example("tables"), tmp_path / "runs.json"
    assert module.Results(str(path)).of("a", lambda: 1) == 1
    (tmp_path / "runs.json.new").write_text("half of wh")
    again = module.Results(str(path))
    assert again.of("a", lambda: 2) == 1
    assert again.of("b", lambda: 3) == 3
    assert module.Results(str(path)).of("b", lambda: 4) == 3
