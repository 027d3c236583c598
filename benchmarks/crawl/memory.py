"""memory: how large a worker is after very many pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.crawl.field import crawl_all, synthetic_site
from benchmarks.report import Finding

if TYPE_CHECKING:
    from benchmarks.ground import Ground

MOST_MB = 150.0
LIMIT_S = 900.0


async def measure_memory(ground: Ground, *, pages: int, concurrency: int = 64) -> list[Finding]:
    """Of a generated site, with links to old and new pages."""
    ground.tell(f"memory: one worker, {pages:,} pages")
    async with synthetic_site(pages) as seed:
        worked = await crawl_all(
            ground, seed, pages=pages, concurrency=concurrency, limit_s=LIMIT_S
        )
    await ground.clear()
    return [
        Finding(
            name="memory",
            what=f"RSS of a worker after {pages:,} pages",
            unit="MB",
            measured=worked.rss_mb,
            beside=f"{worked.peak_mb:.0f} MB at its largest; "
            f"{worked.pages / worked.seconds:,.0f} pages/s from a site written in Python",
            goal=f"under {MOST_MB:.0f}",
            ok=worked.peak_mb < MOST_MB,
        )
    ]
