"""Policies trained in real environments of Gymnasium; skipped if it is not installed."""

# ruff: noqa: E402 (what needs Gymnasium is imported once it is known to be there)

import subprocess
import sys

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed: pip install 'lmma[rl]'")

import small_environments
from lmma.cluster import Replicated
from lmma.integrations.gymnasium import Policy, evaluate_policy, load_policy, train
from lmma.integrations.gymnasium.environments import Environment, spaces_of
from lmma.integrations.gymnasium.episodes import Episodes, Moments
from lmma.integrations.gymnasium.policies import Network, hidden_layers
from lmma.run.checkpoint import Checkpoint
from small_environments import REACH

QUICK = {"rng": 1, "test_episodes": 20}


def reach(**options):
    return train(REACH, **{**QUICK, "maxfevals": 120, **options})


def same(one, other):
    """Return whether two trainings came to the same end, bit for bit."""
    curves = [{k: v for k, v in result.curve.items() if k != "seconds"} for result in (one, other)]
    pairs = [
        (getattr(one.policy, name), getattr(other.policy, name)) for name in ("weights", "mean", "scale")
    ]
    return (
        all(np.array_equal(a, b) for a, b in pairs)
        and curves[0] == curves[1]
        and np.array_equal(one.rewards, other.rewards)
        and (one.episodes, one.steps, one.tested) == (other.episodes, other.steps, other.tested)
    )


def episodes_of(env, policy="linear", count=1):
    environment = Environment(env)
    inputs, actions = spaces_of(environment)
    return Episodes(environment, Network(inputs, hidden_layers(policy), actions.outputs), actions, count)


def random_rows(episodes, k, seed=77):
    rng = np.random.default_rng(1)
    inputs = episodes.network.inputs
    normal = rng.standard_normal(inputs), rng.uniform(0.5, 2.0, inputs)
    return episodes.layout.rows(rng.standard_normal((k, episodes.network.n)), normal, seed)


# What is learned


def test_cartpole_is_solved_by_the_mean_policy():
    result = train("CartPole-v1", rng=1, maxfevals=1000)
    assert result.solved
    assert result.threshold == 475.0  # the environment's own
    assert result.reward >= 475.0
    assert len(result.rewards) == 100
    assert "Solved" in result.message
    assert result.result.reason == "solved"
    assert evaluate_policy(result.policy, episodes=20, seed=5).mean() >= 475.0


def test_a_network_reaches_its_goal_too():
    # from 5 +- 2 in each of three coordinates, steps of at most 1: about -330 at best, below -900 untrained
    before = reach(maxiter=1, maxfevals=None, policy="mlp:8").curve["reward"][0]
    result = reach(policy="mlp:8", maxfevals=600)
    assert before < -700
    assert result.reward > -450


def test_hidden_units_bend_from_the_start_and_at_different_places():
    # a least squares fit of cos(3 x) - 1/2 by the units' outputs: odd units, or nearly linear ones, have none
    network = Network(1, (16,), 1)
    x = np.linspace(-1.5, 1.5, 61)[:, np.newaxis]
    wanted = np.cos(3 * x[:, 0]) - 0.5
    for seed in range(5):
        weights = network.start(seed)
        assert not weights[-17:].any()  # outputs of 0 at first
        hidden = weights[:32].reshape(16, 2)
        units = np.tanh(x @ hidden[:, :1].T + hidden[:, 1])
        fitted = units @ np.linalg.lstsq(units, wanted, rcond=1e-3)[0]
        assert np.mean((wanted - fitted) ** 2) < 0.05 * np.mean(wanted**2)


@pytest.mark.parametrize(("policy", "step"), [("linear", 0.3), ("mlp:4", 1.0)])
def test_first_steps_of_continuous_actions_depend_on_the_policy(policy, step):
    few = {"policy": policy, "maxfevals": 40, "solved": False}
    assert same(reach(**few), reach(**few, sigma0=step))
    assert not same(reach(**few), reach(**few, sigma0=1.3 - step))


def test_open_es_has_the_published_weight_decay_by_default():
    few = {"method": "open-es", "popsize": 8, "maxfevals": 40, "solved": False}
    usual, same_decay, none = (
        reach(**few),
        reach(**few, weight_decay=0.005),
        reach(**few, weight_decay=0.0),
    )
    assert same(usual, same_decay)
    assert not same(usual, none)


def test_discrete_actions_are_counted_from_where_they_start():
    result = train("small_environments:lmma-test/Choose-v0", "mlp:3", **QUICK, maxfevals=400, solved=70.0)
    assert result.solved
    assert result.reward == 70.0  # ten steps of the largest action, 7
    assert result.policy(np.full(3, 5.0)) == 7


def test_without_a_threshold_training_uses_its_budget():
    result = train("CartPole-v1", **QUICK, maxfevals=100, solved=False, stagnation=False)
    assert result.threshold is None
    assert not result.solved
    assert result.result.nfev == 100


# Batches, workers, seeds


@pytest.mark.parametrize(
    ("env", "policy"), [("CartPole-v1", "linear"), (REACH, "mlp:7,5"), (REACH, "linear")]
)
def test_a_candidate_earns_the_same_alone_and_in_any_company(env, policy):
    episodes = episodes_of(env, policy, count=2)
    rows = random_rows(episodes, 19)  # more jobs than slots
    values, statistics, errors = episodes.many(rows)
    backwards, statistics_backwards, _ = episodes.many(rows[::-1])
    assert not errors
    assert np.array_equal(values, backwards[::-1])
    assert np.array_equal(statistics, statistics_backwards[::-1])
    assert np.array_equal(values, [episodes.one(row)[0] for row in rows])
    episodes.close()


def test_the_batch_does_what_a_plain_loop_does():
    episodes = episodes_of(REACH, "mlp:7,5")
    row = random_rows(episodes, 1)[0]
    net, n = episodes.network, episodes.network.n
    policy = Policy(net, episodes.actions, row[:n], row[n : n + 3], row[n + 3 : n + 6])
    env = gymnasium.make(REACH)
    from lmma.integrations.gymnasium.episodes import episode_seeds

    seen, _ = env.reset(seed=episode_seeds(77, 1)[0])
    total, done = 0.0, False
    while not done:
        seen, reward, terminated, truncated, _ = env.step(policy(seen))
        total, done = total + reward, terminated or truncated
    assert episodes.one(row)[0] == -total


def test_workers_change_nothing():
    assert same(reach(policy="mlp:4", episodes=2), reach(policy="mlp:4", episodes=2, workers=2))


def test_candidates_of_a_generation_meet_the_same_episodes_others_later():
    small_environments.RESETS.clear()
    reach(episodes=3, popsize=6, maxiter=4, maxfevals=None)
    resets = [seed for seed in small_environments.RESETS if seed is not None]
    counts = {seed: resets.count(seed) for seed in resets}
    shared = [seed for seed, count in counts.items() if count == 6]
    assert len(shared) == 4 * 3  # three episodes in each of four generations, for six candidates
    assert set(counts.values()) == {1, 6}  # those of mean policies are fresh


# Normalisation


def test_moments_merged_in_parts_are_those_of_the_whole():
    rng = np.random.default_rng(1)
    parts = [1e3 + rng.standard_normal((size, 4)) * [1, 2, 3, 0] for size in (1, 50, 7, 0)]
    moments = Moments(4)
    for part in parts:
        origin = moments.mean.copy()
        around = part - origin
        moments.merge(len(part), around.sum(axis=0), np.square(around).sum(axis=0), origin)
    whole = np.concatenate(parts)
    np.testing.assert_allclose(moments.mean, whole.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(moments.scale[:3], 1 / whole.std(axis=0)[:3], rtol=1e-6)
    assert moments.scale[3] == 0  # never varies: left out
    assert moments.count == 58


def test_the_policy_keeps_the_normalisation_it_was_evaluated_with():
    policy = reach().policy
    assert np.all(np.abs(policy.mean) > 0.5)  # where the environment is
    assert np.all(policy.scale != 1)
    plain = reach(normalise=False).policy
    assert np.array_equal(plain.mean, np.zeros(3))
    assert np.array_equal(plain.scale, np.ones(3))


# Files


def test_a_resumed_training_equals_the_unbroken_one(tmp_path):
    whole = reach(policy="mlp:4")
    file = tmp_path / "run.npz"
    reach(policy="mlp:4", maxfevals=60, checkpoint=file)
    assert same(whole, reach(policy="mlp:4", checkpoint=file))


@pytest.mark.parametrize("at", ["candidates", "looks"])
def test_a_training_interrupted_anywhere_comes_to_the_same_end(tmp_path, monkeypatch, at):
    whole = reach()
    calls = []
    from lmma.integrations.gymnasium.evaluator import EpisodesEvaluator

    name = "__call__" if at == "candidates" else "rewards"
    usual = getattr(EpisodesEvaluator, name)

    def interrupted(self, *args):
        calls.append(None)
        if len(calls) == (5 if at == "candidates" else 2):
            raise KeyboardInterrupt
        return usual(self, *args)

    monkeypatch.setattr(EpisodesEvaluator, name, interrupted)
    file = tmp_path / "run.npz"
    first = reach(checkpoint=file)
    assert first.result.reason == "interrupted"
    assert np.isnan(first.reward)
    again = reach(checkpoint=file)
    assert again.result.reason == whole.result.reason
    assert same(whole, again)


def test_a_checkpoint_of_another_training_is_rejected(tmp_path):
    file = tmp_path / "run.npz"
    reach(maxfevals=40, checkpoint=Checkpoint(file))
    with pytest.raises(ValueError, match="2 episodes"):
        reach(checkpoint=file, episodes=2)


@pytest.mark.parametrize(("env", "policy"), [("CartPole-v1", "linear"), (REACH, "mlp:5,3")])
def test_a_saved_policy_acts_as_before(tmp_path, env, policy):
    trained = train(env, policy, **QUICK, maxfevals=30).policy
    trained.save(tmp_path / "policy.npz")
    loaded = load_policy(tmp_path / "policy.npz")
    assert repr(loaded) == repr(trained)
    for seen in np.random.default_rng(1).standard_normal((10, trained.network.inputs)):
        assert np.array_equal(loaded(seen), trained(seen))
    assert np.array_equal(evaluate_policy(loaded, env, 5), evaluate_policy(trained, env, 5))


def test_files_that_are_not_policies_are_rejected(tmp_path):
    file = tmp_path / "policy.npz"
    policy = reach(maxfevals=20).policy
    policy.save(file)
    whole = file.read_bytes()
    file.write_bytes(whole[:300] + b"x" + whole[301:])
    with pytest.raises(ValueError, match="checksum"):
        load_policy(file)
    with pytest.raises(ValueError, match=r"policy .* does not exist"):
        load_policy(tmp_path / "nothing.npz")
    from lmma._archive import POLICY, read, write

    file.write_bytes(whole)
    header, arrays = read(file, POLICY)
    for change in (
        {"hidden": [5]},
        {"outputs": -1},
        {"shape": [7]},
        {"dtype": "O"},
        {"env": 5},
        {"first": "a"},
    ):
        write(file, {**header, **change}, arrays, POLICY)
        with pytest.raises(ValueError, match="invalid content"):
            load_policy(file)
    write(file, header, {**arrays, "weights": arrays["weights"] * np.nan}, POLICY)
    with pytest.raises(ValueError, match="array weights"):
        load_policy(file)


def test_a_file_does_not_name_what_is_imported(tmp_path, monkeypatch):
    from lmma._archive import POLICY, read, write

    mark = tmp_path / "ran"
    (tmp_path / "evil_environment.py").write_text(f"open({str(mark)!r}, 'w').close()\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "policy.npz"
    reach(maxfevals=20).policy.save(file)
    header, arrays = read(file, POLICY)
    write(file, {**header, "env": "evil_environment:Reach-v0 size=2"}, arrays, POLICY)
    policy = load_policy(file)
    with pytest.raises(ValueError, match="pass env='evil_environment:Reach-v0'"):
        evaluate_policy(policy, episodes=2)
    assert not mark.exists()
    assert len(evaluate_policy(policy, REACH, 2)) == 2


def test_training_continues_from_a_policy():
    first = reach(policy="mlp:8", maxfevals=600)
    second = reach(policy=first.policy, maxfevals=100, sigma0=0.01)
    assert abs(second.curve["reward"][0] - first.reward) < 100  # as good as before from the start
    assert first.reward > first.curve["reward"][0] + 200
    assert second.policy.seen > first.policy.seen
    with pytest.raises(ValueError, match="policy has 3 inputs"):
        train("CartPole-v1", first.policy, **QUICK)


# Noise, failures, bad input


def test_noise_handling_runs_episodes_again():
    result = train("CartPole-v1", **QUICK, maxfevals=400, noise="auto", solved=False, stagnation=False)
    assert "noise" in result.result


@pytest.mark.parametrize(
    ("trouble", "words"),
    [("raises", "gear box"), ("nan", "total reward of an episode"), ("blind", "observation is not finite")],
)
@pytest.mark.parametrize("workers", [1, 2])
def test_an_environment_that_always_fails_is_named(trouble, words, workers):
    result = reach(env_options={"trouble": trouble}, workers=workers)
    assert result.result.reason == "failures"
    assert words in result.message
    assert np.isnan(result.reward)


def test_an_environment_that_sometimes_fails_costs_only_those_candidates():
    result = reach(env_options={"trouble": "sometimes"}, maxfevals=300)
    assert 0 < result.result.failures < result.result.nfev
    assert result.result.errors[0].message == "the gear box is stuck"
    assert np.isfinite(result.result.fun)


def test_failures_are_raised_if_asked_for():
    with pytest.raises(RuntimeError, match="gear box"):
        reach(env_options={"trouble": "sometimes"}, on_error="raise")


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"env": "CartPol-v1"}, ValueError, "CartPole-v1"),
        ({"env": "Nothing/LikeThis-v7"}, ValueError, "Nothing"),
        ({"env": 5}, TypeError, "env must be a name"),
        ({"env": lambda: 5}, TypeError, "env must return a Gymnasium environment"),
        ({"env": "small_environments:lmma-test/Named-v0"}, ValueError, "FlattenObservation"),
        ({"env": "small_environments:lmma-test/Buttons-v0"}, ValueError, "Discrete"),
        ({"env": "no_such_module:Env-v0"}, ValueError, "no_such_module"),
        ({"policy": "mpl:3"}, ValueError, "mlp:64,64"),
        ({"policy": "mlp:"}, ValueError, "mlp:64,64"),
        ({"policy": "mlp:0"}, ValueError, "1 to 10,000 units"),
        ({"policy": 7}, ValueError, "policy must be"),
        ({"episodes": 0}, ValueError, "episodes must be"),
        ({"test_episodes": 1.5}, ValueError, "test_episodes must be"),
        ({"normalise": "yes"}, TypeError, "normalise must be"),
        ({"solved": "high"}, ValueError, "solved must be"),
        ({"solved": True, "env": "Pendulum-v1"}, ValueError, "no reward"),
        ({"ftarget": 3.0}, TypeError, "solved="),
        ({"bounds": [(0, 1)]}, TypeError, "does not support bounds="),
        ({"env_options": {"such": 1}}, ValueError, "such"),
        ({"env": lambda: 5, "env_options": {"such": 1}}, ValueError, "env_options"),
        ({"method": "such-es"}, ValueError, "such-es"),
        ({"x0": [1.0, 2.0]}, ValueError, "8 weights"),
        ({"workers": Replicated("dask://nowhere:1")}, TypeError, "workers that generate"),
        ({"popsiz": 7}, TypeError, "popsize"),
    ],
    ids=lambda value: None if isinstance(value, type | str) else "-".join(value) or "none",
)
def test_invalid_input_is_rejected_with_a_message(arguments, error, words):
    given = {"env": "CartPole-v1", **QUICK, **arguments}
    with pytest.raises(error, match=words):
        train(given.pop("env"), **given)


def test_an_environment_of_a_script_reaches_worker_processes(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(
        "import gymnasium\n"
        "from lmma.integrations.gymnasium import train\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "class Mine(CartPoleEnv):\n    pass\n"
        "if __name__ == '__main__':\n"
        "    gymnasium.register('Mine-v0', Mine, max_episode_steps=50, reward_threshold=49.0)\n"
        "    result = train('Mine-v0', rng=1, workers=2, test_episodes=10, maxfevals=400)\n"
        "    print(result.solved, result.result.failures)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "0"]


def test_boxes_without_sides_take_outputs_as_they_are():
    from lmma.integrations.gymnasium.environments import actions_of

    box = gymnasium.spaces.Box(np.array([-np.inf, 1.0], np.float32), np.array([np.inf, 3.0], np.float32))
    assert actions_of(box).from_outputs(np.array([[7.0, 0.5], [0.0, 9.0]])).tolist() == [
        [7.0, 2.5],
        [0.0, 3.0],
    ]


def test_observations_of_another_size_are_rejected():
    policy = reach(maxfevals=20).policy
    with pytest.raises(ValueError, match="3 numbers"):
        policy([1.0, 2.0])
    with pytest.raises(ValueError, match="CartPole-v1 needs 4"):
        evaluate_policy(policy, "CartPole-v1")


def test_without_gymnasium_the_extra_is_named():
    program = (
        "import sys; sys.modules['gymnasium'] = None\n"
        "try:\n    import lmma.integrations.gymnasium\n"
        "except ImportError as error:\n    print(error)\n"
        "from lmma.cli import main; print(main(['train', 'CartPole-v1']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "[rl]" in done.stdout
    assert "2" in done.stdout.splitlines()[-1]
    assert "lmma: train needs gymnasium" in done.stderr
