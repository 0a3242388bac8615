"""Exit statuses that scripts can use."""

OK = 0  # the target was reached, or the search converged and no target was set
UNSOLVED = 1  # a budget ran out, or the search ended short of the target
USAGE = 2  # a mistake in the arguments
ALL_FAILED = 3  # no evaluation gave a number, or one failed that must not, or no worker could be started
UNWRITTEN = 4  # the result could not be printed, or a file with it could not be written
INTERRUPTED = 130  # by Ctrl-C or SIGTERM; the best so far is printed

EXPLAINED = """\
exit status:
    0  the target is reached, or the search converged and no target was set
    1  a budget ran out, or the search ended short of the target
    2  the arguments are wrong
    3  the objective failed on every evaluation, or once under --on-error raise, or workers cannot start
    4  the result could not be printed, or x or the plot could not be written
  130  interrupted by Ctrl-C or SIGTERM; the best so far is printed
"""


class UsageError(Exception):
    """A user's mistake, or that of the surroundings, told in one line with an exit status."""

    def __init__(self, message: str, status: int = USAGE) -> None:
        super().__init__(message)
        self.status = status
