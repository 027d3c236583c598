"""Bytes become text and trees, within limits.

content   What a page says: its main part as text or Markdown, its tables
encoding  Text and bytes, as browsers convert them
feeds     What a sitemap or a feed lists: urlset, sitemapindex, RSS, Atom, plain text; packed or not
markup    HTML becomes a tree, unless it would block the parser
parser    The program that tries to parse pages: see markup.py
"""
