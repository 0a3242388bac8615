"""Results as text, tables and figures; public objects can be pickled."""

import copy
import pickle
from concurrent.futures import ProcessPoolExecutor
from html.parser import HTMLParser
from multiprocessing import get_context

import numpy as np
import pytest

import lmma
from lmma import problems
from lmma.run.result import LINES, RunResult


def sphere(x):
    return float(x @ x)


def solved(n):
    return lmma.minimize(sphere, np.ones(n), 0.5, rng=1, maxfevals=100, history=True)


@pytest.fixture(scope="module")
def result():
    return solved(6)


def test_print_takes_at_most_25_lines_whatever_it_holds(result):
    big = copy.deepcopy(result)
    big["message"] = "first\n" * 1000
    big["history"] = {name: list(range(10_000)) for name in result.history}
    big["x"] = np.arange(1e6)
    big["warnings"] = ["a\nb" * 100] * 50
    big["runs"] = result.runs * 1000
    for number in range(100):
        big[f"mine{number}"] = {"long": "\n" * 1000}
    for each in (result, big, RunResult(), RunResult(x=np.ones(2))):
        lines = str(each).splitlines()
        assert len(lines) <= LINES == 25
        assert all(len(line) <= 130 for line in lines)
        assert "\n" not in repr(each)
        assert len(repr(each)) < 160
    assert "list(result)" in str(big).splitlines()[-1]


def test_print_shows_what_people_look_for(result):
    said = dict(line.strip().split(": ", 1) for line in str(result).splitlines())
    assert said["message"] == result.message
    assert said["nfev"] == str(result.nfev)
    assert float(said["fun"]) == pytest.approx(result.fun, rel=1e-9)
    assert said["reason"] == "maxfevals"
    assert set(result) == {*said, "noise"}  # noise only where it was found


def test_it_is_scipys_result(result):
    import scipy.optimize

    assert isinstance(result, scipy.optimize.OptimizeResult)
    assert result["fun"] == result.fun
    assert {"plot", "save", "x", "message"} <= set(dir(result))
    with pytest.raises(AttributeError):
        result.nothing  # noqa: B018


def test_a_notebook_shows_a_table_in_which_nothing_can_run(result):
    hostile = RunResult(
        result, message="<script>alert(1)</script>", **{"<img src=x onerror=alert(1)>": "<b>"}
    )

    class Tags(HTMLParser):
        seen = None

        def handle_starttag(self, tag, attrs):
            self.seen = {*(self.seen or ()), tag}

    parser = Tags()
    parser.feed(hostile._repr_html_())
    assert parser.seen == {"table", "tr", "th", "td"}


def test_a_figure_of_the_history(result):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    figure = result.plot(target=1e-3)
    above, below = figure.axes
    assert above.lines[0].get_ydata()[-1] == result.fun
    assert below.lines[0].get_ydata()[-1] == result.sigma
    assert figure.get_suptitle() == f"{result.method}, n = 6"


def test_without_a_history_the_figure_says_what_to_do():
    with pytest.raises(ValueError, match="history=True"):
        RunResult(x=np.ones(2)).plot()


def public(tmp_path):
    found = solved(6)
    es = lmma.strategy("lm-ma-es", np.ones(4), 0.5, rng=1)
    es.tell(np.sum(es.ask() ** 2, axis=1))
    return {
        "result": found, "learned": found.learned, "metric": found.hess_inv, "single run": found.runs[0],
        "strategy's result": es.result, "checkpoint error": lmma.CheckpointError("damaged"),
        "cluster error": lmma.ClusterError("lost"), "evaluation error": lmma.EvaluationError("failed"),
        "IPOP": lmma.IPOP(3), "BIPOP": lmma.BIPOP(3), "plan": lmma.restarts.Plan(1, 10),
        "checkpoint": lmma.Checkpoint(tmp_path / "run.npz", extra={"words": ["long"] * 1000}),
        "replicated": lmma.Replicated("dask://" + "long" * 100 + ":8786"),
        "box": lmma.bounds.box([0.0, 1.0], np.full(500, 0.5)),
        **{f"problem {name}": problems.get(name) for name in problems.names()},
        **{f"strategy {name}": lmma.strategy(name, np.ones(200), 0.5) for name in lmma.methods()},
    }  # fmt: skip


def test_every_public_object_pickles_and_copies_and_has_a_repr_of_one_line(tmp_path):
    for name, each in public(tmp_path).items():
        for again in (pickle.loads(pickle.dumps(each)), copy.deepcopy(each)):
            assert type(again) is type(each), name
            if name != "strategy's result" and name != "box":  # SciPy's own; the object's address
                assert repr(again) == repr(each), name
                assert "\n" not in repr(each), name
                assert len(repr(each)) <= 200, name


def test_a_result_goes_through_another_process():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        there = pool.submit(solved, 6).result()
    here = solved(6)
    assert np.array_equal(there.x, here.x)
    assert repr(there) == repr(here)


def test_the_line_of_a_result_counts_the_variables_of_a_space():
    space = lmma.Space(a=lmma.Real(0, 2), b=lmma.Real(0, 1, shape=3))
    result = lmma.minimize(lambda a, b: a**2 + float(b @ b), space, rng=1, maxfevals=60)
    assert "(n=4)" in repr(result)


def test_noise_is_printed_in_three_digits():
    noise = {"quality": 0.123456, "found": True, "rate": 0.05}
    assert "noise: quality 0.123, found True, rate 0.05" in str(RunResult(x=np.ones(2), noise=noise))
