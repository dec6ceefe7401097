"""Turn results.json, as `torchcaps bench --out` wrote it, into results.md: python benchmarks/page.py"""

from __future__ import annotations

import json
from pathlib import Path

HERE = Path(__file__).parent
TITLES = {
    "networks": "Networks: images per second, memory above the imported library",
    "routings": "Routings: milliseconds per image, speed relative to a matrix product",
    "scaling": "Scaling: fused EM, one size doubled",
}

# `torchcaps bench --out` keeps the parts that it does not measure, so they may be from different runs.
HOW = (
    "Each part is the last run of `torchcaps bench PART --threads 2 --out benchmarks/results.json`; "
    "parts may be from different runs."
)


def cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"
    return str(value)


def table(rows: list[dict[str, object]]) -> str:
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = [columns, ["---"] * len(columns), *([cell(row.get(c, "")) for c in columns] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    results = json.loads((HERE / "results.json").read_text(encoding="utf-8"))
    machine = ", ".join(f"{name} {value}" for name, value in results["machine"].items() if value)
    parts = [f"## {title}\n\n{table(results[part])}\n" for part, title in TITLES.items() if part in results]
    head = f"# Results on one machine\n\n{machine}.\n\n{HOW}\n"
    (HERE / "results.md").write_text("\n".join([head, *parts]), encoding="utf-8")


if __name__ == "__main__":
    main()
