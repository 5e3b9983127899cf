"""The data of the papers' experiments: AG News and MIMIC-III from files, and digits in place of MIMIC-III."""

import numpy as np
import pytest

from dpcalc.errors import InputError
from dpcalc.training.data import load
from dpcalc.training.labels import unpacked


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


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("train.csv", None, "no such file; expected AG News's lines"),
        ("train.csv", "text,label\nfuel,1\n", "line 1: expected a class from 1 on"),
        ("test.csv", '"1","Fuel","up"\n\n', "line 2: expected a class from 1 on"),
        ("test.csv", '"0","Fuel","up"\n', "line 1: expected a class from 1 on"),
        ("test.csv", "", "has no articles"),
        ("glove.txt", None, "no such file; expected GloVe's text file"),
        ("glove.txt", "else 1 2\n", "has none of the articles' words"),
        ("glove.txt", "fuel 1 2\nup 3\n", "line 2: expected a word and 2 numbers"),
        ("glove.txt", "fuel 1 x\n", "line 1: expected a word and 2 numbers"),
        ("glove.txt", "fuel 1 nan\n", "line 1: expected a word and 2 numbers"),
        ("glove.txt", "fuel\n", "line 1: expected a word and 50 numbers"),
    ],
)
def test_what_is_wrong_with_files_of_news_is_told(example, tmp_path, name, text, words):
    module = example("news")
    files = {"train.csv": '"1","Fuel","up"\n', "test.csv": '"2","Fuel","up"\n', "glove.txt": "fuel 1 2\nup 3 4 \n"}
    for each, content in files.items():
        (tmp_path / each).write_text(content)
    data = module.load_news(str(tmp_path), str(tmp_path / "glove.txt"))
    assert data.classes == 2  # the second is in the test articles alone
    (tmp_path / name).unlink()
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=words):
        module.load_news(str(tmp_path), str(tmp_path / "glove.txt"))


def test_digits_laid_over_one_another_have_the_labels_of_their_images(example, images):
    module = example("digits")
    data = module.overlaid(load(str(images)))
    there = unpacked(data.y_train, data.classes)
    assert 100 <= len(data) <= 300
    assert there.sum(axis=1).max() <= 3
    bright = data.x_train.reshape(len(data), 28, 28)[:, 2 + 2 * np.arange(1, 10)].min(axis=2) > 0.7
    assert np.array_equal(bright, there)


def _mimic(folder, stays, generator):
    """A folder as the benchmark writes it; returns what the first stay holds."""
    channels = ["Hours", *stays[1]]
    folder.mkdir(parents=True)
    lines = ["stay,period_length,Pneumonia (except that caused by tuberculosis),Acute myocardial infarction,Shock"]
    for index in range(stays[0]):
        lines.append(f"{index}_episode1_timeseries.csv,50.5,{index % 2},{(index // 2) % 2},{int(index % 5 == 0)}")
        rows = [",".join(channels)]
        for hour in range(11):
            values = ["" if generator.random() < 0.2 else f"{90 + hour + index % 3}" for _ in channels[1:]]
            values[3], values[6] = "4 Spontaneously", "Confused"
            rows.append(",".join([str(hour), *values]))
        (folder / f"{index}_episode1_timeseries.csv").write_text("\n".join(rows) + "\n")
    (folder / "listfile.csv").write_text("\n".join(lines) + "\n")


def test_mimic_is_read_from_the_benchmarks_files(example, main, tmp_path):
    module, generator = example("mimic"), np.random.default_rng(0)
    for name, count in (("train", 60), ("test", 40)):
        _mimic(tmp_path / "phenotyping" / name, (count, list(module.NORMAL)), generator)
    data, names = module.load_mimic(str(tmp_path / "phenotyping"))
    assert (data.features, data.classes, names[2]) == (714, 3, "Shock")
    assert data.y_train[:4].tolist() == [4, 1, 2, 3]  # bits of pneumonia, infarction, shock
    first = data.x_train[0].reshape(17, 7, 6)
    channels = list(module.NORMAL)
    eyes, speech = (channels.index(f"Glascow coma scale {part}") for part in ("eye opening", "verbal response"))
    assert first[eyes, 0] == pytest.approx([0, 0, 0, 0, 0, np.log(12)])  # the normal value, eleven times
    assert first[speech, 0, :3] == pytest.approx([-0.2] * 3)  # 4 where 5 is normal
    rows = (tmp_path / "phenotyping/train/0_episode1_timeseries.csv").read_text().splitlines()[1:]
    heart = channels.index("Heart Rate")
    values = np.array([float(row.split(",")[1 + heart]) for row in rows if row.split(",")[1 + heart]])
    relative = (values - 86) / 86
    assert first[heart, 0, :4] == pytest.approx(
        [relative.min(), relative.max(), relative.mean(), relative.std()], abs=1e-6
    )
    late = [float(row.split(",")[1 + heart]) for row in rows if row.split(",")[1 + heart]][-1]
    assert first[heart, 4, 1] == pytest.approx((late - 86) / 86, abs=1e-6)
    asked = ["--planned", 2, "--total", 4, "--hidden", 4, "--epsilons", 2.75, "--factors", 1]
    told = main("koskela_labels", "--mimic", tmp_path / "phenotyping", *asked)
    assert sum(line.startswith("| with") for line in told) == 4
    assert "MIMIC-III phenotyping: 60 records" in told[0]
    # What the paper's published code has, unless told otherwise.
    assert "714-4-3, Adam at 0.009479, λ = 0.000939" in told[0]
    paper = main("koskela_labels", "--mimic", tmp_path / "phenotyping", "--planned", 1, "--total", 2)
    assert "714-369-3" in paper[0]
    assert [row.split()[1] for row in paper if "× clip" in row] == ["0.5", "1", "1.5", "3", "5"]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda folder: (folder / "train/listfile.csv").unlink(), "expected the benchmark's phenotyping folder"),
        (lambda folder: (folder / "train/listfile.csv").write_text("stay\n"), "begins with stay,period_length"),
        (lambda folder: (folder / "test/0_episode1_timeseries.csv").write_text("Hours,pH\n"), "expected a column"),
    ],
)
def test_what_is_wrong_with_files_of_mimic_is_told(example, tmp_path, spoil, words):
    module = example("mimic")
    for name in ("train", "test"):
        _mimic(tmp_path / name, (3, list(module.NORMAL)), np.random.default_rng(0))
    spoil(tmp_path)
    with pytest.raises(InputError, match=words):
        module.load_mimic(str(tmp_path))
