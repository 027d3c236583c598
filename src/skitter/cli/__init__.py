"""The command line: each command parses, calls and renders. Data on stdout, progress on stderr."""
