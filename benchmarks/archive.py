"""Cost of an archive per evaluation, its size, and a test that kills lose no evaluation.

    python benchmarks/archive.py cost
    python benchmarks/archive.py kills --kills 200

``cost`` runs the same search with and without an archive, and times what the archive does inside the run, so
that other programs on the machine affect both. ``kills`` ends runs by SIGKILL at random moments, in this
process and with workers, with and without a checkpoint. It counts evaluations that had ended and were made
again, and compares the final results bit by bit with that of a run that was not killed.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "LMMA_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np

import lmma
from lmma.run.archive.writer import ArchiveWriter

VARIABLES = 6
CALL = 0.001  # seconds


def sleeping(x):
    """Return the value after about a millisecond, which is spent computing."""
    end = time.perf_counter() + CALL
    while time.perf_counter() < end:
        pass
    return float(x @ x)


def cost(rows: int) -> None:
    spent: dict[str, list[float]] = {}

    def timed(name, method):
        def call(*args):
            began = time.perf_counter()
            try:
                return method(*args)
            finally:
                spent[name].append(time.perf_counter() - began)

        return call

    print(
        "variables   evaluations   us per row: median, mean   share of the run: median, mean   bytes per row"
    )
    for n in (10, 100, 1000):
        original = {name: getattr(ArchiveWriter, name) for name in ("key", "find", "add")}
        spent |= {name: [] for name in original}
        for name, method in original.items():
            setattr(ArchiveWriter, name, timed(name, method))
        try:
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "runs.db"
                began = time.perf_counter()
                result = lmma.minimize(
                    sleeping, np.ones(n), 0.5, rng=1, maxfevals=rows, archive=file, restarts=1000
                )
                took = time.perf_counter() - began
                size = file.stat().st_size
        finally:
            for name, method in original.items():
                setattr(ArchiveWriter, name, method)
        each = np.sum([np.array(times) for times in spent.values()], axis=0)  # per row
        median, mean = float(np.median(each)), float(np.mean(each))
        share = mean * result.nfev / took
        print(
            f"{n:9}   {result.nfev:11}   {1e6 * median:14.1f} {1e6 * mean:8.1f}   "
            f"{share * median / mean:22.2%} {share:8.2%}   {size / result.nfev:13.0f}"
        )


# Kills


def recorded(x):
    """Return the value after a line in a file has told that the evaluation is over."""
    time.sleep(CALL)
    if x[1] > 1.35:
        raise RuntimeError("too far")
    value = float(x @ x) if x[0] < 1.4 else float("nan")
    with open(os.environ["FOLDER"] + "/calls", "ab", 0) as file:
        file.write(b"%r\n" % (x.tolist(),))
    return value


def one_run(folder: str, workers: int, saves: bool) -> None:
    checkpoint = lmma.Checkpoint(folder + "/run.npz", every=0.02) if saves else None
    result = lmma.minimize(
        recorded, np.ones(VARIABLES), 0.5, rng=5, maxfevals=480, popsize=24, workers=workers,
        archive=folder + "/runs.db", checkpoint=checkpoint,
    )  # fmt: skip
    del result["archive"]
    result.save(folder + "/result.npz")


def repeated_evaluations(folder: Path) -> int:
    """Return the number of evaluations that had ended and were made again, because nothing had kept them."""
    made = (folder / "calls").read_text().splitlines()
    return len(made) - len(set(made))


def bits(result) -> tuple:
    names = ("nfev", "nit", "failures", "message", "sigma")
    errors = tuple(str(error) for error in result.errors)
    return result.x.tobytes(), result.mean.tobytes(), result.fun, errors, *(result[name] for name in names)


def start(folder: Path, workers: int, saves: bool) -> subprocess.Popen:
    command = [sys.executable, __file__, "one", str(workers), str(int(saves))]
    return subprocess.Popen(command, env={**os.environ, "FOLDER": str(folder)})


def kills(count: int) -> None:
    rng = np.random.default_rng()
    print(
        "workers   checkpoint   kills   runs   evaluations repeated, of those in flight   different results"
    )
    for workers in (1, 2):
        for saves in (True, False):
            with tempfile.TemporaryDirectory() as name:
                unbroken = Path(name) / "unbroken"
                unbroken.mkdir()
                began = time.monotonic()
                assert start(unbroken, workers, saves).wait() == 0
                longest = time.monotonic() - began
                expected = bits(lmma.load(unbroken / "result.npz"))
                killed = runs = different = lost = 0
                while killed < count // 4:
                    runs += 1
                    folder = Path(name) / f"run-{runs}"
                    folder.mkdir()
                    while not (folder / "result.npz").exists():
                        process = start(folder, workers, saves)
                        try:
                            process.wait(float(rng.uniform(0.2, longest)) if killed < count // 4 else None)
                            assert process.returncode == 0
                        except subprocess.TimeoutExpired:
                            process.send_signal(signal.SIGKILL)
                            process.wait()
                            killed += 1
                    lost += repeated_evaluations(folder)
                    different += bits(lmma.load(folder / "result.npz")) != expected
                print(
                    f"{workers:7}   {saves!s:10}   {killed:5}   {runs:4}   "
                    f"{lost:20}, {workers * killed:17}   {different:17}"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("cost").add_argument("--rows", type=int, default=5000)
    commands.add_parser("kills").add_argument("--kills", type=int, default=200)
    one = commands.add_parser("one")
    one.add_argument("workers", type=int)
    one.add_argument("saves", type=int)
    args = parser.parse_args()
    if args.command == "cost":
        cost(args.rows)
    elif args.command == "kills":
        kills(args.kills)
    else:
        one_run(os.environ["FOLDER"], args.workers, bool(args.saves))


if __name__ == "__main__":
    main()
