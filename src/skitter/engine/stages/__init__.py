"""The stages of a page."""
