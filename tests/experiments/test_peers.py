"""Other packages' strategies run like ours: same starts, values in order, their own rules to stop."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lmma.experiments import peers
from lmma.experiments.peers import PEERS, Peer
from lmma.experiments.schedule.execute import perform, timeless
from lmma.experiments.tasks import Run, find_method


class Guesses(Peer):
    """A package that proposes random points and remembers what it was told."""

    name, package = "guesses", "numpy"
    enough = broken = False

    def _start(self, seed):
        self.told = []
        return np.random.default_rng(seed)

    def _propose(self):
        return self.mean + self.engine.standard_normal((self.popsize, self.n))

    def _learn(self, candidates, values):
        if self.broken:
            raise AssertionError("negative eigenvalue")
        self.told.append((candidates.copy(), values.copy()))

    def _has_enough(self):
        return self.enough


def test_a_peer_is_told_the_value_of_each_candidate_it_proposed():
    es = Guesses(np.zeros(5), 1.0, rng=3)
    X = es.ask()
    es.tell(np.sum(X**2, axis=1))
    [(candidates, values)] = es.told
    np.testing.assert_array_equal(candidates, X)
    np.testing.assert_array_equal(values, np.sum(X**2, axis=1))
    assert es.best_fun == values.min()
    assert es.evaluations == es.popsize


def test_a_failed_candidate_is_told_as_infinitely_bad():
    es = Guesses(np.zeros(5), 1.0, rng=3)
    X = es.ask()
    values = np.sum(X**2, axis=1)
    values[2] = math.nan
    es.tell(values)
    assert es.told[0][1][2] == math.inf


def test_a_peer_that_breaks_down_has_stopped():
    es = Guesses(np.zeros(5), 1.0, rng=3)
    es.broken = True
    es.tell(np.sum(es.ask() ** 2, axis=1))
    assert list(es.stop()) == ["numerical"]


def test_a_peers_own_rules_count_unless_it_is_told_to_search_on():
    es = Guesses(np.zeros(5), 1.0, rng=3)
    es.tell(np.sum(es.ask() ** 2, axis=1))
    assert es.stop() == {}
    es.enough = True
    assert list(es.stop()) == ["stagnation"]
    es.tolx = 0.0
    assert es.stop() == {}


def test_a_missing_package_is_named_with_what_to_install(monkeypatch):
    monkeypatch.setattr(peers.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="pip install fcmaes"):
        find_method("fcmaes-crfmnes")


def test_the_state_of_a_peer_is_not_ours_to_save():
    with pytest.raises(TypeError, match="inside numpy"):
        Guesses(np.zeros(5), 1.0).get_state()


@pytest.mark.parametrize("name", PEERS)
def test_every_peer_solves_the_sphere_and_the_same_seed_gives_the_same_run(name):
    pytest.importorskip(PEERS[name].package, reason=f"{PEERS[name].package}, a peer, is not installed")
    task = Run("sphere", name, 10, 101, 20_000, target=1e-8)
    record = perform(task)
    assert record["success"]
    assert PEERS[name].package in record["versions"]
    assert timeless(perform(task)) == timeless(record)
