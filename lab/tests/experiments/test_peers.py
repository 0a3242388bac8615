"""Strategies of other packages: same starts, values in order, and their own stopping rules."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lmma_lab.peers import ADAPTORS, PEERS, Adaptor, Peer, peer
from lmma_lab.schedule.execute import perform, timeless
from lmma_lab.tasks import Solve, find_method


class Guessing(Adaptor):
    """A package that proposes random points and remembers what it was told."""

    package = "numpy"
    enough = broken = False

    def _start(self, mean, sigma, seed):
        self.mean, self.seed, self.told = mean, seed, []
        return np.random.default_rng(seed)

    def propose(self):
        return self.mean + self.engine.standard_normal((self.popsize, self.n))

    def learn(self, rows, values):
        if self.broken:
            raise AssertionError("negative eigenvalue")
        self.told.append((rows.copy(), values.copy()))

    def should_stop(self):
        return self.enough


class Guesses(Peer):
    name, adaptor = "guesses", Guessing


def sphere(X):
    return np.sum(X**2, axis=1)


def test_a_peer_receives_the_value_of_each_candidate_it_proposed():
    es = Guesses(np.zeros(5), 1.0, rng=3)
    X = es.ask()
    es.tell(sphere(X))
    [(candidates, values)] = es._peer.told
    np.testing.assert_array_equal(candidates, X)
    np.testing.assert_array_equal(values, sphere(X))
    assert es.best_fun == values.min()
    assert es.evaluations == es.popsize
    assert es.generation == 1


def test_a_failed_candidate_is_passed_to_the_peer_as_infinity():
    es = Guesses(np.zeros(5), 1.0, rng=3)
    values = sphere(es.ask())
    values[2] = math.nan
    es.tell(values)
    assert es._peer.told[0][1][2] == math.inf


def test_a_peer_that_breaks_down_has_stopped():
    es = Guesses(np.zeros(5), 1.0, rng=3)
    X = es.ask()
    es._peer.broken = True
    es.tell(sphere(X))
    assert list(es.stop()) == ["numerical"]


def test_stopping_rules_of_a_peer_apply_unless_they_are_disabled():
    es = Guesses(np.zeros(5), 1.0, rng=3)
    es.tell(sphere(es.ask()))
    assert es.stop() == {}
    es._peer.enough = True
    assert list(es.stop()) == ["stagnation"]
    es.convergence.tolx = 0.0
    assert es.stop() == {}


def test_every_restart_of_a_peer_draws_other_numbers(monkeypatch):
    import lmma

    seeds = []
    start = Guessing._start
    monkeypatch.setattr(
        Guessing, "_start", lambda self, *given: seeds.append(given[2]) or start(self, *given)
    )
    monkeypatch.setattr(Guessing, "enough", True)
    monkeypatch.setitem(PEERS, "guesses", Guesses)
    monkeypatch.setitem(ADAPTORS, "guesses", Guessing)
    method = find_method("guesses", 5)
    lmma.minimize(sphere, np.zeros(5), 1.0, method=method, rng=1, vectorized=True, restarts=2)
    assert len(seeds) == len(set(seeds)) == 3


def test_a_missing_package_is_named_with_what_to_install(monkeypatch):
    monkeypatch.setattr(peer.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="pip install fcmaes"):
        find_method("fcmaes-crfmnes", 5)


def test_the_state_of_a_peer_is_not_ours_to_save():
    with pytest.raises(TypeError, match="inside numpy"):
        Guesses(np.zeros(5), 1.0).get_state()


@pytest.fixture(params=ADAPTORS)
def installed(request):
    package = ADAPTORS[request.param].package
    pytest.importorskip(package, reason=f"{package}, a peer, is not installed")
    try:
        ADAPTORS[request.param](np.zeros(20), 1.0, 12, 1)
    except RuntimeError as error:
        pytest.skip(str(error))
    return request.param


@pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning")  # cmaes, before NumPy 2.4
def test_every_peer_solves_the_sphere_and_the_same_seed_gives_the_same_run(installed):
    task = Solve("sphere", installed, 20, 101, 40_000, target=1e-6)  # evosax computes in float32
    record = perform(task)
    assert record["success"]
    assert ADAPTORS[installed].package in record["versions"]
    assert timeless(perform(task)) == timeless(record)


@pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning")
def test_every_peer_can_be_timed(installed):
    from lmma_lab.timing.generations import peer as timed

    step = timed(installed, 40)
    step()
    step()
    assert ADAPTORS[installed].full_matrix == (timed(installed, 1025) is None)
