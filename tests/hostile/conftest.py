"""Nodes of Scrapy, as tests/engine_scrapy starts them."""

from __future__ import annotations

from engine_scrapy.conftest import make_cluster, nodes, open_shop

__all__ = ["make_cluster", "nodes", "open_shop"]
