"""The language of Chinese pages, which fonts and screen readers go by."""

from __future__ import annotations

from typing import Any


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Mark a page under `zh/` as Chinese."""
    if not page.file.src_uri.startswith("zh/"):
        return output
    return output.replace('<html lang="en"', '<html lang="zh-CN"', 1)
