"""The numbers of docs/attack.md, from the attacks that a store holds.

    python benchmarks/attack_results.py out/attack lab/results/attack

The store is that of ``lmma attack --out``, with all images attacked by each method. Attacks of other settings
(``--clip --round``) make rows of their own. Writes results.json and prints the tables.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from dataclasses import asdict
from itertools import combinations
from pathlib import Path

import numpy as np

from lmma_lab.analysis.samples import BAND
from lmma_lab.attack.records import KIND, Record, record_fault
from lmma_lab.attack.summary import pair, summarise
from lmma_lab.plotting.attack import BANDS
from lmma_lab.report.tables import markdown_table
from lmma_lab.store import FILE, Store

METHODS = ("lm-ma-es", "ma-es", "csa-es")


def campaigns(folder):
    """Return the records of each method, clipping and rounding apart, by image."""
    found = defaultdict(list)
    with Store(folder / FILE, record_fault) as store:
        for content in store.records(KIND):
            spec = content["spec"]
            found[spec["method"], spec["clip"] or spec["round"]].append(Record.from_json(content))
    return {key: sorted(records, key=lambda record: record.image) for key, records in found.items()}


def band(tables, images):
    """Return the final medians, the successes and the median curves of the methods on some images."""
    chosen = {method: [table[image] for image in images] for method, table in tables.items()}
    numbers = {
        method: {
            "median": float(np.median([r.value for r in records])),
            "successes": sum(r.success for r in records),
        }
        for method, records in chosen.items()
    }
    curves = {
        method: [float(f"{v:.4g}") for v in np.median([r.curve for r in records], axis=0)]
        for method, records in chosen.items()
    }
    return numbers | {"curves": curves}


def results(found):
    """Return all numbers, ready for JSON."""
    plain = {method: found[method, False] for method in METHODS}
    numbers = {
        _title(*key): asdict(summarise(records))
        | {"mean CPU seconds": float(np.mean([r.seconds for r in records]))}
        for key, records in sorted(found.items(), key=lambda item: (item[0][1], METHODS.index(item[0][0])))
    }
    for one, two in combinations(METHODS, 2):
        alone = [
            sum(a.success and not b.success for a, b in zip(plain[x], plain[y], strict=True))
            for x, y in ((one, two), (two, one))
        ]
        numbers[f"{_title(one)} against {_title(two)}"] = asdict(pair(plain[one], plain[two])) | {
            "first_alone": alone[0], "second_alone": alone[1],
        }  # fmt: skip
    ours = plain[METHODS[0]]
    half = max(r.image for r in ours) // 2 + 1
    for name, first, last in (("first half", 0, half), ("second half", half, 2 * half)):
        numbers[name] = float(np.mean([r.success for r in ours if first <= r.image < last]))
    tables = {method: {r.image: r for r in records} for method, records in plain.items()}
    order = [r.image for r in sorted(ours, key=lambda r: (r.start, r.image))]
    for first in BANDS:
        numbers[f"problems {first} to {first + BAND - 1}"] = band(tables, order[first : first + BAND])
    return numbers


def _title(method, valid=False):
    return method.upper() + (", valid 8-bit images" if valid else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("store", type=Path, help="folder with the store of lmma attack")
    parser.add_argument("out", type=Path, help="folder for results.json")
    options = parser.parse_args()
    numbers = results(campaigns(options.store))
    (options.out / "results.json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    rows = [["campaign", "images", "success", "95% interval", "L2", "Linf", "queries", "ms"]]
    for name, row in numbers.items():
        if isinstance(row, dict) and "rate" in row:
            rows.append([
                name, f"{row['images']:,}", f"{row['rate']:.1%}",
                f"{row['rate_low']:.1%} to {row['rate_high']:.1%}",
                f"{row['l2']:.1f}", f"{row['linf']:.1f}", f"{row['queries']:.0f}",
                f"{1000 * row['mean CPU seconds']:.0f}",
            ])  # fmt: skip
    print(markdown_table(rows))
    bands = [["problems", *map(_title, METHODS), "successes"]]
    for name, row in numbers.items():
        if name.startswith("problems"):
            medians = [f"{row[method]['median']:.4f}" for method in METHODS]
            hits = ", ".join(str(row[method]["successes"]) for method in METHODS)
            bands.append([name.removeprefix("problems "), *medians, hits])
    print(markdown_table(bands))
    print(json.dumps({name: row for name, row in numbers.items() if "against" in name}, indent=1))


if __name__ == "__main__":
    main()
