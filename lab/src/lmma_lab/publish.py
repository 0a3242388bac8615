"""Publication of records: figures, tables, the claims ledger and the report page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lmma._files import write_text
from lmma_lab.analysis import tables
from lmma_lab.analysis.figures import comparison, figures
from lmma_lab.analysis.samples import Records
from lmma_lab.claims import judge, ledger_page, summary
from lmma_lab.claims.forecast import forecast, with_measurements
from lmma_lab.claims.ledger import PAPER_RANGE, Row
from lmma_lab.plotting.data import FigureData
from lmma_lab.plotting.paper import write_pictures
from lmma_lab.report import Chart, Commands, Part, Prose, Table, as_html, as_markdown
from lmma_lab.report.tables import as_csv, markdown_table
from lmma_lab.tasks import SIGMA0, TARGET


def publish(
    records: Records,
    out: Path,
    command: str,
    wanted: Sequence[str] | None = None,
    attacks: Records = (),
) -> list[Row]:
    """Write figures, tables, ledger and report of the reproduction to ``out``; return the ledger.

    ``attacks`` are records of attacks, which decide the claims of section 4.2.
    """
    chosen = {name: data for name, data in figures(records).items() if wanted is None or name in wanted}
    rows = judge([*records, *attacks])
    charts = [_chart(data, out) for data in chosen.values()]
    _write_tables(records, out)
    parts: list[Part] = [
        write_ledger(rows, out),
        *_missing(rows),
        *charts,
        _settings(records),
        _rerun(command),
    ]
    lead = (
        "The experiments of Loshchilov, Glasmachers and Beyer, Limited-Memory Matrix Adaptation for Large "
        "Scale Black-box Optimization (2017), repeated with lmma."
    )
    _write_report(out, "LM-MA-ES: the paper, reproduced", lead, parts)
    return rows


def write_ledger(rows: Sequence[Row], out: Path) -> Table:
    """Write the ledger to ``out`` and return it as part of a report."""
    shown = with_measurements(rows)
    page = ledger_page(shown, lead=summary(rows))
    if lines := forecast(rows):
        page += "\n## Missing data\n\n" + "\n".join(f"- {line}" for line in lines) + "\n"
    write_text(out / "ledger.md", page)
    write_text(out / "ledger.csv", as_csv(row.columns() for row in rows))
    return Table(
        "The claims ledger", tuple(row.columns() for row in shown), verdict="verdict", folded=("rule",),
        lead=summary(rows) + " A rule decides each claim from the records; open a row to read the rule.",
        named=("where", "measured", "runs"),
    )  # fmt: skip


def _missing(rows: Sequence[Row]) -> list[Part]:
    """Return a section about the runs that would decide the claims that lack data."""
    lines = tuple(forecast(rows))
    return [Prose("Missing data", lines)] if lines else []


def publish_comparison(records: Records, out: Path, command: str) -> list[dict[str, Any]]:
    """Write the figure, tables and report of a comparison to ``out``; return its medians."""
    rows = tables.medians(records)
    _write_tables(records, out)
    parts: list[Part] = [
        _chart(comparison(records), out),
        Table("Medians", tuple({name: str(value) for name, value in row.items()} for row in rows)),
        _settings(records),
        _rerun(command),
    ]
    _write_report(out, "Methods compared", "Evaluations and seconds until the target is reached.", parts)
    return rows


def _write_report(out: Path, title: str, lead: str, parts: list[Part]) -> None:
    write_text(out / "report.html", as_html(title, lead, parts))
    write_text(out / "report.md", as_markdown(title, lead, parts))


def _write_tables(records: Records, out: Path) -> None:
    write_text(out / "runs.csv", as_csv(tables.runs(records)))
    write_text(out / "medians.csv", as_csv(tables.medians(records)))
    if page := _methods_page(records):
        write_text(out / "methods.md", page)
    if measured := tables.measurements(records):
        write_text(out / "measurements.csv", as_csv(measured))


def _methods_page(records: Records) -> str:
    """Return a page with the median evaluations of all methods, one table per n of the paper; "" if empty."""
    dims = sorted({r["spec"]["n"] for r in records if r["kind"] == "run" and r["spec"]["n"] >= PAPER_RANGE})
    blocks = []
    for n in dims:
        rows = tables.by_method(records, n)
        if rows and len(rows[0]) > 2:  # at least two methods
            cells = [list(rows[0]), *(list(row.values()) for row in rows)]
            blocks += [f"## n = {n:,}", markdown_table(cells, range(1, len(rows[0])))]
    lead = (
        f"Median evaluations to {TARGET:g} of the runs that reached it; in brackets their number if not all "
        "did. If none did, the evaluations of the longest run. Empty: not run."
    )
    return "\n\n".join(["# The methods side by side", lead, *blocks]) + "\n" if blocks else ""


def _chart(data: FigureData, out: Path) -> Chart:
    write_text(out / f"{data.name}.csv", as_csv(data.rows()))
    if not write_pictures(data, out):
        return Chart(data)  # without matplotlib: only tables and the interactive page
    return Chart(data, f"{data.name}.png", (out / f"{data.name}.svg").read_text(encoding="utf-8"))


def _settings(records: Records) -> Prose:
    machines = sorted({f"{r['machine']['processor']}, {r['machine']['cores']} cores" for r in records})
    versions = sorted(
        {", ".join(f"{name} {value}" for name, value in r["versions"].items()) for r in records}
    )
    targets = sorted({r["spec"]["target"] for r in records if r["kind"] == "run"}) or [TARGET]
    sigmas = sorted({r["spec"]["sigma0"] for r in records if r["kind"] == "run"}) or [SIGMA0]
    return Prose(
        "Settings",
        (
            f"Start uniform in [-5, 5]^n, initial step size {_either(sigmas)}, target {_either(targets)}. "
            "Evaluations are counted up to and including the first candidate at or below the target; medians "
            "are over the runs that reached it. With the same seed, all methods start from the same point.",
            "Seconds are CPU time of a single-threaded process, objective included; on an idle machine this "
            "equals wall-clock time. Rotations are drawn once for each n.",
            f"{sum(r['kind'] == 'run' for r in records)} runs. Machine: {'; '.join(machines) or 'none'}. "
            f"Versions: {'; '.join(versions) or 'none'}.",
        ),
    )


def _rerun(command: str) -> Commands:
    return Commands("Command", (command,), "Finished runs are kept in the store and not repeated.")


def _either(values: Sequence[float]) -> str:
    return " or ".join(f"{value:g}" for value in values)
