"""Claims about adversarial inputs for a random forest: section 4.2."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from lmma_lab.analysis.samples import BAND, Evidence, share
from lmma_lab.claims.ledger import Decide, Finding, claim, decided, undecided
from lmma_lab.plotting.attack import BANDS
from lmma_lab.presets import LM, MA
from lmma_lab.store import Record

Pairs = list[tuple[Record, Record]]  # pairs of attacks on the same image

CSA = "csa-es"
SECTION = "section 4.2"
ENOUGH = 1000  # images: the 95% interval of a share is then within 3 points
NEAR = 0.04  # 3 points of sampling error, and 1 for a different forest
PIXELS = 16  # grey values of 255
TESTED = 9721  # images attacked in the paper

IMAGES = f"lmma attack --data DIR --images {ENOUGH} or more, on MNIST, with --method"


@claim(
    "forest", SECTION,
    "A random forest of 1000 trees classifies 97.21% of the MNIST test images correctly.",
    "The accuracy of scikit-learn's forest of 1000 trees is within 0.2 points of this value.",
)  # fmt: skip
def _forest(evidence: Evidence) -> Finding:
    forest = evidence.attacks.forest
    if forest is None:
        return undecided("lmma attack --data DIR, on MNIST, with 1000 trees")
    accuracy = forest["accuracy"]
    return decided(
        abs(accuracy - 0.9721) <= 0.002, f"{accuracy:.2%}, {round(accuracy * forest['images']):,} images"
    )


def _fooled(evidence: Evidence, method: str, printed: float) -> Finding:
    records = evidence.attacks.campaign(method).values()
    if len(records) < ENOUGH:
        return undecided(f"{IMAGES} {method}")
    found = share(records)
    hits = sum(record["success"] for record in records)
    return decided(abs(found - printed) <= NEAR, f"{found:.1%} ({hits:,} of {len(records):,})")


for _id, _where, _method, _hits, _wording in (
    ("fooled", f"{SECTION}, abstract", LM, 6321,
     "LM-MA-ES turns about 65% of the correctly classified images into adversarial ones (6321 of 9721)."),
    ("fooled-ma", SECTION, MA, 6152, "MA-ES turns 6152 of 9721 images (63.3%) into adversarial ones."),
):  # fmt: skip
    claim(
        _id, _where, _wording,
        f"Over at least {ENOUGH:,} random images, the share of successes is within {NEAR:.0%} of "
        f"{_hits / TESTED:.1%}.",
    )(partial(_fooled, method=_method, printed=_hits / TESTED))  # fmt: skip


def _on_common_images(one: str, two: str) -> Callable[[Callable[[Pairs], Finding]], Decide]:
    """Return a decorator for a rule about images that both methods attacked; require ENOUGH of them."""

    def with_pairs(rule: Callable[[Pairs], Finding]) -> Decide:
        def decide(evidence: Evidence) -> Finding:
            pairs = evidence.attacks.pairs(one, two)
            return undecided(f"{IMAGES} {one},{two}") if len(pairs) < ENOUGH else rule(pairs)

        return decide

    return with_pairs


@claim(
    "fools-more", SECTION,
    "LM-MA-ES finds an adversarial in more cases than MA-ES (6321 and 6152).",
    f"On at least {ENOUGH:,} common images it has more successes. The difference is at least two standard "
    "deviations of the number of images on which only one method succeeds.",
)  # fmt: skip
@_on_common_images(LM, MA)
def _fools_more(pairs: Pairs) -> Finding:
    only_lm = sum(a["success"] and not b["success"] for a, b in pairs)
    only_ma = sum(b["success"] and not a["success"] for a, b in pairs)
    measured = f"of {len(pairs):,} images, {only_lm:,} only by LM-MA-ES and {only_ma:,} only by MA-ES"
    if 0 <= only_lm - only_ma < 2 * math.sqrt(only_lm + only_ma):
        return Finding("not enough data", f"{measured}; the difference is too small, needs more images")
    return decided(only_lm > only_ma, measured)


@claim(
    "lower", SECTION,
    "LM-MA-ES reaches a lower objective than MA-ES in most cases (7171 of 9721, 73.8%).",
    f"On at least {ENOUGH:,} common images it is strictly lower in more than two thirds.",
)  # fmt: skip
@_on_common_images(LM, MA)
def _lower(pairs: Pairs) -> Finding:
    wins = sum(a["value"] < b["value"] for a, b in pairs)
    losses = sum(a["value"] > b["value"] for a, b in pairs)
    return decided(
        3 * wins > 2 * len(pairs),
        f"lower in {wins:,} ({wins / len(pairs):.1%}), higher in {losses:,} of {len(pairs):,}",
    )


@claim(
    "slightly-faster", f"{SECTION}, figure of progress",
    "On problems of every difficulty LM-MA-ES is slightly faster than MA-ES.",
    f"In each of the paper's four bands of {BAND} problems by initial objective, the final median objective "
    "is lower.",
)  # fmt: skip
def _slightly_faster(evidence: Evidence) -> Finding:
    bands = evidence.attacks.bands(LM, MA)
    if len(bands) < len(BANDS):
        return undecided(f"lmma attack --data DIR --images all, on MNIST, with --method {LM},{MA}")
    listed = ", ".join(
        f"problems {first} to {first + BAND - 1}: {ours:.4f} and {theirs:.4f}"
        for first, (ours, theirs) in bands.items()
    )
    return decided(all(ours < theirs for ours, theirs in bands.values()), listed)


@claim(
    "time-of-attack", SECTION,
    "LM-MA-ES runs about 3.5 times faster than MA-ES (2 hours and 7 hours).",
    "MA-ES takes at least twice the CPU time of LM-MA-ES per attack, including queries. The share of the "
    "queries, equal for both methods, may differ from that in the paper.",
)  # fmt: skip
def _time_ratio(evidence: Evidence) -> Finding:
    ours, theirs = evidence.attacks.seconds(LM), evidence.attacks.seconds(MA)
    if math.isnan(ours) or math.isnan(theirs):
        return undecided(f"{IMAGES} {LM},{MA}")
    return decided(
        theirs >= 2 * ours, f"{theirs / ours:.1f} times: {1e3 * ours:.0f} and {1e3 * theirs:.0f} ms"
    )


@claim(
    "hours", SECTION,
    "All 9721 attacks by LM-MA-ES take about two hours on a laptop.",
    f"The mean CPU time per image, times {TESTED:,}, is at most two hours.",
)  # fmt: skip
def _hours(evidence: Evidence) -> Finding:
    if len(evidence.attacks.campaign(LM)) < ENOUGH:
        return undecided(f"{IMAGES} {LM}")
    seconds = TESTED * evidence.attacks.seconds(LM)
    return decided(seconds <= 7200, f"{seconds / 60:.1f} minutes on one core")


@claim(
    "control", SECTION,
    "MA-ES is only insignificantly better than an ES that only adapts its step size.",
    f"On at least {ENOUGH:,} common images their shares of successes differ by at most 2 points.",
)  # fmt: skip
@_on_common_images(MA, CSA)
def _control(pairs: Pairs) -> Finding:
    with_matrix, without = share(a for a, _ in pairs), share(b for _, b in pairs)
    lower = sum(a["value"] < b["value"] for a, b in pairs)
    return decided(
        abs(with_matrix - without) <= 0.02,
        f"{with_matrix:.1%} and {without:.1%} of {len(pairs):,}; MA-ES lower in {lower / len(pairs):.1%}",
    )


@claim(
    "indistinguishable", SECTION,
    "The adversarial images are visually indistinguishable from the originals.",
    f"95% of the adversarials of LM-MA-ES change each pixel by at most {PIXELS} of 255 grey values.",
)  # fmt: skip
def _indistinguishable(evidence: Evidence) -> Finding:
    records = evidence.attacks.campaign(LM).values()
    if len(records) < ENOUGH:
        return undecided(f"{IMAGES} {LM}")
    hits = [record for record in records if record["success"]]
    if not hits:
        return undecided("an adversarial")
    linf = [record["linf"] for record in hits]
    l2 = float(np.median([record["l2"] for record in hits]))
    most = float(np.quantile(linf, 0.95))
    return decided(
        most <= PIXELS,
        f"95% at most {most:.1f}, half at most {np.median(linf):.1f}; median L2 {l2:.1f}",
    )
