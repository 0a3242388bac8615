"""Write docs/start/stop.md: every reason to stop, from the stopping rules, with what to do about it.

python docs/tools/stop.py [--check]
"""

import sys
from pathlib import Path
from typing import Any

from lmma.run.endings import in_python
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
print(result.success)  # False: a budget that ran out is no success
print(result.message)  # The budget is spent: the next generation would exceed maxfevals = 500.
```

`result.message` says it in a sentence and names the argument that changes it; `result.reason` is one word for
programs, `result.status` a number. `success` is true for a target that was reached, and for convergence where
no target was set. On the command line a success is exit status 0, anything else 1 or more ([all of
them](../cli.md#lmma-minimize)). `restarts=` goes on, from another place with a larger population, after those
marked with ↻.

`lmma.minimize` always returns the best point it has seen, whatever the reason. If you can afford only
so much, set `maxfevals` or `maxtime` to it and look at the reason.

This page is made from the rules themselves. Which argument has which default: [arguments](../options.md).
"""

# What a reason means to whoever meets it, and what to do; the tests hold the keys to the rules.
ADVICE = {
    "noise": "With `noise=` set: what progress is left is smaller than what values of one point differ by. "
    "Average inside `fun`, use common random numbers, or a larger `popsize`.",
    "settled": "All variables are integers or choices, and for many generations no other value of any of "
    "them was better. `restarts=3` looks elsewhere.",
    "ftarget": "The value you asked for is reached. A lower `ftarget` searches on.",
    "tolx": "All candidates of a generation lie within `tolx` of one another: the search has converged, "
    "to a local optimum at least. Happens at the end of most good runs. If the value is not good "
    "enough, the place is wrong, not the precision: `restarts=3`, or a larger `sigma0`.",
    "tolfun": "The best values of the recent generations, and those of the last one, differ by less than "
    "`tolfun`: converged, as above. A function whose values are all tiny (1e-12) needs a smaller "
    "`tolfun`, or to be multiplied. With `dtype='float32'` digits may end before the search does, as on the "
    "rotated cigar of 1,000 variables: the message says so then.",
    "maxfevals": "As many evaluations as allowed are done; a generation that would exceed the number is not "
    "begun, so that `nfev` may stay below it. Go on from where it stood: `lmma.minimize(fun, "
    "result, maxfevals=...)`, or the same call with `checkpoint=` and a larger number.",
    "maxiter": "As many generations as allowed are done. One has `popsize` evaluations.",
    "maxtime": "The seconds are over. The evaluation under way is finished first.",
    "callback": "Your `callback` returned True or raised `StopIteration`.",
    "solved": "Of [`train`](../howto/reinforcement_learning.md) alone: the mean policy has earned `solved` "
    "on average over fresh episodes.",
    "interrupted": "Ctrl-C (on the command line SIGTERM too). The checkpoint, if there is one, has been "
    "written: "
    'the same call goes on. `on_interrupt="raise"` has `KeyboardInterrupt` raised instead.',
    "numerical": "The step size or the learned matrix is no longer a finite number. Look for values of `fun` "
    "beyond 1e300, for a `sigma0` of 1e-200 or 1e+200, and for variables whose scales differ by "
    "more than 1e10: rescale them.",
    "diverged": "Steps grew a thousandfold and more beyond where they began: downhill leads to infinity. Is "
    "the sign right ([maximise](../howto/maximise.md))? Are there `bounds=` that the problem has "
    "and the call lacks?",
    "stagnation": "Half of all generations (a fifth, where restarts were asked for) brought nothing, "
    "neither for the best nor for the median value. "
    'Usual causes: a local optimum with a rugged floor (`restarts=`), [noise](../noise.md) (`noise="auto"`), '
    "or a very long valley (`stagnation=False` and patience).",
    "plateau": "Where restarts were asked for: `fun` has steps, and too few candidates see one from the "
    "other. A restart with twice the population follows, as long as there is budget.",
    "flat": "All candidates had one and the same value. The function is constant around here, or prints "
    "few digits, or ignores its argument: try `fun(x0)` and `fun(x0 + sigma0)` by hand. A larger "
    "`sigma0` may see beyond a plateau.",
    "failures": "Not one evaluation of three generations gave a finite number. `result.errors[0].traceback` "
    'is the first failure, with the line where it happened; `on_error="raise"` raises it at once. '
    "If only parts of the space fail, start where `fun` works.",
    "allowance": 'With `restarts="bipop"`, small populations have a share of the budget each; this one used '
    "its own.",
    "strategy": "The strategy itself raised an exception: with one of ours that is a bug, please report it; "
    "with [one of your own](../own_strategy.md) the message has its words.",
    "memory": "The next restart has twice the population, and there is no memory for it. Fewer `restarts=`, "
    "a smaller `popsize`, or a method that keeps less ([which](method.md)).",
}


class _Any:
    """Stands for a number in the words of an ending."""

    def __format__(self, spec: str) -> str:
        return "..."


class _Argument(str):
    """An argument in the words of an ending, with what is asked for it in brackets."""

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
    words = [
        f"\n## {e.reason}\n\n> {e.words.format_map(_Names())}\n\n{ADVICE.get(e.reason, '')}\n".replace(
            "....", "..."
        )
        for e in reasons
    ]
    table = "\n| reason | status | success | restarts |\n|---|---|---|---|\n"
    own = (
        "\n## Another word\n\nA strategy of your own may stop for reasons of its own: whatever its `stop()` "
        "returns is the reason, with status 14.\n"
    )
    return HEAD + table + "".join(rows) + "".join(words) + own


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text(encoding="utf-8") == page() else "docs/start/stop.md is out of date")
    PAGE.write_text(page(), encoding="utf-8")
