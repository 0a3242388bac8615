"""Exit statuses, for use in scripts."""

OK = 0  # completed: target reached, converged without a target, or budget used up
UNSOLVED = 1  # ended earlier: stagnated, diverged, failed, missed the target, or found no feasible point
USAGE = 2  # invalid arguments
ALL_FAILED = 3  # every evaluation failed, or one did under --on-error raise, or no worker could be started
UNWRITTEN = 4  # the result could not be printed, or an output file could not be written
INTERRUPTED = 130  # by Ctrl-C, SIGTERM or SIGHUP; the best result so far is printed

EXPLAINED = """\
exit status:
    0  completed: target reached, converged without a target, or budget used up (--max-evaluations,
       --max-generations, --max-time)
    1  stopped early (stagnated, diverged, out of memory), converged without reaching --target, or found no
       feasible point; the best result is still printed
    2  invalid arguments
    3  every evaluation failed, one failed under --on-error raise, or workers could not be started
    4  the result could not be printed, or an output file could not be written
  130  interrupted by Ctrl-C, SIGTERM or SIGHUP; the best result so far is printed
"""


class UsageError(Exception):
    """An error in the arguments or the environment: a one-line message and an exit status."""

    def __init__(self, message: str, status: int = USAGE) -> None:
        super().__init__(message)
        self.status = status
