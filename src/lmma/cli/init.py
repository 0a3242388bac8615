"""``lmma init``: a starter model.py and space.toml."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path

from lmma._files import OutputError, write_text
from lmma.cli import status
from lmma.cli.status import UsageError

EPILOG = """\
The two files describe a small example, the design of a tank, and run as they are. Replace the function in
model.py with yours and the variables in space.toml with its arguments.

examples:
  lmma init
  lmma init tank && cd tank && lmma minimize --space space.toml
"""

MODEL = '''\
"""The objective of space.toml: a tank of 2 m3 that is cheap and keeps warm. Replace it with your model.

The function is called with one value per variable, by name, and returns a number: smaller is better. To
maximise, return the negative value. An exception or NaN is a failed evaluation: counted, and ranked last.
"""

import math

VOLUME = 2.0  # m3
PRESSURE = 1e6  # Pa
# material: density in kg/m3, price per kg, allowed stress in Pa
MATERIALS = {"steel": (7850, 1.5, 1.6e8), "stainless": (7900, 4.0, 2.0e8), "aluminium": (2700, 5.0, 0.8e8)}


def cost(diameter, wall, insulation, ribs, material):
    """Return the cost of a tank, and by how much the stress in its wall exceeds the allowed one."""
    density, price, allowed = MATERIALS[material]
    thickness = wall / 1000  # m
    length = VOLUME / (math.pi / 4 * diameter**2)
    surface = math.pi * diameter * length + math.pi / 2 * diameter**2
    shell = surface * thickness * density * price
    welding = 50 * math.pi * diameter + 12 * ribs
    heating = 30 * surface / (1 + 25 * insulation)
    stress = PRESSURE * diameter / (2 * thickness) / (1 + 0.1 * ribs)
    # Constraints come after the value and must be <= 0. Without constraints, return the value alone.
    return shell + welding + heating + 400 * surface * insulation, [stress / allowed - 1]
'''

SPACE = """\
# The variables of the model and the options of the run. To start it:
#
#     lmma minimize --space space.toml
#
# Options on the command line override those of this file.

[variables]
# real: between the two limits. The unit is shown with the result.
diameter = { real = [0.5, 2.5], unit = "m" }
wall = { real = [1, 20], unit = "mm" }
# log: for a variable whose order of magnitude is unknown
insulation = { real = [1e-3, 1], log = true, unit = "m" }
# integer: whole numbers, limits included
ribs = { integer = [0, 8] }
# choice: values without an order
material = { choice = ["steel", "stainless", "aluminium"] }
# shape: an array of numbers, such as ten thicknesses
# thickness = { real = [1, 20], unit = "mm", shape = 10 }
# a plain value is a constant, passed to the model
# gravity = 9.81

[run]
# module:function, or command = "./simulate {json}" for a program of any language
objective = "model:cost"
# budget: evaluations, or max-time in seconds; the run may end earlier if it converges
max-evaluations = 2000
# the same seed gives the same run
seed = 1
# start; variables that are not named start in the middle
# x0 = { diameter = 1.2, material = "steel" }
# processes that evaluate at the same time, -1: one per core
# workers = -1
# seconds after which an evaluation is abandoned
# timeout = 600
# files to resume an interrupted run from (lmma resume run.npz), and to watch (lmma watch run.jsonl)
# checkpoint = "run.npz"
# log = "run.jsonl"
# search again elsewhere after convergence, for functions with several minima
# restarts = "bipop"
"""
FILES = {"model.py": MODEL, "space.toml": SPACE}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    parser.add_argument(
        "folder",
        metavar="FOLDER",
        nargs="?",
        default=".",
        help="folder for the files (default: the current folder)",
    )
    parser.add_argument("--force", action="store_true", help="overwrite existing files")


def run(args: argparse.Namespace) -> int:
    """Write the files and print the next commands; existing files are kept unless ``--force`` is given."""
    folder = Path(args.folder)
    existing = [str(folder / name) for name in FILES if os.path.lexists(folder / name)]
    if existing and not args.force:
        verb = "exists" if len(existing) == 1 else "exist"
        raise UsageError(
            f"{' and '.join(existing)} already {verb}: name another FOLDER, or overwrite with --force"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in FILES.items():
            _write(folder / name, text, overwrite=args.force)
    except OSError as error:
        reason = error if isinstance(error, OutputError) else f"{error.filename}: {error.strerror}"
        raise UsageError(f"cannot write the starter files: {reason}", status.UNWRITTEN) from None
    print(f"wrote {' and '.join(str(folder / name) for name in FILES)}")
    print("next:")
    if folder != Path():
        print(f"  cd {shlex.quote(str(folder))}")
    print("  lmma check --space space.toml     # what kind of function is it?")
    print("  lmma minimize --space space.toml")
    return status.OK


def _write(path: Path, text: str, *, overwrite: bool) -> None:
    if overwrite:
        write_text(path, text)
        return
    with open(path, "x", encoding="utf-8") as file:
        file.write(text)
