import csv
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from lmma.cli import main
from lmma.output.plotting.style import COLOURS
from lmma_lab.analysis.samples import PROTOCOL
from lmma_lab.attack import campaign, compile_forest, load_mnist, train_forest
from lmma_lab.attack.data import write_idx
from lmma_lab.attack.pipeline import Settings, run_attack
from lmma_lab.attack.publish import publish
from lmma_lab.attack.records import fingerprint
from lmma_lab.attack.summary import confirmed, pair, success_within, summarise, wilson
from pictures import colours_in, size_of
from repository import SOURCES

SMALL = ["--trees", "20", "--images", "12", "--budget", "160", "--quiet"]


@pytest.fixture(scope="module")
def campaigns(forest, digits):
    predict = compile_forest(forest).predict_proba
    X, y = digits.X_test[:30], digits.y_test[:30]
    options = {"sigma0": 0.2, "budget": 160}
    return {m: campaign(predict, X, y, method=m, **options).records for m in ("lm-ma-es", "csa-es")}


def test_training_in_chunks_gives_the_forest_of_one_fit(digits):
    from sklearn.ensemble import RandomForestClassifier

    seen = []
    model = train_forest(digits, trees=17, seed=5, chunk=6, progress=lambda k, n: seen.append((k, n)))
    whole = RandomForestClassifier(n_estimators=17, random_state=5).fit(digits.X_train, digits.y_train)
    assert np.array_equal(model.predict_proba(digits.X_test), whole.predict_proba(digits.X_test))
    assert seen == [(6, 17), (12, 17), (17, 17)]
    with pytest.raises(ValueError, match="trees=0"):
        train_forest(digits, trees=0)


def test_summaries_count_what_is_there(campaigns, forest):
    records = campaigns["lm-ma-es"]
    s = summarise(records)
    hits = [r for r in records if r.success]
    assert 0 < s.successes == len(hits) < s.images == len(records)
    assert s.rate_low < s.rate < s.rate_high
    assert s.l2 == np.median([r.l2 for r in hits])
    assert confirmed(records, forest.predict_proba) == s.successes
    assert confirmed(records, lambda X: forest.predict_proba(X)[:, ::-1]) < s.successes
    share = success_within(records, [0.0, s.l2, 1e9])
    assert share[0] == 0
    assert share[1] == pytest.approx(s.rate / 2, abs=1 / s.images)
    assert share[2] == s.rate
    assert np.isnan(summarise([]).rate)


def test_intervals_agree_with_published_values():
    # 81 of 263: 0.2553 to 0.3662 (Newcombe 1998, method 3)
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)


def test_pairs_are_compared_image_by_image(campaigns):
    p = pair(campaigns["lm-ma-es"], campaigns["csa-es"][5:])
    assert p.images == len(campaigns["csa-es"]) - 5
    assert p.first_lower + p.second_lower + p.ties == p.images
    q = pair(campaigns["csa-es"][5:], campaigns["lm-ma-es"])
    assert (q.first_lower, q.second_lower) == (p.second_lower, p.first_lower)
    assert pair(campaigns["csa-es"], campaigns["csa-es"]).ties == len(campaigns["csa-es"])


def test_the_gallery_shows_original_difference_and_adversarial(campaigns, digits, tmp_path):
    from lmma.plotting import save
    from lmma_lab.plotting import attack_gallery

    hits = [r for r in campaigns["lm-ma-es"] if r.success][:3]
    originals = {r.image: digits.X_test[r.image] for r in hits}
    figure = attack_gallery(hits, originals, digits.shape, high=16)
    shown = [axes for axes in figure.axes if axes.images]
    assert len(shown) == 9
    for k, record in enumerate(hits):
        pictures = [axes.images[0].get_array().ravel() for axes in shown[3 * k : 3 * k + 3]]
        x0 = originals[record.image].astype(float)
        assert np.allclose(pictures[0], x0)
        assert np.allclose(pictures[1], record.adversarial - x0)
        assert np.allclose(pictures[2], record.adversarial)
        assert f"image {record.image}: {record.label}" in shown[3 * k].get_title()
        assert f"classified as {record.found}" in shown[3 * k + 2].get_title()
    save(figure, tmp_path / "gallery.png")
    assert size_of(tmp_path / "gallery.png") == (round(9.9 * 150), round(3.8 * 150))
    assert len(colours_in(tmp_path / "gallery.png")) > 10  # shades of grey


def test_progress_is_the_median_objective_of_bands_of_common_images(campaigns):
    from lmma_lab.plotting import Bands, attack_progress

    figure = attack_progress(campaigns, bands=Bands((0, 5), size=5, titles=("easy", "hard")))
    above = figure.axes[:2]
    assert [axes.get_title() for axes in above] == ["easy", "hard"]
    first = campaigns["lm-ma-es"]
    order = sorted(first, key=lambda r: (r.start, r.image))
    for axes, band in zip(above, (order[:5], order[5:10]), strict=True):
        curves = [line for line in axes.lines if line.get_label() in campaigns]
        assert [line.get_label() for line in curves] == list(campaigns)
        assert np.array_equal(curves[0].get_ydata(), np.median([r.curve for r in band], axis=0))
        assert curves[0].get_xdata()[-1] == band[0].queries
    few = campaigns | {"csa-es": campaigns["csa-es"][:0]}
    with pytest.raises(ValueError, match="no image in common"):
        attack_progress(few)


def test_success_curves_end_at_the_share_of_successes(campaigns):
    from lmma_lab.plotting import attack_success

    figure = attack_success(campaigns | {"none": []})
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    for name, records in campaigns.items():
        assert lines[name].get_ydata()[-1] == pytest.approx(100 * np.mean([r.success for r in records]))
        reached = sorted(r.l2 for r in records if r.success)
        assert np.allclose(lines[name].get_xdata()[1:-1], reached)
    assert set(lines["none"].get_ydata()) == {0.0}


def test_the_demo_writes_everything_it_promises(tmp_path, capsys):
    out = tmp_path / "out"
    assert (
        main(["attack", *SMALL, "--method", "lm-ma-es,csa-es", "--clip", "--round", "--out", str(out)]) == 0
    )
    shown = capsys.readouterr().out
    for name in ("progress.png", "success.png"):
        assert set(COLOURS[:2]) <= colours_in(out / name)  # two methods
    assert len(colours_in(out / "gallery.png")) > 10
    assert (out / "table.md").read_text().strip() in shown
    assert "12 correctly classified images attacked" in shown
    assert "Confirmed by scikit-learn" in shown
    assert "On 12 common images lm-ma-es reached the lower objective in" in shown
    with (out / "csa-es.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 12
    assert all(row["queries"] == "160" for row in rows)
    page = (out / "index.html").read_text()
    assert page.count("data:image/png;base64,") == 3
    assert "http" not in page  # self-contained
    assert not (out / "ledger.md").exists()  # the paper attacked MNIST


@pytest.fixture
def small_mnist(digits, tmp_path):
    """Return a folder with files named as those of MNIST; the digits in them are smaller and fewer."""
    folder = tmp_path / "mnist"
    folder.mkdir()
    for part, X, y in (("train", digits.X_train, digits.y_train), ("t10k", digits.X_test, digits.y_test)):
        write_idx(folder / f"{part}-images-idx3-ubyte", 15 * X.reshape(-1, 8, 8))
        write_idx(folder / f"{part}-labels-idx1-ubyte", y.astype(np.uint8))
    return folder


def test_attacks_on_mnist_are_checked_by_the_ledger(small_mnist, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["attack", *SMALL, "--data", str(small_mnist), "--trees", "5", "--no-figures", "--out", "a"]
    assert main(words) == 0
    assert "Section 4.2 of the paper: 10 claims: 0 hold, 0 fail, 10 lack data" in capsys.readouterr().out
    data = load_mnist(small_mnist)
    taken_for_mnist = {"digest": fingerprint(data.X_test, data.y_test), "trees": 5, "budget": 160}
    for name, value in taken_for_mnist.items():
        monkeypatch.setitem(PROTOCOL, name, value)
    assert main(words) == 0
    assert "10 claims: 0 hold, 1 fail, 9 lack data" in capsys.readouterr().out
    assert "| forest | A random forest of 1000 trees" in Path("a/ledger.md").read_text()
    assert 'class="verdict fails"' in Path("a/index.html").read_text()
    reproduce = ["reproduce", "figS1", "--dims", "10", "--report-only", "--methods", "lm-ma-es"]
    assert main([*reproduce, "--preset", "smoke", "--out", "r", "--attacks", "a"]) == 0
    judged = Path("r/ledger.csv").read_text()
    assert next(line for line in judged.splitlines() if line.startswith("forest,")).endswith(",fails")
    assert main([*reproduce, "--attacks", "nowhere"]) == 2
    assert "there is no store.sqlite in nowhere" in capsys.readouterr().err


def test_a_saved_model_is_used_again(tmp_path, capsys):
    model = tmp_path / "forest.npz"
    words = ["attack", *SMALL, "--no-figures", "--json", "--model", str(model)]
    assert main([*words, "--out", str(tmp_path / "a")]) == 0
    first = json.loads(capsys.readouterr().out)
    assert main([*words, "--out", str(tmp_path / "b")]) == 0
    second = json.loads(capsys.readouterr().out)
    assert first["by"] == "scikit-learn"
    assert second["by"] == "the second evaluator (NumPy)"
    assert first["summaries"] == second["summaries"]
    assert first["confirmed"]["lm-ma-es"] == first["summaries"]["lm-ma-es"]["successes"]


def test_more_images_extend_what_is_there(tmp_path, digits):
    settings = {"trees": 15, "budget": 64}
    few = run_attack(Settings(images=4, **settings), tmp_path)
    counted = []
    more = run_attack(Settings(images=9, **settings), tmp_path, lambda what, *_: counted.append(what))
    assert (few.attacked, more.attacked) == (4, 9)
    assert counted.count("lm-ma-es") == 1 + 5  # what was there, and five new ones


def test_targeted_sessions_leave_the_wanted_class_out(tmp_path):
    report = run_attack(Settings(images=None, target=3, trees=10, budget=16, threads=2), tmp_path)
    publish(report, tmp_path, figures=False)
    with (tmp_path / "lm-ma-es.csv").open(newline="") as file:
        labels = [row["label"] for row in csv.DictReader(file)]
    assert len(labels) == report.attacked > 400
    assert "3" not in labels


def test_killed_half_way_and_resumed_gives_the_same_table(tmp_path):
    words = [sys.executable, "-m", "lmma", "attack", "--trees", "40", "--images", "40", "--no-figures"]
    words += ["--quiet", "--budget", "300", "--model", str(tmp_path / "forest.npz")]
    environment = os.environ | {"PYTHONPATH": SOURCES, "OPENBLAS_NUM_THREADS": "1"}
    options = {"env": environment, "cwd": tmp_path, "capture_output": True, "text": True, "timeout": 300}
    broken = subprocess.Popen(
        [*words, "--out", "a"], env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL
    )
    done = 0
    while done == 0 and broken.poll() is None:
        time.sleep(0.02)
        if (tmp_path / "a" / "store.sqlite").exists():
            try:
                db = sqlite3.connect(tmp_path / "a" / "store.sqlite")
                done = db.execute("select count(*) from records where kind = 'attack'").fetchone()[0]
                db.close()
            except sqlite3.OperationalError:
                done = 0
    assert broken.poll() is None, "it was over before it could be killed"
    broken.send_signal(signal.SIGKILL)
    broken.wait()
    resumed = subprocess.run([*words, "--out", "a"], **options)
    assert resumed.returncode == 0, resumed.stderr
    unbroken = subprocess.run([*words, "--out", "b"], **options)
    assert (tmp_path / "a" / "table.md").read_text() == (tmp_path / "b" / "table.md").read_text()
    assert (tmp_path / "a" / "lm-ma-es.csv").read_text() == (tmp_path / "b" / "lm-ma-es.csv").read_text()
    assert "40 correctly classified images attacked" in unbroken.stdout


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--data", "nowhere"], "nowhere does not exist"),
        (["--method", "lmma"], "unknown method"),
        (["--images", "0"], "at least 1"),
        (["--images", "many"], "expected a whole number of at least 1"),
        (["--target-class", "11"], "is not one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9"),
        (["--model", "nowhere/forest.npz"], "the folder nowhere is missing"),
        (["--data", "here", "--download"], "cannot be combined with --data"),
        (["--seed", "-1"], "at least 0"),
        (["--sigma0", "-1"], "positive"),
    ],
)
def test_mistakes_are_one_line_and_status_2(words, complaint, tmp_path, capsys):
    quick = ["--trees", "2", "--budget", "16", "--no-figures", "--out", str(tmp_path / "out")]
    assert main(["attack", *quick, *words]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("lmma: ")
    assert complaint in error


def test_a_model_of_other_data_is_rejected(tmp_path, capsys):
    from sklearn.ensemble import RandomForestClassifier

    from lmma_lab.attack import save_forest

    rng = np.random.default_rng(0)
    model = RandomForestClassifier(n_estimators=3).fit(rng.random((50, 4)), rng.integers(0, 2, 50))
    save_forest(compile_forest(model), tmp_path / "m.npz")
    assert main(["attack", "--model", str(tmp_path / "m.npz"), "--out", str(tmp_path / "o")]) == 2
    assert "does not fit digits" in capsys.readouterr().err
    (tmp_path / "m.npz").write_bytes(b"rubbish")
    assert main(["attack", "--model", str(tmp_path / "m.npz"), "--out", str(tmp_path / "o")]) == 2
    assert "m.npz is damaged" in capsys.readouterr().err
