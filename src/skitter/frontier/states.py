"""The state of a job, as stored on the server."""

from __future__ import annotations

from skitter.errors import JobDamaged
from skitter.model import State

PURGE = "purge"  # not a State: every script refuses such a job

#: The words used by scripts and by jobs of older releases.
_STORED = {
    State.RUNNING: "run",
    State.PAUSED: "pause",
    State.DRAINING: "drain",
    State.CANCELLED: "cancel",
}
_STATES = {word: state for state, word in _STORED.items()}


def stored_state(state: State) -> str:
    return _STORED[state]


def is_state(word: str) -> bool:
    return word in _STATES


def open_state(job: str, word: str) -> State:
    """Raises JobDamaged."""
    if word not in _STATES:
        raise JobDamaged(job, f"its state is {word!r}, which this release does not know")
    return _STATES[word]
