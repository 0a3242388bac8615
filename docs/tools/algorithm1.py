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

# Line by line: which algorithm it belongs to (black ones are shared), how deep it lies, and what it says.
LINES = [
    (
        "black",
        0,
        r"given $n$, $\lambda = 4 + \lfloor 3 \ln n \rfloor$, $\mu = \lfloor \lambda/2 \rfloor$, $w_i$, $\mu_w$, rates of each",
    ),
    (
        "black",
        0,
        r"initialise $t = 0$, $y$, $\sigma$, $p_\sigma = 0$; blue: $p_c = 0$, $C = I$; violet: $M = I$; green: $m_i = 0$",
    ),
    ("black", 0, "repeat"),
    ("black", 1, r"for $i = 1, \ldots, \lambda$"),
    ("black", 2, r"$z_i \sim N(0, I)$"),
    ("black", 2, "$d_i = z_i$"),
    ("blue", 2, r"if $t \bmod n/\lambda = 0$: $M = C^{1/2}$"),
    ("blue, violet", 2, "$d_i = M d_i$"),
    ("green", 2, r"for $j = 1, \ldots, \min(t, m)$"),
    ("green", 3, r"$d_i = (1 - c_{d,j})\, d_i + c_{d,j}\, m_j\, (m_j \cdot d_i)$"),
    ("black", 2, r"$f_i = f(y + \sigma d_i)$"),
    ("black", 1, r"$y = y + \sigma \sum_i w_i\, d_{i:\lambda}$"),
    (
        "black",
        1,
        r"$p_\sigma = (1 - c_\sigma)\, p_\sigma + \sqrt{\mu_w c_\sigma (2 - c_\sigma)} \sum_i w_i\, z_{i:\lambda}$",
    ),
    ("blue", 1, r"$p_c = (1 - c_c)\, p_c + \sqrt{\mu_w c_c (2 - c_c)} \sum_i w_i\, d_{i:\lambda}$"),
    (
        "blue",
        1,
        r"$C = (1 - c_1 - c_\mu)\, C + c_1\, p_c p_c^T + c_\mu \sum_i w_i\, d_{i:\lambda} d_{i:\lambda}^T$",
    ),
    (
        "violet",
        1,
        r"$M = M \left[ I + \frac{c_1}{2} (p_\sigma p_\sigma^T - I) + \frac{c_\mu}{2} (\sum_i w_i\, z_{i:\lambda} z_{i:\lambda}^T - I) \right]$",
    ),
    ("green", 1, r"for $i = 1, \ldots, m$"),
    (
        "green",
        2,
        r"$m_i = (1 - c_{c,i})\, m_i + \sqrt{\mu_w c_{c,i} (2 - c_{c,i})} \sum_j w_j\, z_{j:\lambda}$",
    ),
    (
        "black",
        1,
        r"$\sigma = \sigma \exp\left[ \frac{c_\sigma}{2} \left( \frac{\lVert p_\sigma \rVert^2}{n} - 1 \right) \right]$",
    ),
    ("black", 1, "$t = t + 1$"),
    ("black", 0, "until a stopping criterion is met"),
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
        'CMA-ES (<span class="a1-blue">blue</span>), MA-ES (<span class="a1-violet">violet</span>) and LM-MA-ES',
        '(<span class="a1-green">green</span>) share the black lines. Each line links to the code that carries its tag, such as',
        "`[A1:12]`. Where the code departs from the letter: [departures](departures.md). The page is made by",
        "`docs/tools/algorithm1.py`.",
        "",
        "| line | colour | Algorithm 1 | code |",
        "|---:|---|---|---|",
    ]
    for number, (colour, depth, text) in enumerate(LINES, 1):
        links = ", ".join(
            f"[{path.rsplit('/', 1)[1]}](../{path}#A1:{number}@{name}): `{name}`"
            for path, name in places.get(number, [])
        )
        first = colour.partition(",")[0]
        shown = text if first == "black" else f'<span class="a1-{first}">{text}</span>'
        rows.append(f"| {number} | {colour} | {'&emsp;' * depth}{shown} | {links} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(
            0
            if PAGE.read_text(encoding="utf-8") == page()
            else f"{PAGE.name} is out of date: run {sys.argv[0]}"
        )
    PAGE.write_text(page(), encoding="utf-8")
