"""LmmaSampler in real studies of Optuna; skipped if it is not installed."""

import math
import pickle
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import lmma

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of Optuna's own
    optuna = pytest.importorskip("optuna", reason="optuna is not installed: pip install 'lmma[optuna]'")

from lmma.integrations.optuna import LmmaSampler

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
optuna.logging.set_verbosity(optuna.logging.ERROR)
FLOATS = {f"x{i}": optuna.distributions.FloatDistribution(-5, 5) for i in range(5)}
PENALTY = {"a": 1.0, "b": 0.0, None: 2.0}


def sphere(trial):
    return sum((trial.suggest_float(f"x{i}", -5, 5) - 1) ** 2 for i in range(5))


def mixed(trial):
    x = [trial.suggest_float(f"x{i}", -5, 5) for i in range(4)]
    rate = math.log10(trial.suggest_float("rate", 1e-5, 1, log=True))
    k = trial.suggest_int("k", 1, 20)
    kind = PENALTY[trial.suggest_categorical("kind", list(PENALTY))]
    return sum((v - 1) ** 2 for v in x) + (rate + 3) ** 2 + 0.1 * (k - 7) ** 2 + kind


def study_of(sampler, **options):
    return optuna.create_study(sampler=sampler, study_name="fixed", **options)


def points(study):
    return [trial.params for trial in study.trials]


def test_trials_are_the_candidates_of_the_strategy():
    study = study_of(LmmaSampler(FLOATS, method="lm-ma-es", seed=1, popsize=8))
    study.optimize(sphere, n_trials=80)
    box, rng = [(0.0, 1.0)] * 5, np.random.SeedSequence([1, 0])
    es = lmma.strategy("lm-ma-es", np.full(5, 0.5), 1 / 6, popsize=8, bounds=box, rng=rng)
    for generation in range(10):
        X = -5 + 10 * es.ask()
        trials = study.trials[8 * generation : 8 * generation + 8]
        assert [[t.params[f"x{i}"] for i in range(5)] for t in trials] == X.tolist()
        es.tell([t.value for t in trials])


def test_maximising_mirrors_minimising():
    low = study_of(LmmaSampler(FLOATS, seed=1))
    low.optimize(sphere, n_trials=60)
    high = study_of(LmmaSampler(FLOATS, seed=1), direction="maximize")
    high.optimize(lambda trial: -sphere(trial), n_trials=60)
    assert points(high) == points(low)


def test_all_kinds_of_parameters_beat_random_sampling():
    found = study_of(LmmaSampler(seed=1))
    found.optimize(mixed, n_trials=400)
    random = study_of(optuna.samplers.RandomSampler(seed=1))
    random.optimize(mixed, n_trials=400)
    assert found.best_value < 0.2 < random.best_value
    assert found.best_params["kind"] == "b"
    assert found.best_params["k"] == 7


def test_a_trial_remembers_two_integers_and_nothing_else():
    study = study_of(LmmaSampler(FLOATS, seed=1, popsize=8))
    study.optimize(sphere, n_trials=20)
    noted = [next(v for k, v in t.system_attrs.items() if k.startswith("lmma:")) for t in study.trials]
    assert noted == [[number // 8, number % 8] for number in range(20)]
    assert all(len(t.system_attrs) == 1 for t in study.trials)
    assert study.user_attrs == {}


def test_a_study_continued_in_another_process_has_the_same_trials(tmp_path):
    whole = study_of(LmmaSampler(FLOATS, seed=1))
    whole.optimize(sphere, n_trials=60)
    storage = f"sqlite:///{tmp_path}/study.db"
    study_of(LmmaSampler(FLOATS, seed=1), storage=storage).optimize(sphere, n_trials=25)
    again = optuna.load_study(study_name="fixed", storage=storage, sampler=LmmaSampler(FLOATS, seed=1))
    again.optimize(sphere, n_trials=35)
    assert points(again) == points(whole)
    sampler = pickle.loads(pickle.dumps(again.sampler))
    assert "\n" not in repr(sampler)


def test_failed_and_pruned_trials_and_dead_ones_do_not_stop_it():
    study = study_of(LmmaSampler(FLOATS, seed=1))
    for number in range(300):
        trial = study.ask()
        value = sphere(trial)
        if number % 11 == 3:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        elif number % 11 == 5:
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        elif number % 11 != 7:  # those stay behind as if their process had died
            study.tell(trial, value)
    random = study_of(optuna.samplers.RandomSampler(seed=1))
    random.optimize(sphere, n_trials=300)
    assert study.best_value < random.best_value / 10


def test_threads_share_a_sampler():
    study = study_of(LmmaSampler(FLOATS, seed=1))
    study.optimize(sphere, n_trials=200, n_jobs=4)
    noted = [tuple(next(iter(t.system_attrs.values()))) for t in study.trials]
    assert len(set(noted)) == 200
    assert study.best_value < 0.1


WORKER = """
import sys, warnings
warnings.simplefilter("ignore")
import optuna
sys.path.insert(0, sys.argv[1])
from test_optuna_sampler import FLOATS, LmmaSampler, sphere
study = optuna.load_study(study_name="fixed", storage=sys.argv[2], sampler=LmmaSampler(FLOATS, seed=1))
study.optimize(sphere, n_trials=50)
"""


def test_processes_share_a_study(tmp_path, environment):
    storage = f"sqlite:///{tmp_path}/study.db"
    study = study_of(LmmaSampler(FLOATS, seed=1), storage=storage)
    here = str(Path(__file__).parent)
    command = [sys.executable, "-W", "ignore", "-c", WORKER, here, storage]
    quiet = environment | {"PYTHONWARNINGS": "ignore"}
    workers = [subprocess.Popen(command, env=quiet, cwd=tmp_path) for _ in range(3)]
    assert [worker.wait(300) for worker in workers] == [0, 0, 0]
    assert len(study.trials) == 150
    assert study.best_value < 1.0
    generations = [next(iter(t.system_attrs.values()))[0] for t in study.trials]
    assert max(generations) >= 10  # of 8 each
    assert len({tuple(sorted(t.params.items())) for t in study.trials}) == 150


@pytest.mark.parametrize("rivals", [1, 4])
def test_processes_that_ask_at_the_same_moment_get_different_candidates(rivals, monkeypatch):
    storage = optuna.storages.InMemoryStorage()
    study = study_of(LmmaSampler(FLOATS, seed=1, popsize=8), storage=storage)
    others = [
        optuna.load_study(study_name="fixed", storage=storage, sampler=LmmaSampler(FLOATS, seed=1, popsize=8))
        for _ in range(rivals)
    ]
    store = storage.set_trial_system_attr

    def meanwhile(*words):  # each has chosen its candidate when the next one asks
        if others:
            sphere(others.pop().ask())
        store(*words)

    monkeypatch.setattr(storage, "set_trial_system_attr", meanwhile)
    sphere(study.ask())
    noted = [tuple(next(iter(t.system_attrs.values()))) for t in study.trials]
    assert len(set(noted)) == len({tuple(t.params.values()) for t in study.trials}) == rivals + 1
    assert {generation for generation, _ in noted} == {0}


def test_start_and_step_are_where_they_were_asked_for():
    start = {f"x{i}": 4.0 for i in range(5)}
    study = study_of(LmmaSampler(FLOATS, seed=1, x0=start, sigma0=1e-4))
    study.optimize(sphere, n_trials=8)
    # 1e-4 of a width of 10: eight times five normal numbers stay below 5 sigma
    assert all(abs(v - 4.0) < 5e-3 for params in points(study) for v in params.values())
    steps = study_of(LmmaSampler(FLOATS, seed=1, x0=start, sigma0={"x0": 1e-6}))
    steps.optimize(sphere, n_trials=8)
    assert all(abs(params["x0"] - 4.0) < 5e-5 for params in points(steps))
    assert max(abs(params["x1"] - 4.0) for params in points(steps)) > 0.01


def test_restarts_are_noted_on_the_study():
    study = study_of(LmmaSampler(FLOATS, seed=1, restarts=1, popsize=6))
    study.optimize(lambda trial: round(sphere(trial)) * 0.0, n_trials=6 * 152)  # flat for 150 generations
    assert study.user_attrs == {"lmma:restarts": ["flat"]}


def test_enqueued_trials_are_taken_as_they_are():
    study = study_of(LmmaSampler(FLOATS, seed=1))
    study.enqueue_trial({f"x{i}": 1.0 for i in range(5)})
    study.optimize(sphere, n_trials=10)
    assert study.trials[0].value == 0.0
    assert study.trials[0].params == {f"x{i}": 1.0 for i in range(5)}


def test_unsupported_features_are_reported():
    with pytest.raises(ValueError, match="restarts must be"):
        LmmaSampler(restarts=-1)
    with pytest.raises(ValueError, match="lm-ma"):
        LmmaSampler(method="lm-ma")
    several = optuna.create_study(sampler=LmmaSampler(FLOATS), directions=["minimize", "minimize"])
    with pytest.raises(ValueError, match="single objective"):
        several.ask().suggest_float("x0", -5, 5)
    outside = study_of(LmmaSampler(FLOATS, x0={"x0": 77.0}))
    with pytest.raises(ValueError, match="x0\\['x0'\\]"):
        outside.ask().suggest_float("x0", -5, 5)


def test_the_cost_of_a_trial_does_not_grow_with_the_study():
    study = study_of(LmmaSampler(FLOATS, seed=1, popsize=8))
    study.optimize(sphere, n_trials=400)
    (known,) = study.sampler._searches.values()
    assert len(study.trials) - known.processed <= 16  # of this generation and the one before are looked at


def test_thousands_of_parameters():
    count = 2000
    floats = {f"x{i}": optuna.distributions.FloatDistribution(-5, 5) for i in range(count)}
    study = study_of(LmmaSampler(floats, seed=1, popsize=4))
    for _ in range(6):  # what the sampler does; that Optuna notes each parameter apart is its own time
        trial = study.ask()
        assert trial.relative_params.keys() == floats.keys()
        study.tell(trial, sum((v - 1) ** 2 for v in trial.relative_params.values()))
    assert [next(iter(t.system_attrs.values())) for t in study.trials][-1] == [1, 1]
    assert all(len(t.system_attrs) == 1 for t in study.trials)


@pytest.mark.skipif(
    not hasattr(optuna.trial.Trial, "set_constraint"), reason="this Optuna's trials take no constraints"
)
def test_constraints_of_trials_are_kept():
    def objective(trial):
        x = [trial.suggest_float(f"x{i}", -5, 5) for i in range(5)]
        trial.set_constraint("sum", 1.0 - sum(x))  # x is to sum to 1 or more
        return sum(v**2 for v in x)

    study = study_of(LmmaSampler(FLOATS, seed=1))
    study.optimize(objective, n_trials=600)
    sums = [(t.value, sum(t.params.values())) for t in study.trials]
    best = min(value for value, total in sums if total >= 1.0)
    assert best < 0.25  # 0.2 at x = 0.2 everywhere; the unconstrained optimum is 0
    assert sum(total >= 1.0 for _, total in sums[-200:]) > 60  # it stays about the edge and does not leave


WORKER_OF_FOUR = """
import sys, warnings
warnings.simplefilter("ignore")
import optuna
sys.path.insert(0, sys.argv[1])
from test_optuna_sampler import FLOATS, LmmaSampler, sphere
study = optuna.load_study(study_name="fixed", storage=sys.argv[2], sampler=LmmaSampler(FLOATS, seed=1))
study.optimize(sphere)
"""


def replayed(study):
    """Return trials by the attribute they note, and the same candidates from values alone."""
    from lmma.integrations.hosts import OneByOne, Outcome

    sampler = LmmaSampler(FLOATS, seed=1)
    label = next(k for t in study.trials for k in t.system_attrs if k.startswith("lmma:"))
    known = sampler._search(study, label, FLOATS)
    search, space = OneByOne(known.search.make_strategy), known.space
    trials = [t for t in study.trials if label in t.system_attrs]
    trials.sort(key=lambda t: (t.datetime_complete is None, t.datetime_complete or 0, t.number))
    outcomes = [Outcome(*t.system_attrs[label], t.value if t.state.is_finished() else None) for t in trials]
    for trial in sorted(trials, key=lambda t: t.system_attrs[label][0]):
        generation, number = trial.system_attrs[label]
        x = search.repeat([o for o in outcomes if o.generation < generation], generation, number)
        yield trial, space.values(x)


def test_four_processes_killed_and_started_again_make_the_candidates_of_one_search(tmp_path, environment):
    storage = f"sqlite:///{tmp_path}/study.db"
    study = study_of(LmmaSampler(FLOATS, seed=1), storage=storage)
    here = str(Path(__file__).parent)
    command = [sys.executable, "-W", "ignore", "-c", WORKER_OF_FOUR, here, storage]
    for enough in (40, 80):
        workers = [
            subprocess.Popen(command, env=environment | {"PYTHONWARNINGS": "ignore"}, cwd=tmp_path,
                             stderr=subprocess.DEVNULL)
            for _ in range(4)
        ]  # fmt: skip
        try:
            while sum(t.state.is_finished() for t in study.get_trials(deepcopy=False)) < enough:
                assert all(worker.poll() is None for worker in workers)
                time.sleep(0.1)
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
    again = list(replayed(study))
    assert len(again) >= 80
    for trial, params in again:
        assert {name: params[name] for name in trial.params} == trial.params


KILLED = """
import os, signal, sys, warnings
warnings.simplefilter("ignore")
import optuna
sys.path.insert(0, sys.argv[1])
from test_optuna_sampler import FLOATS, LmmaSampler, kept, sphere

def killed(trial):
    value = sphere(trial)
    if trial.number == 21:
        os.kill(os.getpid(), signal.SIGKILL)
    return value

study = optuna.load_study(study_name="fixed", storage=kept(sys.argv[2]), sampler=LmmaSampler(FLOATS, seed=1))
study.optimize(killed)
"""


def kept(url):
    """Return a storage that has trials of dead processes tried again."""
    retry = getattr(optuna.storages, "RetryHeartbeatStaleTrialCallback", None)
    if retry is None:
        pytest.skip("this Optuna calls it otherwise")
    return optuna.storages.RDBStorage(
        url, heartbeat_interval=1, grace_period=2, heartbeat_stale_trial_callback=retry()
    )


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_study_that_tries_again_has_the_trials_of_an_unbroken_one(tmp_path, environment):
    whole = study_of(LmmaSampler(FLOATS, seed=1))
    whole.optimize(sphere, n_trials=60)
    url = f"sqlite:///{tmp_path}/study.db"
    study_of(LmmaSampler(FLOATS, seed=1), storage=kept(url))
    command = [sys.executable, "-W", "ignore", "-c", KILLED, str(Path(__file__).parent), url]
    died = subprocess.run(command, env=environment | {"PYTHONWARNINGS": "ignore"}, cwd=tmp_path)
    assert died.returncode == -signal.SIGKILL
    again = optuna.load_study(study_name="fixed", storage=kept(url), sampler=LmmaSampler(FLOATS, seed=1))
    time.sleep(4)  # until it counts as dead
    again.optimize(sphere, n_trials=39)
    done = [t.params for t in again.trials if t.state == optuna.trial.TrialState.COMPLETE]
    assert len(done) == 60
    assert done == points(whole)
