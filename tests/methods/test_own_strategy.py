"""A user-defined strategy with three methods, wherever a method can be named."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lmma
from lmma.methods import strategy_class
from lmma.methods.registry import METHODS, _registered
from lmma.testing import check_strategy

SOURCE = Path(__file__).resolve().parents[2] / "src"
MINE = '''
import numpy as np
import lmma


class MyES(lmma.Strategy):
    """Moves to the mean of the best quarter; steps grow while it moves further than chance would."""

    def _sample(self, out):
        self.z = self.generator().standard_normal(out.shape, dtype=self.dtype)
        out[...] = self.mean + self.steps * self.z

    def _update(self, order, values):
        best = self.z[order[: max(1, self.popsize // 4)]]
        step = best.mean(axis=0)
        self.mean += self.steps * step
        self.sigma *= np.exp(0.3 * (len(best) * np.mean(step**2) - 1))

    @classmethod
    def memory(cls, n, popsize, itemsize=8):
        return 4 * popsize * n * itemsize


class Incomplete(lmma.Strategy):
    def _sample(self, out):
        out[...] = 0


class Rated(MyES):
    """Takes an option of its own."""

    STATE = ("seen",)

    def __init__(self, x0, sigma0, *, rate=0.3, **common):
        super().__init__(x0, sigma0, **common)
        self.rate, self.seen = rate, 0

    def _update(self, order, values):
        super()._update(order, values)
        self.seen += len(order)


number = 3
'''


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("mine", None)
    import mine

    yield mine
    sys.modules.pop("mine", None)


def sphere(x):
    return float(x @ x)


def test_it_keeps_the_contract(module):
    check_strategy("mine:MyES")
    check_strategy(module.Rated)


@pytest.mark.parametrize("given", ["class", "mine:MyES"])
def test_minimize_takes_it(module, given):
    method = module.MyES if given == "class" else given
    result = lmma.minimize(sphere, np.full(5, 3.0), 1.0, method=method, rng=1)
    assert result.success
    assert result.fun < 1e-14
    assert result.method == "MyES"
    assert result.reason in ("tolx", "tolfun")


def test_minimize_gives_the_run_of_ask_and_tell_with_bounds_restarts_and_a_pool(module):
    options = {"method": module.MyES, "rng": 1, "maxiter": 40, "bounds": [-1.0, 4.0]}
    result = lmma.minimize(sphere, np.full(5, 3.0), 1.0, **options)
    es = lmma.strategy("mine:MyES", np.full(5, 3.0), 1.0, rng=1, bounds=[-1.0, 4.0])
    for _ in range(40):
        es.tell([sphere(x) for x in es.ask()])
    np.testing.assert_array_equal(es.best_x, result.x)
    pooled = lmma.minimize(sphere, np.full(5, 3.0), 1.0, workers=2, **options)
    np.testing.assert_array_equal(pooled.x, result.x)
    again = lmma.minimize(
        sphere, np.full(5, 3.0), 1.0, method=module.MyES, rng=1, tolx=0.1, restarts=2, maxfevals=4000
    )
    assert len({run.popsize for run in again.runs}) == 3


def test_a_checkpoint_resumes_bit_for_bit(module, tmp_path):
    def run(**options):
        return lmma.minimize(sphere, np.full(5, 3.0), 1.0, method="mine:Rated", rng=1, tolx=0, **options)

    unbroken = run(maxiter=50)
    run(maxiter=20, checkpoint=tmp_path / "run.ckpt")
    resumed = run(maxiter=50, checkpoint=tmp_path / "run.ckpt")
    np.testing.assert_array_equal(resumed.x, unbroken.x)
    assert resumed.nfev == unbroken.nfev


def command(folder, *words):
    """Run ``lmma`` as installed: -P keeps the current directory out of sys.path."""
    known = os.environ.get("PYTHONPATH")
    return subprocess.run(
        [sys.executable, "-P", "-m", "lmma", *words], cwd=folder, timeout=300, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(SOURCE), *([known] if known else [])])},
    )  # fmt: skip


def test_the_command_line_minimises_with_it(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    words = ("minimize", "sphere", "--dim", "5", "--method", "mine:MyES", "--seed", "1", "--json")
    done = command(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["method"] == "MyES"
    assert told["fun"] <= 1e-10


@pytest.mark.parametrize(
    ("method", "error", "words"),
    [
        ("mine:MyEs", ValueError, "did you mean 'MyES'"),
        ("mine:number", ValueError, "not a strategy"),
        ("mine:Incomplete", ValueError, "must define _update, memory"),
        ("no_such_module:MyES", ValueError, "cannot import 'no_such_module'"),
        ("lm-ma-ess", ValueError, "did you mean 'lm-ma-es'"),
        (":MyES", ValueError, "cannot import ''"),
        (int, TypeError, "not a strategy"),
        (3, TypeError, "not a strategy"),
        (None, TypeError, "not a strategy"),
    ],
)
def test_an_object_that_is_not_a_strategy_is_rejected_with_a_message(module, method, error, words):
    with pytest.raises(error, match=words):
        strategy_class(method)


def test_names_are_in_the_order_of_the_paper_and_registered_ones_follow(module):
    assert lmma.methods()[:3] == ["cma-es", "ma-es", "lm-ma-es"]
    assert [strategy_class(name).name for name in METHODS] == list(METHODS)
    try:
        assert lmma.register("mine")(module.MyES) is module.MyES
        assert lmma.methods() == [*METHODS, "mine"]
        assert repr(lmma.strategy("mine", [1.0, 2.0], 0.5)).startswith("<mine: n=2, generation=0")
    finally:
        _registered.clear()
    with pytest.raises(ValueError, match="choose another name"):
        lmma.register("lm-ma-es")


def test_options_are_kept_known_and_misspelt_ones_rejected(module):
    es = module.Rated(np.ones(3), 0.5, rate=0.1, tolx=1e-3)
    assert es.options == {"rate": 0.1}
    assert module.MyES(np.ones(3), 0.5).options == {}
    assert lmma.LMMAES(np.ones(3), 0.5, m=2, rng=1).options == {"m": 2}
    assert module.Rated.known_options() == ("rate",)
    assert {"m", "c_d", "mu", "weights"} <= set(lmma.LMMAES.known_options())
    for make in (module.Rated, module.MyES, lmma.LMMAES):
        with pytest.raises(TypeError, match="did you mean 'popsize'"):
            make(np.ones(3), 0.5, popsise=4)
    with pytest.raises(TypeError, match="did you mean 'rate'"):
        lmma.minimize(sphere, np.ones(3), 0.5, method=module.Rated, ratee=1)


def test_state_adds_up_over_base_classes_and_wrong_names_are_rejected(module):
    es = module.Rated(np.ones(3), 0.5, rng=1)
    assert {"mean", "own.seen"} <= set(es.get_state())
    with pytest.raises(TypeError, match="tuple of attribute names"):
        type("Wrong", (module.MyES,), {"STATE": "path"})
    missing = type("Missing", (module.MyES,), {"STATE": ("path",)})
    with pytest.raises(TypeError, match="'path', but this attribute does not exist"):
        missing(np.ones(3), 0.5).get_state()
    odd = type("Odd", (module.MyES,), {"STATE": ("z",), "z": "text"})
    with pytest.raises(TypeError, match="arrays and numbers"):
        odd(np.ones(3), 0.5).get_state()


def test_the_generator_is_a_function_of_key_generation_and_stream(module):
    a, b = (module.MyES(np.ones(3), 0.5, rng=1) for _ in range(2))

    def drawn(es, stream=0):
        return es.generator(stream).standard_normal(4).tolist()

    assert drawn(a) == drawn(a) == drawn(b)
    assert drawn(a) != drawn(a, stream=1)
    for es in (a, b):
        es.tell(np.arange(len(es.ask())))
    assert drawn(a) == drawn(b)
    assert drawn(a) not in (drawn(module.MyES(np.ones(3), 0.5, rng=1)), drawn(a, stream=1))
    ours = lmma.CSAES(np.zeros(4), 1.0, rng=1)
    assert not np.isin(ours.ask(), drawn(ours)).any()


def test_the_spread_is_the_step_of_a_typical_candidate(module):
    es = module.MyES(np.ones(4000), 0.5, rng=1)
    steps = es.sigma
    es.tell(np.arange(len(es.ask())))
    assert es.spread == pytest.approx(steps, rel=0.05)  # 4000 times 27 numbers: a standard error of 0.2%
    es = module.MyES(np.ones(4), 0.5, rng=1, tolfun=0)
    while not es.stop() and es.generation < 5000:
        es.tell(np.sum(es.ask() ** 2, axis=1))
    assert list(es.stop()) == ["tolx"]
    assert es.stop()["tolx"] == es.spread < 1e-11


def test_injected_points_stay_in_the_state_until_they_are_evaluated():
    es = lmma.LMMAES(np.ones(4), 0.5, rng=1, popsize=6)
    points = np.arange(32.0).reshape(8, 4)
    es.inject(points)
    np.testing.assert_array_equal(es.injected, points)
    es.ask()
    other = lmma.LMMAES(np.ones(4), 0.5, rng=2, popsize=6)
    other.set_state(es.get_state())
    np.testing.assert_array_equal(other.ask(), es.candidates)
    for strategy in (es, other):
        strategy.tell(np.arange(6.0))
        np.testing.assert_array_equal(strategy.injected, points[6:])
        np.testing.assert_array_equal(strategy.ask()[-2:], points[6:])


@pytest.mark.parametrize("rng", [(1, 2, 3), (1.0, 2), (True, 2), (-1, 2), (2**64, 0)])
def test_a_key_is_two_words_of_64_bits(rng):
    with pytest.raises((TypeError, ValueError), match="rng as a key must be two"):
        lmma.LMMAES(np.ones(4), 0.5, rng=rng)


def test_every_restart_of_vd_cma_es_draws_a_direction_of_its_own():
    directions = [
        lmma.VDCMAES(np.ones(4), 0.5, rng=(7, word)).method.transform.direction for word in range(3)
    ]
    assert len({direction.tobytes() for direction in directions}) == 3
