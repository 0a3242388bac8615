"""Every rule can hold or fail, depending on the records."""

from __future__ import annotations

from typing import Any

import pytest
from made_up import attacks, forest, invariance, measured, run_record

from lmma_lab.claims import CLAIMS, judge, ledger_page, summary
from lmma_lab.claims.forecast import decided_by, forecast, with_measurements

Records = list[dict[str, Any]]
SIX = ("sphere", "ellipsoid", "rosenbrock", "discus", "cigar", "different-powers")


def runs(
    method: str,
    medians: dict[tuple[str, int], float | None],
    seconds: float = 1.0,
    spent: int = 0,
    seeds: tuple[int, ...] = (1, 2, 3),
) -> Records:
    """Return runs around each median, three of them; None means that none reached the target."""
    return [
        run_record(p, method, n, seed, None if m is None else round(m * (0.9 + 0.05 * seed)), seconds=seconds,
                   spent=spent)
        for (p, n), m in medians.items()
        for seed in seeds
    ]  # fmt: skip


def points(
    kind: str, method: str, power: float, dims: tuple[int, ...] = (512, 1024, 2048, 4096, 8192)
) -> Records:
    return [measured(kind, method, n, 1e-6 * n**power if kind == "timing" else 100 * n**power) for n in dims]


def everywhere(value: float, dims: tuple[int, ...] = (128, 512)) -> dict[tuple[str, int], float | None]:
    return {(problem, n): value * n for problem in SIX for n in dims}


def rotated(value: float) -> dict[tuple[str, int], float | None]:
    return {(f"rotated-{problem}", 128): value for problem in SIX}


def plain(value: float) -> dict[tuple[str, int], float | None]:
    return {(problem, 128): value for problem in SIX}


def growing(problem: str, power: float) -> dict[tuple[str, int], float | None]:
    return {(problem, n): 1000.0 * n**power for n in (128, 256, 512)}


FIVE = (1, 2, 3, 4, 5)
SMOKE = ("update", "monotone", "translation")  # all that the preset decides but one
ARCHIVE_STUCK = runs("lm-ma-es-archive", plain(1200) | {("cigar", 128): None}, spent=9000)

FAR = attacks("ma-es", 6000, images=6000, distance=50)

# claim -> (records under which it holds, records under which it fails)
CASES: dict[str, tuple[Records, Records]] = {
    "update": ([invariance("ma-es", "update", 1e-14)], [invariance("ma-es", "update", 1e-3)]),
    "ma-cma": (
        runs("ma-es", plain(1000)) + runs("cma-es", plain(1000)),
        runs("ma-es", plain(2000)) + runs("cma-es", plain(1000)),
    ),
    "memory": (points("memory", "lm-ma-es", 1.1), points("memory", "lm-ma-es", 2.0)),
    "memory-ma": (points("memory", "ma-es", 2.0), points("memory", "ma-es", 1.0)),
    "monotone": ([invariance("lm-ma-es", "monotone", 0.0)], [invariance("lm-ma-es", "monotone", 1e-15)]),
    "translation": (
        [invariance("lm-ma-es", "translation", 1e-15)],
        [invariance("lm-ma-es", "translation", 0.1)],
    ),
    "scale": ([invariance("lm-ma-es", "scale", 0.0)], [invariance("lm-ma-es", "scale", 0.1)]),
    "time": (points("timing", "lm-ma-es", 1.1), points("timing", "lm-ma-es", 1.5)),
    "time-ma": (points("timing", "ma-es", 2.0), points("timing", "ma-es", 1.3)),
    "cheaper": (
        points("timing", "lm-ma-es", 1.1) + points("timing", "ma-es", 2.0),
        points("timing", "lm-ma-es", 1.1) + points("timing", "ma-es", 1.0),
    ),
    "solves": (
        runs("lm-ma-es", plain(1000)),
        runs("lm-ma-es", plain(1000) | {("discus", 256): None}),
    ),
    "fewer": (
        runs("lm-ma-es", everywhere(1)) + runs("ma-es", everywhere(2)),
        runs("lm-ma-es", everywhere(2)) + runs("ma-es", everywhere(1)),
    ),
    "fewer-as-n-grows": (
        runs("lm-ma-es", everywhere(10)) + runs("ma-es", {pair: pair[1] ** 1.6 for pair in everywhere(1)}),
        runs("lm-ma-es", everywhere(10)) + runs("ma-es", dict.fromkeys(everywhere(1), 4000)),
    ),
    "faster": (
        runs("lm-ma-es", everywhere(1), seconds=1) + runs("ma-es", everywhere(1), seconds=9),
        runs("lm-ma-es", everywhere(1), seconds=2) + runs("ma-es", everywhere(1), seconds=1),
    ),
    "hundredfold": (
        runs("lm-ma-es", everywhere(1), seconds=1) + runs("ma-es", everywhere(1), seconds=150),
        runs("lm-ma-es", everywhere(1, (1024,))) + runs("ma-es", everywhere(1, (1024,)), seconds=50),
    ),
    "scaling-rosenbrock": (
        runs("lm-ma-es", growing("rosenbrock", 1.1)) + runs("lm-cma-es", growing("rosenbrock", 1.4)),
        runs("lm-ma-es", growing("rosenbrock", 1.4)) + runs("lm-cma-es", growing("rosenbrock", 1.1)),
    ),
    "scaling-discus": (
        runs("lm-ma-es", growing("discus", 1.0)) + runs("lm-cma-es", growing("discus", 1.6)),
        runs("lm-ma-es", growing("discus", 1.6)) + runs("lm-cma-es", growing("discus", 1.0)),
    ),
    "scaling-cigar": (
        runs("lm-ma-es", growing("cigar", 1.2)) + runs("lm-cma-es", growing("cigar", 1.0)),
        runs("lm-ma-es", growing("cigar", 1.0)) + runs("lm-cma-es", growing("cigar", 1.2)),
    ),
    "vd-rotated": (
        runs("vd-cma-es", plain(1000)) + runs("vd-cma-es", dict.fromkeys(rotated(1)), spent=50_000),
        runs("vd-cma-es", plain(1000)) + runs("vd-cma-es", rotated(2000)),
    ),
    "active": (
        runs("cma-es", plain(1000)) + runs("acma-es", plain(1000) | {("discus", 128): 480.0}),
        runs("cma-es", plain(1000)) + runs("acma-es", plain(1000) | {("discus", 128): 2000.0}),
    ),
    "rotated": (
        runs("lm-ma-es", plain(1000)) + runs("lm-ma-es", rotated(1100)),
        runs("lm-ma-es", plain(1000)) + runs("lm-ma-es", rotated(1500)),
    ),
    "shifted": (
        runs("lm-ma-es", plain(1000) | {("shifted-cigar", 128): 950, ("shifted-sphere", 128): 1000}),
        runs("lm-ma-es", plain(1000) | {("shifted-cigar", 128): 500, ("shifted-sphere", 128): 1000}),
    ),
    "rotated-within-noise": (
        runs("lm-ma-es", plain(1000), seeds=FIVE) + runs("lm-ma-es", rotated(1050), seeds=FIVE),
        runs("lm-ma-es", plain(1000), seeds=FIVE) + runs("lm-ma-es", rotated(1500), seeds=FIVE),
    ),
    "archive": (
        runs("lm-ma-es", plain(1000)) + runs("lm-ma-es-archive", plain(1200)),
        runs("lm-ma-es", plain(1000)) + ARCHIVE_STUCK,
    ),
    "forest": ([*attacks("lm-ma-es", 1, images=1), forest(0.972)],
               [*attacks("lm-ma-es", 1, images=1), forest(0.965)]),
    "fooled": (attacks("lm-ma-es", 660), attacks("lm-ma-es", 700)),
    "fooled-ma": (attacks("ma-es", 610), attacks("ma-es", 590)),
    "fools-more": (attacks("lm-ma-es", 660) + attacks("ma-es", 640),
                   attacks("lm-ma-es", 640) + attacks("ma-es", 660)),
    "lower": (attacks("lm-ma-es", 660, distance=40) + attacks("ma-es", 660, distance=45),
              attacks("lm-ma-es", 660, distance=40) + attacks("ma-es", 660, distance=40)),
    "slightly-faster": (attacks("lm-ma-es", 6000, images=6000) + FAR,
                        attacks("lm-ma-es", 5000, images=6000) + FAR),
    "time-of-attack": (attacks("lm-ma-es", 660) + attacks("ma-es", 660, seconds=0.14),
                       attacks("lm-ma-es", 660) + attacks("ma-es", 660, seconds=0.06)),
    "hours": (attacks("lm-ma-es", 660, seconds=0.7), attacks("lm-ma-es", 660, seconds=0.8)),
    "control": (attacks("ma-es", 660) + attacks("csa-es", 645),
                attacks("ma-es", 660) + attacks("csa-es", 600)),
    "indistinguishable": (attacks("lm-ma-es", 660, pixels=11), attacks("lm-ma-es", 660, pixels=17)),
}  # fmt: skip


def verdict(records: Records, id: str) -> str:
    return {row.claim.id: row.finding.verdict for row in judge(records)}[id]


def test_every_claim_has_a_case():
    assert set(CASES) == {claim.id for claim in CLAIMS}
    assert len(CLAIMS) == len({claim.id for claim in CLAIMS})


@pytest.mark.parametrize("id", CASES)
def test_supporting_records_make_the_claim_hold(id):
    assert verdict(CASES[id][0], id) == "holds"


@pytest.mark.parametrize("id", CASES)
def test_contradicting_records_make_the_claim_fail(id):
    assert verdict(CASES[id][1], id) == "fails"


@pytest.mark.parametrize("id", CASES)
def test_without_records_nothing_is_decided(id):
    assert verdict([], id) == "not enough data"


@pytest.mark.parametrize("id", ["memory", "memory-ma"])
def test_memory_of_toy_sizes_decides_nothing(id):
    small = [r for m in ("lm-ma-es", "ma-es") for r in points("memory", m, 1.3, (128, 256, 512))]
    assert verdict(small, id) == "not enough data"


def test_three_runs_a_group_are_too_few_to_call_them_apart():
    records = runs("lm-ma-es", plain(1000)) + runs("lm-ma-es", rotated(1500))
    assert verdict(records, "rotated-within-noise") == "not enough data"


def test_many_cases_are_not_counted_on_the_functions_that_are_quick_to_run():
    easy = {(p, n): 100.0 * n for p in ("sphere", "cigar", "discus", "ellipsoid") for n in (128, 256)}
    assert verdict(runs("lm-ma-es", easy) + runs("ma-es", easy), "fewer") == "not enough data"


def test_one_run_in_a_local_optimum_does_not_refute_that_a_function_is_solved():
    whole = runs("lm-ma-es", plain(1000))
    stuck = run_record("rosenbrock", "lm-ma-es", 512, 1, None, spent=900) | {"reason": "tolfun"}
    assert verdict([*whole, stuck], "solves") == "holds"
    more = [stuck | {"spec": stuck["spec"] | {"seed": seed}} for seed in (2, 3)]
    assert verdict([*whole, stuck, *more], "solves") == "fails"
    assert verdict([*whole, stuck | {"reason": "maxfevals"}], "solves") == "fails"
    assert verdict([r for r in whole if r["spec"]["problem"] != "rosenbrock"] + [stuck], "solves") == (
        "not enough data"
    )


def test_each_row_says_how_many_runs_bear_on_it():
    rows = {row.claim.id: row.runs for row in judge(CASES["ma-cma"][0] + CASES["memory"][0])}
    assert rows["ma-cma"] == 2 * 3 * len(SIX)
    assert rows["memory"] == 5
    assert rows["solves"] == 0
    loose = [r | {"spec": r["spec"] | {"target": 1e-3}} for r in CASES["ma-cma"][0]]
    assert {row.claim.id: row.runs for row in judge(loose)}["ma-cma"] == 0


def test_presets_decide_more_and_more():
    smoke, quick, paper = (decided_by(name) for name in ("smoke", "quick", "paper"))
    assert smoke == {"update", "monotone", "translation", "scale"}
    assert smoke < quick < paper
    assert paper == {claim.id for claim in CLAIMS if not claim.where.startswith("section 4.2")}


def test_missing_runs_are_listed_with_the_command_that_runs_them():
    lines = forecast(judge([]))
    presets = [f"lmma reproduce --preset {name}" for name in ("smoke", "quick", "paper")]
    assert [line.partition(" decides")[0] for line in lines] == [*presets, "lmma attack on MNIST"]
    assert sum(line.count(",") + 1 for line in lines) == len(CLAIMS)
    assert "decides one more: scale." in forecast(judge([r for id in SMOKE for r in CASES[id][0]]))[0]


def test_rows_without_a_measurement_are_not_shown():
    rows = judge(runs("lm-ma-es", everywhere(1)) + runs("ma-es", everywhere(1), seconds=50))
    shown = {row.claim.id: row.finding.verdict for row in with_measurements(rows)}
    assert shown["hundredfold"] == "not enough data"  # it says how far it is
    assert "forest" not in shown


def test_dimensions_below_the_papers_decide_nothing():
    small = {(problem, n): 100.0 for problem in SIX for n in (16, 64)}
    assert verdict(runs("lm-ma-es", small) + runs("ma-es", small), "fewer") == "not enough data"


def test_another_target_decides_nothing():
    records = CASES["fewer"][0]
    loose = [record | {"spec": record["spec"] | {"target": 1e-3}} for record in records]
    assert verdict(loose, "fewer") == "not enough data"


def test_one_seed_under_two_budgets_counts_once_and_the_longer_run_counts():
    cut = run_record("discus", "lm-ma-es", 128, 1, None, spent=10)
    cut["spec"]["budget"] = 10
    whole = runs("lm-ma-es", plain(1000))
    assert verdict([cut, *whole], "solves") == "holds"
    assert verdict([*whole, cut], "solves") == "holds"


def test_hundredfold_waits_for_large_n():
    records = runs("lm-ma-es", everywhere(1)) + runs("ma-es", everywhere(1), seconds=50)
    assert verdict(records, "hundredfold") == "not enough data"


def test_powers_too_close_to_tell_apart_decide_nothing():
    def over(dims, power):
        return {("cigar", n): 1000.0 * n**power for n in dims}

    def both(*dims):
        return runs("lm-ma-es", over(dims, 1.0)) + runs("lm-cma-es", over(dims, 1.05))

    assert verdict(both(128, 256), "scaling-cigar") == "not enough data"
    assert verdict(both(128, 512), "scaling-cigar") == "fails"


@pytest.mark.parametrize(
    "changed",
    [
        {"digest": "of other data"},
        {"trees": 10},
        {"sigma0": 3.0},
        {"clip": True},
        {"target": 3},
        {"budget": 500},
    ],
)
def test_attacks_under_another_protocol_decide_nothing(changed):
    assert verdict(attacks("lm-ma-es", 660, **changed), "fooled") == "not enough data"


def test_attacks_on_few_images_decide_nothing():
    assert verdict(attacks("lm-ma-es", 600, images=900), "fooled") == "not enough data"


def test_attacks_on_two_forests_are_not_mixed():
    records = attacks("lm-ma-es", 660) + attacks("ma-es", 630, model="other")
    assert verdict(records, "fools-more") == "not enough data"
    assert verdict(records, "fooled") == "holds"
    # the forest that was attacked more often counts
    assert verdict([*attacks("lm-ma-es", 100, model="other"), *records], "fooled") == "fails"


def test_a_lead_within_chance_decides_nothing():
    assert verdict(attacks("lm-ma-es", 642) + attacks("ma-es", 640), "fools-more") == "not enough data"


def test_one_section_can_be_checked_separately():
    rows = judge(CASES["fooled"][0], where="section 4.2")
    assert {row.claim.id for row in rows if row.finding.verdict == "holds"} >= {"fooled", "hours"}
    assert len(rows) == 10


def test_the_ledger_reads_as_a_table_with_its_rules():
    rows = judge(CASES["fewer"][0])
    text = ledger_page(rows)
    assert summary(rows) in text
    assert "| fewer | In many cases" in text
    assert text.count("- **") == len(CLAIMS)
