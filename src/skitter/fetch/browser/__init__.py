"""Pages rendered by a browser.

chromium  One running browser: finding, starting, measuring and ending it, down to its last process
egress    The egress proxy: a browser's only way out, controlled by the guard
render    How a page is rendered, and the protocol of renderers
renderer  Renders pages in a browser, with the cookies of their sessions
tab       One page in one tab: go there, wait until it is ready, take the result
"""
