"""The commands of the papers: every setting has its published figure, and their loaders read their files."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(monkeypatch):
    """A module of examples/ by name."""
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def load(name):
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return load


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


def test_articles_become_the_vectors_of_their_first_words(example, tmp_path):
    module = example("news")
    (tmp_path / "train.csv").write_text('"3","Fuel up","costs rise"\n"1","Fuel","up"\n')
    (tmp_path / "test.csv").write_text('"2","unknown","fuel"\n')
    (tmp_path / "glove.txt").write_text("fuel 1 2\nup 3 4\nelse 9 9\n")
    data = module.load_news(str(tmp_path), str(tmp_path / "glove.txt"))
    assert (data.x_train.shape, data.classes) == ((2, module.WORDS * 2), 3)
    assert list(data.y_train) == [2, 0]
    assert data.x_train[0][:8].tolist() == [1, 2, 3, 4, 0, 0, 0, 0]
    assert data.x_test[0][:4].tolist() == [0, 0, 1, 2]


def test_published_tables_of_galli_are_complete(example):
    module = example("galli_published")
    for (task, _), table in module.RESULTS.items():
        assert set(table) == set(module.METHODS)
        assert all(len(row) == len(module.EPSILONS[task]) for row in table.values())
    assert all(len(row) == 4 for row in module.BEST.values())


def test_a_grid_of_galli_is_validated_and_compared(example, monkeypatch, capsys, tmp_path):
    module = example("train_galli")
    generator = np.random.default_rng(0)
    y = generator.integers(0, 2, 800)
    x = (y[:, None] + 0.5 * generator.standard_normal((800, 4))).astype(np.float32)
    path = tmp_path / "data.npz"
    np.savez(path, x_train=x[:600], y_train=y[:600], x_test=x[600:], y_test=y[600:])
    asked = ["--data", str(path), "--model", "logistic", "--backend", "numpy", "--epochs", "2", "--granularity", "2"]
    more = ["--epsilons", "9", "--methods", "online", "adam-wosm", "--seeds", "2", "--no-privacy"]
    monkeypatch.setattr(sys, "argv", ["train_galli.py", *asked, *more])
    module.main()
    rows = capsys.readouterr().out.strip().splitlines()
    assert len(rows) == 7
    assert "2 seeds" in rows[0]
    assert [row.split(" | ")[1] for row in rows[4:]] == ["no privacy", "online", "adam-wosm"]
