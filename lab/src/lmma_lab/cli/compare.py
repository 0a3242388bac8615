"""The command ``lmma compare``: run methods on problems and write a comparison."""

from __future__ import annotations

import argparse

from lmma.cli import arguments
from lmma.cli.completion import method_names, problem_names, set_completer
from lmma.cli.status import UsageError
from lmma.cli.target import import_methods_here
from lmma_lab.cli.common import add_campaign_arguments, command_line, report_write_errors, run_tasks

EPILOG = """\
A method is a name from `lmma methods`, auto (the default of lmma minimize), module:Class (a strategy that
passes lmma.testing.check_strategy), or an installed peer: pycma, pycma-vkd, cmaes-sep, fcmaes-crfmnes,
pypop7-lmcma. A problem is a name from `lmma problems`, optionally with the prefix rotated- or shifted-, or
module:function. The latter is a function of one vector, whose runs start uniformly in [-5, 5]^n, or an
lmma.problems.Problem, which defines its own start. A candidate whose evaluation fails ranks last. Modules are
also imported from the current directory.

Finished runs are kept in OUT/store.sqlite and never repeated: after adding a method, a dimension or seeds,
only the new runs are executed. If a function has changed, choose another OUT. OUT receives the figure, tables
and report.html.

examples:
  lmma compare --problems sphere,rotated-cigar --methods lm-ma-es,ma-es --dims 32,64,128
  lmma compare --problems mymodule:loss --methods auto,lm-ma-es --dims 30 --target 0.1 --sigma0 0.5
  lmma compare --problems rosenbrock --methods lm-ma-es,mine:MyES --dims 20 --seeds 11 --workers 2
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    what = parser.add_argument(
        "--problems", metavar="NAME,NAME", required=True, help="problems: names or module:function"
    )
    set_completer(what, problem_names, comma_separated=True)
    how = parser.add_argument(
        "--methods", metavar="NAME,NAME", required=True, help="methods: names or module:Class"
    )
    set_completer(how, method_names, comma_separated=True)
    parser.add_argument("--dims", metavar="N,N", required=True, help="numbers of variables")
    parser.add_argument(
        "--seeds",
        metavar="N",
        type=arguments.count,
        default=5,
        help="runs per method, problem and dimension (default: 5)",
    )
    parser.add_argument(
        "--budget", metavar="N", type=arguments.count, default=20_000,
        help="evaluations per run, times the number of variables (default: 20000)",
    )  # fmt: skip
    parser.add_argument(
        "--target", metavar="F", type=arguments.number, default=1e-10, help="value to reach (default: 1e-10)"
    )
    parser.add_argument(
        "--sigma0", metavar="S", type=arguments.positive, default=3.0, help="initial step size (default: 3)"
    )
    add_campaign_arguments(parser, "lmma-comparison")


def run(args: argparse.Namespace) -> int:
    """Run the missing tasks, then write and print the comparison."""
    from lmma_lab.analysis.tables import as_text
    from lmma_lab.publish import publish_comparison
    from lmma_lab.tasks import Grid

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
    status, records = run_tasks(args, tasks)
    if records is None:
        return status
    wanted = {task.key for task in tasks}
    from lmma_lab.tasks import task_from

    ours = [r for r in records if r["kind"] == "run" and task_from("run", r["spec"]).key in wanted]
    if args.report_only and not ours:
        raise UsageError(f"no records of these runs in {args.out}: run without --report-only first")
    with report_write_errors():
        rows = publish_comparison(ours, args.out, command_line("compare", args))
    print(as_text(rows))
    print(f"\nThe figure, tables and report.html are in {args.out}")
    return status
