import lmma
from lmma import problems
from lmma.cli import main


def test_methods_lists_every_method_with_its_cost(capsys):
    assert main(["methods", "--verbose"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in lmma.methods():
        line = next(line for line in lines if line.startswith(f"{name} "))
        assert "O(" in line
    assert any(line.startswith("kernels") for line in lines)


def test_methods_tells_the_memory_for_a_given_n(capsys):
    main(["methods", "--dim", "1000000"])
    out = capsys.readouterr().out
    assert "n=1,000,000" in out
    assert "8.0 TB" in out  # a full matrix


def test_problems_lists_every_problem(capsys):
    assert main(["problems"]) == 0
    out = capsys.readouterr().out
    for name in problems.names():
        assert f"\n{name} " in out


def test_version_and_help(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith(f"lmma {lmma.__version__} (kernels: ")
    assert main([]) == 0
    assert "examples:" in capsys.readouterr().out
    for command in ("minimize", "methods", "problems"):
        assert main([command, "--help"]) == 0
        assert "examples:" in capsys.readouterr().out
