"""Write docs/algorithm1.md: Algorithm 1 line by line, each linked to the code that carries its tag.

python docs/tools/algorithm1.py [--check]
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "algorithm1.md"

# Line by line; the colour says which algorithm a line belongs to, black ones are shared.
LINES = [
    (
        "black",
        "given n, lambda = 4 + floor(3 ln n), mu = floor(lambda / 2), w_i, mu_w, rates of each",
    ),
    ("black", "initialise t = 0, y, sigma, p_sigma = 0; blue: p_c = 0, C = I; violet: M = I; green: m_i = 0"),
    ("black", "repeat"),
    ("black", "  for i = 1 ... lambda"),
    ("black", "    z_i ~ N(0, I)"),
    ("black", "    d_i = z_i"),
    ("blue", "    if t mod n/lambda = 0: M = C^(1/2)"),
    ("blue, violet", "    d_i = M d_i"),
    ("green", "    for j = 1 ... min(t, m)"),
    ("green", "      d_i = (1 - c_d,j) d_i + c_d,j m_j (m_j . d_i)"),
    ("black", "    f_i = f(y + sigma d_i)"),
    ("black", "  y = y + sigma sum_i w_i d_i:lambda"),
    ("black", "  p_sigma = (1 - c_sigma) p_sigma + sqrt(mu_w c_sigma (2 - c_sigma)) sum_i w_i z_i:lambda"),
    ("blue", "  p_c = (1 - c_c) p_c + sqrt(mu_w c_c (2 - c_c)) sum_i w_i d_i:lambda"),
    ("blue", "  C = (1 - c_1 - c_mu) C + c_1 p_c p_c^T + c_mu sum_i w_i d_i:lambda d_i:lambda^T"),
    (
        "violet",
        "  M = M [I + c_1/2 (p_sigma p_sigma^T - I) + c_mu/2 (sum w_i z_i:lambda z_i:lambda^T - I)]",
    ),
    ("green", "  for i = 1 ... m"),
    ("green", "    m_i = (1 - c_c,i) m_i + sqrt(mu_w c_c,i (2 - c_c,i)) sum_j w_j z_j:lambda"),
    ("black", "  sigma = sigma exp[c_sigma / 2 (|p_sigma|^2 / n - 1)]"),
    ("black", "  t = t + 1"),
    ("black", "until a stopping criterion is met"),
]


def tagged_places() -> dict[int, list[tuple[str, str]]]:
    """Return, for each line of Algorithm 1, the files and definitions in them that carry its tag."""
    places: dict[int, list[tuple[str, str]]] = {}
    for path in sorted((ROOT / "src" / "lmma").rglob("*.py")):
        text = path.read_text()
        scopes = list(definitions(ast.parse(text)))
        for number, line in enumerate(text.splitlines(), 1):
            code, _, comment = line.partition("#")
            for tag in re.findall(r"\[A1:(\d+)\]", comment if code.strip() else ""):
                inside = [name for name, first, last in scopes if first <= number <= last]
                place = (path.relative_to(ROOT).as_posix(), inside[-1] if inside else "")
                if place not in places.setdefault(int(tag), []):
                    places[int(tag)].append(place)
    return places


def definitions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, int, int]]:
    """Yield every class and function with its first and last line, outer ones first."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield prefix + node.name, node.lineno, node.end_lineno or node.lineno
            yield from definitions(node, f"{prefix}{node.name}.")


def page() -> str:
    """Return the text of the page."""
    places = tagged_places()
    rows = [
        "# Algorithm 1 and where it lives",
        "",
        "CMA-ES (blue), MA-ES (violet) and LM-MA-ES (green) share the black lines. Each line links to the",
        "code that carries its tag, such as `[A1:12]`. The page is made by `docs/tools/algorithm1.py`.",
        "",
        "| line | colour | Algorithm 1 | code |",
        "|---:|---|---|---|",
    ]
    for number, (colour, text) in enumerate(LINES, 1):
        links = ", ".join(
            f"[{path.rsplit('/', 1)[1]}](../{path}): `{name}`" for path, name in places.get(number, [])
        )
        indent = "&emsp;" * ((len(text) - len(text.lstrip())) // 2)
        formula = text.strip().replace("|", "\\|")
        rows.append(f"| {number} | {colour} | {indent}`{formula}` | {links} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text() == page() else f"{PAGE.name} is out of date: run {sys.argv[0]}")
    PAGE.write_text(page())
