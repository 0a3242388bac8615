"""Write docs/start/stop.md: every reason to stop, from the stopping rules, with advice.

python docs/tools/stop.py [--check]
"""

import sys
from pathlib import Path
from typing import Any

from lmma._text import in_python
from lmma.run.stopping import ENDINGS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "start" / "stop.md"

HEAD = """\
# Why did it stop?

```python
import numpy as np
import lmma

result = lmma.minimize(lambda x: float(np.sum(x**2)), np.full(10, 3.0), 1.0, rng=1, maxfevals=500)
print(result.reason)   # maxfevals
print(result.success)  # False: the run did not converge within the budget
print(result.message)  # Evaluation limit reached: the next generation would exceed maxfevals = 500.
```

`result.message` explains the reason and names the argument to change. For programs, `result.reason` is one
word and `result.status` a number. `result.success` is true if the target was reached or, without a target, if
the search converged. The command line exits with status 0 if the run
completed, which includes the end of a budget, and 1 or more otherwise ([all
statuses](../cli.md#lmma-minimize)). After the reasons marked with ↻, `restarts=` continues from another point
with a larger population.

`lmma.minimize` returns the best point found, whatever the reason. If your budget is limited, set `maxfevals`
or `maxtime` and check the reason.

This page is generated from the stopping rules. For the defaults, see [arguments](../options.md).
"""

# The meaning of each reason, and what to do; a test compares the keys with the rules.
ADVICE = {
    "noise": "With `noise=` set: the remaining progress is smaller than the differences between values of "
    "the same point. Average inside `fun`, use common random numbers, or increase `popsize`.",
    "integer_search_exhausted": "All variables are integers or choices, and nothing better was found for "
    "many generations with small steps. Then every neighbour of x, one integer changed by one or one choice, "
    "was evaluated, and none is better. Set `restarts=3` to search elsewhere.",
    "ftarget": "The target value is reached. To continue, set a lower `ftarget`.",
    "tolx": "All candidates of a generation lie within `tolx` of each other: the search has converged, "
    "possibly to a local optimum. Most successful runs end this way. If the value is not good enough, more "
    "precision does not help: search elsewhere with `restarts=3`, or start with a larger `sigma0`.",
    "tolfun": "The best values of recent generations, and all values of the last one, differ by less than "
    "`tolfun`: the search has converged, as with `tolx`. If all values of the function are tiny (1e-12), set "
    "a smaller `tolfun` or scale the function up. With `dtype='float32'` precision may run out first, for "
    "example on the rotated cigar with 1,000 variables; the message then says so.",
    "converged": "Only with [`quasi-newton`, `interpolation` and `coordinates`](method.md): the error of the "
    "values hides the decrease that a further step would bring. If `fun` rounds its values or is noisy, more "
    "digits allow a better x; `restarts=3` searches elsewhere.",
    "not_additive": "Only with [`coordinates`](method.md): this method moves all variables at once, which is "
    "only right if `fun` is a sum of functions of one variable each. Continue with "
    '`lmma.minimize(fun, result.x, method="auto")`.',
    "stuck": "Only with [`quasi-newton` and `interpolation`](method.md): steps along the slopes no longer "
    "decrease `fun` as they should. The function is not smooth near x: it has kinks, local ruggedness, "
    'noise, or points that fail. Continue with `lmma.minimize(fun, result.x, method="auto")`.',
    "maxfevals": "The allowed number of evaluations is used. A generation that would exceed the limit is not "
    "started, so `nfev` may stay below it. To continue, call `lmma.minimize(fun, result, maxfevals=...)`, or "
    "repeat the call with `checkpoint=` and a larger limit.",
    "maxiter": "The allowed number of generations is used. Each has `popsize` evaluations.",
    "maxtime": "The time limit has passed. The running evaluation is completed first.",
    "callback": "Your `callback` returned True or raised `StopIteration`.",
    "solved": "Only with [`train`](../howto/reinforcement_learning.md): the average reward of the mean "
    "policy over fresh episodes has reached `solved`.",
    "interrupted": "The run received Ctrl-C (on the command line, also SIGTERM or SIGHUP). The checkpoint, "
    'if any, has been written; repeat the call to continue. Set `on_interrupt="raise"` to raise '
    "`KeyboardInterrupt` instead.",
    "numerical": "The step size or the learned matrix is no longer finite. Look for values of `fun` beyond "
    "1e300, for an extreme `sigma0` such as 1e-200 or 1e+200, and for variables whose scales differ by more "
    "than 1e10; rescale them.",
    "diverged": "The step size grew more than a thousandfold: the function keeps falling towards infinity. "
    "Check the sign of `fun` ([maximise](../howto/maximise.md)), and whether `bounds=` are missing.",
    "stagnation": "Neither the best nor the median value improved over half of all generations (a fifth, if "
    "restarts are allowed). Common causes: a local optimum with a rugged floor (set `restarts=`), "
    '[noise](../noise.md) (set `noise="auto"`), or a very long valley (set `stagnation=False` and allow more '
    "time).",
    "plateau": "Only if restarts are allowed: `fun` is piecewise constant, and too few candidates reach the "
    "next step. A restart with twice the population follows while the budget lasts.",
    "flat": "All candidates had the same value. The function may be constant in this region, return too few "
    "digits, or ignore its argument: compare `fun(x0)` and `fun(x0 + sigma0)`. A larger `sigma0` may reach "
    "beyond the plateau.",
    "failures": "No evaluation in three generations returned a finite number. `result.errors[0].traceback` "
    'shows the first failure; `on_error="raise"` raises it immediately. If only parts of the space fail, '
    "start where `fun` works.",
    "allowance": 'With `restarts="bipop"`, each small population gets a share of the budget; this one has '
    "used its share.",
    "strategy": "The strategy raised an exception. If it is one of lmma's, please report a bug. If it is "
    "[your own](../own_strategy.md), the message contains the exception.",
    "memory": "The next restart doubles the population, which does not fit into memory. Set fewer "
    "`restarts=`, a smaller `popsize`, or a method that needs less memory ([which](method.md)).",
}


class _Any:
    """Placeholder for a number in the message of an ending."""

    def __format__(self, spec: str) -> str:
        return "..."


class _Argument(str):
    """An argument in the message of an ending, optionally with a value in brackets."""

    def __getitem__(self, value: Any) -> str:  # type: ignore[override]
        return f"`{in_python(str(self), str(value))}`"

    def __str__(self) -> str:
        return "".join(self)

    def __format__(self, spec: str) -> str:
        return f"`{''.join(self)}`"


class _Names(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        return _Any() if name in ("value", "limit", "error") else _Argument(name)


def page() -> str:
    """Return the text of the page."""
    reasons = sorted(ENDINGS.values(), key=lambda ending: ending.status)
    rows = [
        f"| [`{e.reason}`](#{e.reason}) | {e.status} | "
        f"{'yes' if e.success else 'no'} | {'↻' if e.restarts else ''} |\n"
        for e in reasons
    ]
    sections = [
        f"\n## {e.reason}\n\n> {e.template.format_map(_Names())}\n\n{ADVICE.get(e.reason, '')}\n".replace(
            "....", "..."
        )
        for e in reasons
    ]
    table = "\n| reason | status | success | restarts |\n|---|---|---|---|\n"
    others = (
        "\n## Other reasons\n\nA user-defined strategy may stop for other reasons: the key that its `stop()` "
        "returns is the reason, with status 14.\n"
    )
    return HEAD + table + "".join(rows) + "".join(sections) + others


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text(encoding="utf-8") == page() else "docs/start/stop.md is out of date")
    PAGE.write_text(page(), encoding="utf-8")
