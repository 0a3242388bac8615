"""Example simulator: reads a candidate, one number per line, and prints its misfit last.

The two numbers are the logarithms of a spring's stiffness and of a damper's strength: positive for any
candidate, so that every step of the search makes sense.
"""

import math
import sys


def positions(spring: float, damping: float) -> list[float]:
    """Let a mass swing for 8 seconds."""
    position, velocity, seen = 1.0, 0.0, []
    for _ in range(400):
        velocity -= 0.02 * (spring * position + damping * velocity)
        position += 0.02 * velocity
        seen.append(position)
    return seen


with open(sys.argv[1], encoding="ascii") as file:
    spring, damping = (math.exp(float(line)) for line in file)
if max(spring, damping) > 50:
    sys.exit("too stiff for this step size")  # status 1: a failed evaluation, and the search goes on
print("simulated 400 steps")
print(sum((a - b) ** 2 for a, b in zip(positions(spring, damping), positions(2.5, 0.4), strict=True)))
