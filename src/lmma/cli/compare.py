"""``lmma compare``."""

from __future__ import annotations

import argparse

from lmma.cli import arguments
from lmma.cli.common import add_campaign_arguments, carry_out, command_line, in_words
from lmma.cli.completion import method_names, offer, problem_names
from lmma.cli.target import import_methods_here

EPILOG = """\
A method is a name from `lmma methods` or module:Class, any strategy that passes
lmma.testing.check_strategy; modules in the current directory are found. Peers as published are pycma,
pycma-vkd, cmaes-sep, fcmaes-crfmnes and pypop7-lmcma, where their packages are installed. A problem is a name
from `lmma problems`, also with rotated- or shifted- before it, or module:function: a function of a vector,
started uniformly in [-5, 5]^n, or a lmma.problems.Problem, which says where. Where it fails, a candidate
ranks last.

Finished runs are kept in OUT/store.sqlite and never done twice: add a method, a dimension or seeds, and only
what is new is run (a function that has changed needs another OUT). OUT then holds the figure, tables and
report.html.

examples:
  lmma compare --problems sphere,rotated-cigar --methods lm-ma-es,ma-es --dims 32,64,128
  lmma compare --problems mymodule:loss --methods auto,lm-ma-es --dims 30 --target 0.1 --sigma0 0.5
  lmma compare --problems rosenbrock --methods lm-ma-es,mine:MyES --dims 20 --seeds 11 --workers 2
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    what = parser.add_argument(
        "--problems", metavar="NAME,NAME", required=True, help="what to minimise; names or module:function"
    )
    offer(what, problem_names, between_commas=True)
    how = parser.add_argument(
        "--methods", metavar="NAME,NAME", required=True, help="with what; names or module:Class"
    )
    offer(how, method_names, between_commas=True)
    parser.add_argument("--dims", metavar="N,N", required=True, help="in how many dimensions")
    parser.add_argument("--seeds", metavar="N", type=arguments.count, default=5, help="runs of each (5)")
    parser.add_argument(
        "--budget", metavar="N", type=arguments.count, default=20_000,
        help="evaluations a run may use for each dimension (20000)",
    )  # fmt: skip
    parser.add_argument(
        "--target", metavar="F", type=arguments.number, default=1e-10, help="value to reach (1e-10)"
    )
    parser.add_argument(
        "--sigma0", metavar="S", type=arguments.positive, default=3.0, help="initial step size (3)"
    )
    add_campaign_arguments(parser, "lmma-comparison")


def run(args: argparse.Namespace) -> int:
    """Run what is missing, then write and print the comparison."""
    from lmma.experiments.analysis.tables import as_text
    from lmma.experiments.publish import publish_comparison
    from lmma.experiments.tasks import Grid

    import_methods_here([*arguments.names(args.methods), *arguments.names(args.problems)])
    dims = tuple(arguments.numbers(args.dims, "--dims"))
    grid = Grid(
        arguments.names(args.problems),
        arguments.names(args.methods),
        dims,
        args.seeds,
        args.budget,
        args.target,
        args.sigma0,
    )
    tasks = list(grid.tasks())
    status, records = carry_out(args, tasks)
    if records is None:
        return status
    wanted = {task.key for task in tasks}
    from lmma.experiments.tasks import task_from

    ours = [r for r in records if r["kind"] == "run" and task_from("run", r["spec"]).key in wanted]
    with in_words():
        rows = publish_comparison(ours, args.out, command_line("compare", args))
    print(as_text(rows))
    print(f"\nThe figure, tables and report.html are in {args.out}")
    return status
