import json
import re
import sys

import numpy as np
import pytest

import lmma
from lmma import problems
from lmma.cli import main


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a module of the given text into the current directory and returns its name."""
    names = []

    def write(text):
        names.append(f"module_{abs(hash(text))}")
        (tmp_path / f"{names[-1]}.py").write_text(text)
        return names[-1]

    yield write
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def result(capsys):
    """Runs ``lmma minimize ... --json`` and returns the exit status and the result."""

    def run(*words):
        status = main(["minimize", *map(str, words), "--json", "--quiet"])
        return status, json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def complaint(capsys):
    """Runs a command that must be refused and returns the one line it is refused with."""

    def run(*words):
        assert main([*map(str, words)]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("lmma: ")
        assert captured.err.count("\n") == 1
        return captured.err

    return run


SPHERE = "def loss(x):\n    return float(x @ x)\n"


def test_the_command_line_runs_what_the_library_runs(result):
    cigar = problems.get("rotated-cigar")
    x0 = cigar.start(8, 5)
    mine = lmma.minimize(
        cigar, x0, 3.0, method="lm-ma-es", rng=5, maxfevals=1500, ftarget=1e-10, vectorized=True, m=4
    )
    status, theirs = result("rotated-cigar", "--dim", 8, "--method", "lm-ma-es", "--seed", 5,
                            "--max-evaluations", 1500, "--set", "m=4")  # fmt: skip
    assert status == 0
    assert (theirs["fun"], theirs["nfev"], theirs["x"]) == (mine.fun, mine.nfev, list(mine.x))


def test_a_run_can_be_repeated_with_the_seed_it_reports(result):
    _, first = result("sphere", "--dim", 4)
    _, second = result("sphere", "--dim", 4, "--seed", first["seed"])
    assert first["x"] == second["x"]
    assert first["x"] != result("sphere", "--dim", 4)[1]["x"]  # unasked, every run is another
    assert first["x"] != result("sphere", "--dim", 4, "--seed", first["seed"] + 1)[1]["x"]


def test_every_method_runs_under_its_name(result):
    for method in lmma.methods():
        status, outcome = result("sphere", "--dim", 4, "--method", method, "--seed", 1)
        solved = method != "open-es"  # whose step size is the user's, and stays
        assert (status, outcome["method"]) == (0 if solved else 1, method)


def test_a_function_starts_at_zero_by_default(result, module):
    name = module("starts = []\ndef loss(x):\n    starts.append(x)\n    return float(x @ x)\n")
    status, _ = result(f"{name}:loss", "--dim", 3, "--sigma0", 1e-9, "--max-generations", 1)
    assert status == 0
    assert np.abs(sys.modules[name].starts[0]).max() < 1e-7


def test_vectorized_functions_get_rows(result, module):
    name = module("def loss(X):\n    assert X.ndim == 2\n    return (X ** 2).sum(axis=1)\n")
    status, outcome = result(f"{name}:loss", "--x0", 1, "--dim", 3, "--vectorized", "--target", 1e-4)
    assert status == 0
    assert outcome["fun"] <= 1e-4


@pytest.mark.parametrize("suffix", ["npy", "txt", "csv"])
def test_saved_x_is_read_back_exactly(result, suffix, tmp_path):
    ranks = ("--values", "ranks", "--seed", 1)  # slopes may find 0 exactly, which any step would change
    _, first = result("sphere", "--x0=-1,2,-.5", "--save-x", f"x.{suffix}", "--target", "0.1", *ranks)
    assert first["target"] == 0.1
    _, second = result("sphere", "--x0", f"x.{suffix}", "--sigma0", 1e-60, "--max-generations", 1, *ranks)
    assert second["x"] == first["x"]


def test_a_start_of_negative_numbers_needs_no_equals_sign(result):
    _, outcome = result("sphere", "--x0", "-1,-2.5", "--sigma0", 1e-30, "--max-generations", 1)
    assert outcome["x"] == [-1.0, -2.5]


def test_targets_may_be_negative_or_none(result, module):
    name = module("def loss(x):\n    return float(x @ x) - 1e5\n")
    status, outcome = result(f"{name}:loss", "--dim", 2, "--target", "-9.9999e4")
    assert (status, outcome["reason"], outcome["target"]) == (0, "ftarget", -99999.0)
    _, outcome = result("sphere", "--dim", 2, "--target", "none")
    assert outcome["reason"] in ("tolx", "tolfun")
    assert outcome["target"] is None


def test_one_step_size_for_each_variable(result):
    _, outcome = result(
        "sphere",
        "--x0",
        "1,1,1",
        "--sigma0",
        "1e-30,1e-30,1e-12",
        "--max-generations",
        1,
        "--values",
        "ranks",
    )
    assert outcome["x"][:2] == [1.0, 1.0]
    assert outcome["x"][2] != 1.0


@pytest.mark.parametrize(("option", "value", "reason"), [
    ("--max-evaluations", "1e2", "maxfevals"),
    ("--max-generations", 7, "maxiter"),
    ("--max-time", 1e-9, "maxtime"),
])  # fmt: skip
def test_every_budget_stops_the_run_with_status_0(result, option, value, reason):
    status, outcome = result("rosenbrock", "--dim", 20, option, value)
    assert (status, outcome["reason"]) == (0, reason)
    assert option in outcome["message"]


# Fails now and then, so that what happens next matters too
FRAGILE = "def loss(x):\n    return float('nan') if x[0] > 2.2 else float(((x - 1) ** 2).sum())\n"


@pytest.mark.parametrize(("words", "arguments"), [
    ("--popsize 20", {"popsize": 20}),
    ("--sigma0 0.2", {"sigma0": 0.2}),
    ("--sigma0 0.1,0.2,0.3", {"sigma0": [0.1, 0.2, 0.3]}),
    ("--seed 2", {"rng": 2}),
    ("--dtype float32", {"dtype": "float32"}),
    ("--method cma-es", {"method": "cma-es"}),
    ("--set c_1=0.5", {"c_1": 0.5}),
    ("--bounds 1.5,3", {"bounds": [1.5, 3]}),
    ("--bounds -inf,2.1", {"bounds": [-np.inf, 2.1]}),
    ("--restarts 2 --tolfun 0.1", {"restarts": 2, "tolfun": 0.1}),
    ("--restarts bipop:2 --tolfun 0.1", {"restarts": "bipop:2", "tolfun": 0.1}),
    ("--on-error resample", {"on_error": "resample"}),
    ("--target 0.5", {"ftarget": 0.5}),
    ("--max-evaluations 99", {"maxfevals": 99}),
    ("--max-generations 9", {"maxiter": 9}),
    ("--tolx 0.5", {"tolx": 0.5}),
    ("--tolfun 0.5", {"tolfun": 0.5}),
])  # fmt: skip
def test_an_option_means_what_its_argument_means(result, module, words, arguments):
    name = module(FRAGILE)
    known = [
        "--x0",
        "2,2,2",
        "--sigma0",
        "0.5",
        "--method",
        "ma-es",
        "--seed",
        "1",
        "--max-generations",
        "100",
    ]
    same = {"sigma0": 0.5, "method": "ma-es", "rng": 1, "maxiter": 100}
    _, theirs = result(f"{name}:loss", *known, *words.split())
    loss = sys.modules[name].loss
    mine, plain = (lmma.minimize(loss, np.full(3, 2.0), **same | more) for more in (arguments, {}))
    assert (theirs["x"], theirs["nfev"], theirs["reason"]) == (list(mine.x), mine.nfev, mine.reason)
    assert (list(mine.x), mine.nfev) != (list(plain.x), plain.nfev)  # it makes a difference


def test_tolerances_are_passed_on(result):
    _, outcome = result("sphere", "--dim", 3, "--target", "none", "--tolx", 0.1, "--values", "ranks")
    assert outcome["reason"] == "tolx"
    assert 1e-8 < outcome["fun"] < 1


def test_converged_short_of_the_target_is_status_1(result):
    status, outcome = result("sphere", "--dim", 3, "--target", "-1")
    assert (status, outcome["success"]) == (1, False)
    assert "--target = -1 was not reached" in outcome["message"]


def test_single_precision_is_passed_on(result):
    _, outcome = result("sphere", "--dim", 3, "--dtype", "float32", "--max-generations", 1)
    assert [float(np.float32(value)) for value in outcome["x"]] == outcome["x"]


def test_failed_evaluations_are_counted_and_shown(result, module):
    name = module(SPHERE.replace("return", "if x[0] > 0.5: raise RuntimeError('too far')\n    return"))
    status, outcome = result(f"{name}:loss", "--x0", "0.5,0.5", "--target", 1e-4, "--seed", 1)
    assert status == 0
    assert outcome["failures"] > 0
    assert outcome["errors"][0]["kind"] == "RuntimeError"
    assert outcome["errors"][0]["message"] == "too far"


def test_an_objective_that_breaks_for_good_ends_the_run(result, module):
    name = module("n = 0\ndef loss(x):\n    global n\n    n += 1\n    return 1 / (n <= 20) * float(x @ x)\n")
    status, outcome = result(f"{name}:loss", "--dim", 3)
    assert (status, outcome["reason"], outcome["success"]) == (1, "failures", False)


def test_the_run_is_drawn(result, drawn, tmp_path):
    result("ellipsoid", "--dim", 3, "--seed", 1, "--values", "ranks", "--plot", "a.svg")
    texts, curves = drawn("a.svg")
    assert {"best value", "evaluations", "target 1e-10"} <= set(texts)
    assert sum(points > 10 for points in curves) == 2  # the value and the step size
    result("sphere", "--dim", 3, "--seed", 1, "--plot", "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_only_files_that_were_asked_for_appear(result, tmp_path):
    result("sphere", "--dim", 3, "--save-x", "x.npy")
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


@pytest.mark.parametrize(("words", "hint"), [
    (["minimize"], "neither"),
    (["minimize", "sphere", "--command", "true"], "both"),
    (["minimize", "sphere", "--method", "lmmaes"], "did you mean 'lm-ma-es'"),
    (["minimize", "sphere", "--method", "lm-ma-es", "--set", "mm=3"], "unknown option 'mm'"),
    (["minimize", "sphere", "--set", "m"], "NAME=VALUE"),
    (["minimize", "sphere", "--sigma0", "0"], "--sigma0 must be positive"),
    (["minimize", "sphere", "--sigma0", "1,2"], "--sigma0"),
    (["minimize", "sphere", "--dim", "0"], "at least 1"),
    (["minimize", "sphere", "--dim", "2.5"], "whole number"),
    (["minimize", "sphere", "--popsize", "1"], "--popsize must be at least 2"),
    (["minimize", "sphere", "--values", "ranks", "--max-evaluations", "3"], "--max-evaluations"),
    (["minimize", "sphere", "--max-time", "soon"], "expected a number"),
    (["minimize", "sphere", "--tolx", "-1"], "at least 0"),
    (["minimize", "sphere", "--x0", "a,b"], "--x0 must be comma-separated numbers"),
    (["minimize", "sphere", "--x0", "1,nan"], "--x0 must be finite"),
    (["minimize", "sphere", "--x0", "missing.npy"], "does not exist"),
    (["minimize", "sphere", "--x0", "1,2", "--dim", "3"], "--dim is 3"),
    (["minimize", "sphere", "--plot", "a.gif"], ".png, .svg or .pdf"),
    (["minimize", "sphere", "--plot", "nowhere/a.png"], "no such directory"),
    (["minimize", "sphere", "--save-x", "x.mat"], ".npy, .txt or .csv"),
    (["minimize", "sphere", "--dtype", "int"], "--dtype"),
    (["minimize", "sphere", "--colour", "blue"], "--colour"),
    (["minimize", "no_such_module:loss", "--dim", "2"], "No module named"),
    (["minimize", "math:sqroot", "--dim", "2"], "did you mean 'sqrt'"),
    (["minimize", "math:pi", "--dim", "2"], "not a function"),
    (["minimize", "math:", "--dim", "2"], "module:function"),
    (["minimize", "math:fsum"], "--dim or --x0"),
    (["minimize", "math:fsum", "--x0", "1"], "--dim"),
    (["minimize", "numpy:sort", "--dim", "2"], "must return one real number"),
    (["minimize", "--command", "./missing {file}", "--dim", "2"], "program './missing' not found"),
    (["minimize", "--command", "'unclosed", "--dim", "2"], "cannot be split"),
    (["minimize", "--command", "true", "--vectorized", "--dim", "2"], "a program takes one candidate"),
    (["minimise"], "expected either TARGET"),
    (["mini"], "unknown command 'mini' (did you mean 'minimize'?)"),
    (["sphere"], "unknown command 'sphere'"),
    (["minimize", "sphere", "--verbose"], "--verbose: omitting --quiet shows progress"),
    (["minimize", "sphere", "--maxfev", "3"], "--maxfev: use --max-evaluations"),
    (["minimize", "sphere", "--n-jobs", "3"], "--n-jobs: use --workers"),
    (["minimize", "sphere", "--random-state", "3"], "--random-state: use --seed"),
    (["minimize", "sphere", "--maximize"], "--maximize: to maximise, return -fun(x)"),
    (["minimize", "../model.py:loss", "--dim", "2"], "change to its directory and use model:function"),
])  # fmt: skip
def test_mistakes_are_rejected_in_one_line_that_names_them(complaint, words, hint):
    assert hint in complaint(*words)


def test_a_broken_module_is_rejected_with_the_place(complaint, module):
    name = module("import numpy\n\nx = 1 / 0\n")
    message = complaint("minimize", f"{name}:loss", "--dim", 2)
    assert "ZeroDivisionError" in message
    assert f"{name}.py:3" in message


def test_files_that_hold_no_vector_are_rejected(complaint, tmp_path):
    np.save("matrix.npy", np.zeros((2, 3)))
    np.save("objects.npy", np.array([object()]), allow_pickle=True)
    (tmp_path / "words.txt").write_text("one two")
    (tmp_path / "empty.csv").write_text("")
    for file, hint in [("matrix.npy", "(2, 3)"), ("objects.npy", "cannot be read"),
                       ("words.txt", "cannot be read"), ("empty.csv", "no numbers")]:  # fmt: skip
        assert hint in complaint("minimize", "sphere", "--x0", file)


def test_a_request_beyond_memory_is_rejected(complaint):
    assert "--method lm-ma-es" in complaint("minimize", "sphere", "--dim", "3e6", "--method", "cma-es")


@pytest.mark.parametrize("how", ["numbers", "file"])
def test_bounds_of_two_variables_are_kept(how, module, result, tmp_path):
    (tmp_path / "box.txt").write_text("-1 3\n2 4\n")
    bounds, best = ("-1,3", [-1, -1]) if how == "numbers" else ("box.txt", [-1, 2])
    name = module("def loss(x):\n    return float(((x + 7) ** 2).sum())\n")
    _, found = result(f"{name}:loss", "--dim", 2, "--bounds", bounds, "--seed", 1)
    assert np.allclose(found["x"], best, atol=1e-4)


def test_one_file_for_two_options_is_rejected(module, complaint):
    words = ["minimize", f"{module(SPHERE)}:loss", "--dim", 2]
    assert "--checkpoint and --log both name a" in complaint(*words, "--checkpoint", "a", "--log", "a")
    assert "--log and --save-x both name" in complaint(*words, "--log", "a.txt", "--save-x", "./a.txt")


def test_a_checkpoint_is_not_a_log(complaint, tmp_path):
    lmma.minimize(lambda x: float(x @ x), np.ones(2), 1.0, maxiter=3, checkpoint="run.npz")
    assert "it is a checkpoint" in complaint("plot", "run.npz")
    (tmp_path / "noise.bin").write_bytes(bytes(range(128, 256)))
    assert "is not a log" in complaint("plot", "noise.bin")
    for folder in (".", ""):
        assert "cannot be read" in complaint("plot", folder)


@pytest.mark.parametrize("error", ["OSError('down')", "ValueError('bad mesh')", "GeneratorExit('gone')"])
def test_a_failure_that_ends_the_run_is_reported_in_one_line_with_its_location(error, module, capsys):
    name = module(f"def loss(x):\n    raise {error}\n")
    assert main(["minimize", f"{name}:loss", "--dim", "3", "--on-error", "raise", "--quiet"]) == 3
    captured = capsys.readouterr()
    kind, _, words = error.removesuffix("')").partition("('")
    assert captured.err.startswith(f"lmma: {name}:loss: {kind}: {words} at ")
    assert captured.err.endswith(f"{name}.py:2 (--on-error raise)\n")
    assert captured.out == ""


def test_a_target_may_name_its_file(module, result, tmp_path):
    name = module("def loss(x):\n    return x @ x\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "model.py").write_text("def loss(x):\n    return x @ x\n")
    runs = [
        result(target, "--dim", 3, "--seed", 1, "--max-generations", 5)[1]
        for target in (f"{name}:loss", f"{name}.py:loss", f"./{name}.py:loss", "sub/model.py:loss")
    ]
    assert [run["x"] for run in runs] == [runs[0]["x"]] * 4


def test_the_british_spelling_is_a_command_too(capsys):
    assert main(["minimise", "sphere", "--dim", "3", "--quiet", "--max-generations", "3"]) == 0
    assert "sphere" in capsys.readouterr().out


def test_an_objective_that_works_in_place_is_rejected_in_one_line(module, complaint):
    name = module("def loss(X):\n    X -= 3\n    return (X**2).sum(axis=1)\n")
    assert "work on a copy" in complaint("minimize", f"{name}:loss", "--dim", 2, "--vectorized", "--quiet")


CONSTRAINED = SPHERE + "def g(x):\n    return [x[0] + 1]\ndef both(x):\n    return loss(x), g(x)\n"


def test_constraints_are_named_on_the_command_line(module, result):
    name = module(CONSTRAINED)
    alike = ("--dim", 3, "--method", "pulse-full", "--seed", 1)  # auto goes by what it knows beforehand
    status, found = result(f"{name}:loss", "--constraints", f"{name}:g", *alike)
    assert status == 0
    assert abs(found["fun"] - 1) < 1e-6
    assert found["maxcv"] <= 1e-8
    assert abs(found["multipliers"][0][0] - 2) < 1e-3
    status, same = result(f"{name}:both", *alike)
    assert (status, same["x"]) == (0, found["x"])


def test_a_program_prints_constraints_after_its_value(result, tmp_path):
    (tmp_path / "simulate.py").write_text(
        "import sys\nx = [float(v) for v in sys.stdin]\nprint(sum(v * v for v in x), x[0] + 1)\n"
    )
    command = f"{sys.executable} simulate.py"
    status, found = result("--command", command, "--dim", 2, "--max-generations", 5, "--seed", 1)
    assert status == (0 if found["maxcv"] <= 1e-8 else 1)
    assert found["maxcv"] == pytest.approx(max(0.0, found["x"][0] + 1))


def test_wrong_constraints_are_rejected_on_the_command_line(module, complaint):
    name = module(CONSTRAINED + "nothing = 3\n")
    assert "has no 'gg'" in complaint("minimize", f"{name}:loss", "--dim", 3, "--constraints", f"{name}:gg")
    assert "constraints must be" in complaint(
        "minimize", f"{name}:loss", "--dim", 3, "--constraints", f"{name}:nothing"
    )
    assert "--constraints must be module" in complaint(
        "minimize", f"{name}:loss", "--dim", 3, "--constraints", "g"
    )


def test_the_parts_of_the_default_are_listed(capsys):
    assert main(["minimize", "rastrigin", "--dim", "10", "--seed", "1"]) == 0
    text = capsys.readouterr().out
    (parts,) = re.findall(r"^  parts +(.*)", text, re.MULTILINE)
    assert "by coordinates" in parts
    (evaluations,) = re.findall(r"^  evaluations +([\d,]*)", text, re.MULTILINE)
    counts = [int(count.replace(",", "")) for count in re.findall(r"[\d,]*\d", parts)]
    assert sum(counts) == int(evaluations.replace(",", ""))
