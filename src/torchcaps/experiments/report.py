"""An experiment's report as one HTML file that needs nothing else: no script, no other host."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from torchcaps.experiments.claim import Claim
from torchcaps.experiments.found import Figure, Found, Table, Text, Verdict

KINDS = {".svg": "image/svg+xml", ".gif": "image/gif"}
MARKS = {True: "holds", False: "fails", None: "partly"}


def report_html(claim: Claim, result: dict[str, Any], found: Sequence[Found]) -> str:
    """The whole page; the verdicts stand first, then everything in the order it was found."""
    verdicts = [each for each in found if isinstance(each, Verdict)]
    others = [each for each in found if not isinstance(each, Verdict)]
    style = files("torchcaps.experiments").joinpath("report.css").read_text(encoding="utf-8")
    form = "quick form, on small data" if result["quick"] else "full form"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(claim.name)} · torchcaps</title>
<style>
{style}</style>
</head>
<body>
<main>
<header>
<p class="kind">torchcaps · {escape(form)}</p>
<h1>{escape(capitalised(claim.claim))}</h1>
<p class="source">{escape(claim.source)}</p>
</header>
{"".join(map(verdict_html, verdicts))}
{"".join(map(found_html, others))}
{origin_html(claim, result)}
</main>
</body>
</html>
"""


def found_html(found: Found) -> str:
    """One part of the report."""
    if isinstance(found, Table):
        return table_html(found)
    if isinstance(found, Figure):
        return figure_html(found)
    assert isinstance(found, Text)
    return f"<p>{escape(found.text)}</p>\n"


def verdict_html(verdict: Verdict) -> str:
    """What came out, in a box of its own."""
    return (
        f'<section class="verdict {MARKS[verdict.holds]}"><h2>{escape(verdict.heading)}</h2>'
        f"<p>{escape(verdict.sentence)}</p></section>\n"
    )


def table_html(table: Table) -> str:
    """A table that scrolls inside itself where the screen is narrow."""
    columns = zip(table.columns, zip(*table.rows))
    head = "".join(
        f'<th scope="col"{number_class(any(map(is_number, cells)))}>{escape(column)}</th>'
        for column, cells in columns
    )
    rows = []
    for number, row in enumerate(table.rows):
        mark = ' class="marked"' if number in table.marked else ""
        first, *rest = row
        cells = f'<th scope="row">{cell(first)}</th>' + "".join(map(cell_html, rest))
        rows.append(f"<tr{mark}>{cells}</tr>")
    return (
        f"<section><h2>{escape(table.title)}</h2>\n"
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(table.title)}"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>\n"
        f'<p class="caption">{escape(table.caption)}</p></section>\n'
    )


def cell_html(value: Any) -> str:
    """A cell of a table; numbers are set to the right."""
    return f"<td{number_class(value is None or is_number(value))}>{cell(value)}</td>"


def is_number(value: Any) -> bool:
    """Whether a cell holds a number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def number_class(numeric: bool) -> str:
    """The attribute that sets a cell to the right."""
    return ' class="number"' if numeric else ""


def cell(value: Any) -> str:
    """A value as text, a number no more exact than it is.

    >>> cell(0.123456), cell(97.6), cell(1234567), cell(None), cell("a < b")
    ('0.1235', '97.6', '1,234,567', '–', 'a &lt; b')
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else escape(str(value))


def figure_html(figure: Figure) -> str:
    """A picture inside the page, on paper so that it reads in the dark as well."""
    data = b64encode(Path(figure.path).read_bytes()).decode()
    kind = KINDS[figure.path.suffix]
    return (
        f'<figure><div class="paper"><img alt="{escape(figure.caption)}" src="data:{kind};base64,{data}">'
        f'</div><figcaption class="caption">{escape(figure.caption)}</figcaption></figure>\n'
    )


def origin_html(claim: Claim, result: dict[str, Any]) -> str:
    """How the numbers came about, and how to make them again."""
    environment = result["environment"]
    command = f"torchcaps reproduce {claim.name}" + " --quick" * result["quick"]
    command += f" --seed {result['seed']}" if result["seed"] else ""
    where = f"{environment['processor']}, {environment['threads']} threads"
    versions = f"torchcaps {environment['torchcaps']}, PyTorch {environment['torch']}"
    return (
        f"<footer><p>Made by <code>{escape(command)}</code> in {result['seconds'] / 60:.1f} minutes on "
        f"{escape(where)}; {escape(versions)}, Python {escape(environment['python'])}, "
        f"{escape(environment['started'])}. All numbers, recipes and versions are in "
        f"<code>result.json</code> beside this page.</p></footer>\n"
    )


def capitalised(sentence: str) -> str:
    """A sentence with a capital first letter, the rest untouched.

    >>> capitalised("routing separates MNIST digits")
    'Routing separates MNIST digits'
    """
    return sentence[:1].upper() + sentence[1:]
