"""The command ``lmma train``: train or play a policy for a Gymnasium environment."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import sys
from typing import TYPE_CHECKING, Any

from lmma.cli import arguments, status
from lmma.cli.status import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from lmma.integrations.gymnasium.train import Prepared, TrainingResult

# Options of a run that do not apply to the weights of a policy
WITHOUT = frozenset((
    "bounds", "boundary", "integrality", "space", "constraints", "constraint_handling", "feasibility_tol",
    "inject", "vectorized", "ftarget", "quorum", "archive", "archive_new",
))  # fmt: skip

EPILOG = f"""\
ENV
  A registered Gymnasium environment such as CartPole-v1. module:Name imports the module first, to register
  its environments. Observations must be arrays of numbers; actions are arrays of numbers or discrete.

  The policy that is tested, plotted and saved is the mean of the search distribution, not the best candidate;
  its reward is measured over fresh episodes. --max-evaluations counts candidates, each with --episodes
  episodes.

  With --checkpoint, repeat the same command to continue; the resulting policy is the same bit for bit.

exit status:
    0  completed: solved, converged without a threshold, or budget used up (--max-evaluations,
       --max-generations, --max-time)
    1  stopped early (stagnated, diverged, out of memory), or converged without reaching --solved; the policy
       is still evaluated and saved
{status.EXPLAINED[status.EXPLAINED.index("    2  ") :]}
examples:
  lmma train CartPole-v1 --seed 1 --save cartpole.npz --plot cartpole.svg
  lmma train Pendulum-v1 --policy mlp:16 --episodes 4 --solved -250 --max-evaluations 4000
  lmma train HalfCheetah-v5 --workers -1 --solved 3430 --max-time 3600 --checkpoint cheetah.ckpt
  lmma train CartPole-v1 --play cartpole.npz --episodes 100
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command: the training options and the options of the run."""
    from lmma.cli.options import add_run_options

    parser.epilog = EPILOG
    parser.add_argument("env", metavar="ENV", help="Gymnasium environment, see below")
    add = parser.add_argument_group("training options").add_argument
    add(
        "--policy",
        metavar="NAME",
        help="linear, or a network such as mlp:64,64 with two hidden layers of 64 units (default: linear)",
    )
    add(
        "--episodes", metavar="N", type=arguments.count,
        help="episodes per candidate, the same for all candidates of a generation (default: 1; 100 with "
        "--play)",
    )  # fmt: skip
    add(
        "--solved", metavar="REWARD", type=arguments.number_or_none, default=argparse.SUPPRESS,
        help="stop when the mean policy reaches this average reward over fresh episodes; none to disable "
        "(default: the threshold of the environment, if it has one)",
    )  # fmt: skip
    add(
        "--test-episodes", metavar="N", type=arguments.count,
        help="fresh episodes to evaluate the final policy; each point of the learning curve uses a tenth "
        "(default: 100)",
    )  # fmt: skip
    add("--no-normalise", action="store_true", help="do not normalise observations")
    add(
        "--env-option", metavar="NAME=VALUE", type=arguments.constant, action="append",
        help="argument of the environment, such as max_episode_steps=200; may be repeated",
    )  # fmt: skip
    add(
        "--sigma0", metavar="STEP", type=arguments.positive,
        help="initial step size, in terms of the outputs of each layer (default: 1; 0.3 for a linear policy "
        "with continuous actions)",
    )  # fmt: skip

    add_run_options(parser, {}, without=WITHOUT)

    add = parser.add_argument_group("output options").add_argument
    add("--save", metavar="FILE", help="write the policy to a .npz file, for --play and load_policy()")
    add("--plot", metavar="FILE", help="plot the learning curve to a .png, .svg or .pdf file")
    add("--json", action="store_true", help="print only the result, as JSON, on standard output")
    add("--quiet", action="store_true", help="do not show progress")

    add = parser.add_argument_group("playback").add_argument
    add("--play", metavar="FILE", help="evaluate a saved policy over fresh episodes instead of training")
    add("--render", action="store_true", help="with --play: show the first episodes in a window")


def run(args: argparse.Namespace) -> int:
    """Train or play, print the result and return the exit status."""
    try:
        import lmma.integrations.gymnasium  # noqa: F401 (checks that Gymnasium is installed)
    except ImportError as error:
        raise UsageError(str(error).replace("lmma.integrations.gymnasium", "train")) from None
    if args.play is not None:
        return _play(args)
    if args.render:
        raise UsageError("--render requires a saved policy: specify it with --play")
    from lmma.cli.minimize import check_distinct_files, plot_file, same_folder, write_outputs

    plot = plot_file(args)
    save = None if args.save is None else arguments.writable(args.save, "--save", (".npz",))
    check_distinct_files(args, ("checkpoint", "log", "plot", "save"))
    with same_folder(), contextlib.redirect_stdout(sys.stderr) if args.json else contextlib.nullcontext():
        trained, seed = _train(args)
    written = write_outputs(
        ("--save", save, trained.policy.save), ("--plot", plot, lambda path: _plot(path, trained))
    )
    print(as_json(trained, seed) if args.json else as_text(trained, seed, save, plot))
    return _status(trained) if written else status.UNWRITTEN


def _train(args: argparse.Namespace) -> tuple[TrainingResult, int]:
    """Train with safe interruption; return the result and the seed."""
    from lmma.cli.options import as_flag, with_flags
    from lmma.cli.target import import_methods_here
    from lmma.evaluation.failures import WorkersError
    from lmma.run.checkpoint import CheckpointError
    from lmma.run.interrupts import Interrupts, ending_signals

    import_methods_here([getattr(args, "method", "")])
    try:
        training, seed = _prepare_training(args)
    except CheckpointError as error:
        raise UsageError(str(error)) from None
    except (ValueError, TypeError, MemoryError, OSError) as error:
        raise UsageError(_with_train_flags(with_flags(error))) from None
    for warning in training.run.warnings:
        print(f"lmma: {warning}", file=sys.stderr)
    try:
        return training.execute(Interrupts(*ending_signals()), as_flag), seed
    except WorkersError as error:
        raise UsageError(f"{args.env}: {error}", status.ALL_FAILED) from None


def _prepare_training(args: argparse.Namespace) -> tuple[Prepared, int]:
    """Create the training that the arguments describe; return it with its seed."""
    from lmma.cli.minimize import run_seed
    from lmma.cli.options import given_options
    from lmma.integrations.gymnasium.train import Prepared
    from lmma.run.checkpoint import Checkpoint

    path = getattr(args, "checkpoint", None)
    saved = None if path is None else Checkpoint(path)
    seed = run_seed(args, saved)
    if saved is not None:
        saved.extra = {"words": args.words, "directory": os.getcwd(), "seed": seed}
    given = given_options(args, 1)
    given |= {"rng": seed, "checkpoint": saved, "progress": not args.quiet}
    if args.sigma0 is not None:
        given["sigma0"] = args.sigma0
    training = Prepared(
        args.env,
        args.policy or "linear",
        episodes=args.episodes or 1,
        solved=_solved(args),
        normalise=not args.no_normalise,
        test_episodes=args.test_episodes or 100,
        env_options=dict(args.env_option or ()),
        options=given,
    )
    return training, seed


def _solved(args: argparse.Namespace) -> float | bool | None:
    """Return the value for ``solved=``: a reward, None for the environment's threshold, False to disable."""
    if not hasattr(args, "solved"):
        return None
    return False if args.solved is None else float(args.solved)


def _with_train_flags(text: str) -> str:
    for name, flag in (("policy=", "--policy "), ("env=", "ENV "), ("solved=", "--solved "),
                       ("policy must", "--policy must")):  # fmt: skip
        text = text.replace(name, flag)
    return text


def _play(args: argparse.Namespace) -> int:
    """Evaluate a saved policy in the given environment and print its reward."""
    import numpy as np

    from lmma.integrations.gymnasium import evaluate_policy, load_policy
    from lmma.integrations.gymnasium.train import standard_error

    for flag in ("policy", "checkpoint", "save", "plot"):
        if getattr(args, flag, None) is not None:
            raise UsageError(f"--{flag} cannot be combined with --play, which does not train")
    episodes = args.episodes or 100
    options: dict[str, Any] = dict(args.env_option or ())
    try:
        policy = load_policy(args.play)
        if args.render:
            options["render_mode"] = "human"
        workers = 1 if args.render else getattr(args, "workers", 1)
        rewards = evaluate_policy(
            policy, args.env, episodes, seed=getattr(args, "rng", 0), workers=workers, env_options=options
        )
    except (ValueError, TypeError, OSError) as error:
        raise UsageError(_with_train_flags(str(error))) from None
    known = rewards[np.isfinite(rewards)]
    failed = len(rewards) - len(known)
    fields = {
        "env": args.env,
        "policy": policy.network.spelling,
        "episodes": episodes,
        "reward": float(known.mean()) if len(known) else None,
        "error": standard_error(rewards) if len(known) > 1 else None,
        "lowest": float(known.min()) if len(known) else None,
        "highest": float(known.max()) if len(known) else None,
        "failed": failed,
    }
    if args.json:
        print(json.dumps(fields))
    elif len(known):
        spread = "" if fields["error"] is None else f" +- {fields['error']:.2g}"
        lost = f", {failed} failed" if failed else ""
        print(f"{policy.network.spelling} on {args.env}")
        print(f"  reward       {fields['reward']:.6g}{spread} over {episodes} episodes{lost}")
        print(f"  range        {fields['lowest']:.6g} to {fields['highest']:.6g}")
    else:
        print(f"{policy.network.spelling} on {args.env}: every episode failed")
    return status.OK if len(known) else status.ALL_FAILED


def _plot(path: Path, trained: TrainingResult) -> None:
    from lmma.output.plotting.learning import learning_curve
    from lmma.output.plotting.style import save

    title = f"{trained.policy.network.spelling} on {trained.policy.env}, {trained.result.method}"
    save(learning_curve(trained.curve, solved=trained.threshold, title=title), path)


def _status(trained: TrainingResult) -> int:
    if trained.result.reason == "interrupted":
        return status.INTERRUPTED
    if trained.result.nfev > 0 and not math.isfinite(trained.result.fun):
        return status.ALL_FAILED
    from lmma.cli.summary import within_budget

    reached = trained.solved or (trained.threshold is None and trained.result.success)
    return status.OK if reached or within_budget(trained.result) else status.UNSOLVED


def as_text(trained: TrainingResult, seed: int, save: Path | None, plot: Path | None) -> str:
    """Return the summary as text."""
    result, policy = trained.result, trained.policy
    reward = "not evaluated"
    if math.isfinite(trained.reward):
        reward = f"{trained.reward:.6g}"
        if math.isfinite(trained.reward_error):
            reward += f" +- {trained.reward_error:.2g}"
        reward += f", mean policy over {len(trained.rewards)} fresh episodes"
    rate = f", {trained.steps / trained.seconds:,.0f} steps/s" if trained.seconds > 0 else ""
    rows = [
        ("reward", reward),
        ("stopped", trained.message),
        ("episodes", f"{trained.episodes:,} of candidates, {trained.tested:,} of mean policies"),
        ("steps", f"{trained.steps:,}"),
        ("evaluations", f"{result.nfev:,} in {result.nit:,} generations of {result.runs[0].popsize}"),
        ("time", f"{trained.seconds:.3g} s{rate}"),
        ("seed", str(seed)),
    ]
    if result.failures:
        rows.append(("failed", f"{result.failures:,} evaluations"))
        rows += [("", str(error)) for error in result.errors[:1]]
    rows += [("warning", text) for text in result.warnings]
    rows += [(label, str(path)) for label, path in (("policy", save), ("plot", plot)) if path is not None]
    title = f"{policy.network.spelling} on {policy.env}, {result.method}, n = {policy.network.n}"
    return "\n".join([title, *(f"  {label:<11}  {text}" for label, text in rows)])


def as_json(trained: TrainingResult, seed: int) -> str:
    """Return the result as a JSON object, with null for numbers that are not finite."""
    result = trained.result
    fields: dict[str, Any] = {
        "env": trained.policy.env, "policy": trained.policy.network.spelling, "n": trained.policy.network.n,
        "method": result.method, "reward": trained.reward, "reward_error": trained.reward_error,
        "solved": trained.solved, "threshold": trained.threshold, "reason": result.reason,
        "message": trained.message, "exit_status": _status(trained), "episodes": trained.episodes,
        "steps": trained.steps, "tested": trained.tested, "nfev": result.nfev, "nit": result.nit,
        "seconds": trained.seconds, "seed": seed, "failures": result.failures,
        "failed": dict(result.failed), "warnings": result.warnings,
    }  # fmt: skip
    fields = {name: _finite(value) for name, value in fields.items()}
    fields["curve"] = {name: [_finite(v) for v in column] for name, column in trained.curve.items()}
    return json.dumps(fields, allow_nan=False)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
