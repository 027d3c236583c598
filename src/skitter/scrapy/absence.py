"""A server that is away: how often to say so, and how long a node that starts waits for it."""

from __future__ import annotations

from dataclasses import dataclass

from skitter.errors import ServerUnreachable, SkitterError

#: It is said at once, and again after pauses that double from the first to the last of these.
FIRST_S, LAST_S = 5.0, 300.0


@dataclass(slots=True)
class Absence:
    """Pure: time is an argument, in seconds."""

    start_s: float  # how long a node that starts waits
    pause_s: float = 0.0  # 0: nothing is away
    say_at: float = 0.0
    give_up_at: float | None = None

    def is_news(self, now: float) -> bool:
        """Whether to say it, at this time or again."""
        if self.pause_s and now < self.say_at:
            return False
        self.pause_s = min(LAST_S, self.pause_s * 2) or FIRST_S
        self.say_at = now + self.pause_s
        return True

    def end(self) -> bool:
        """Whether there was one."""
        was_away, self.pause_s = self.pause_s > 0, 0.0
        return was_away

    def check(self, error: SkitterError, now: float) -> None:
        """Raises it, with what to do, when a node that starts has waited long enough."""
        if not isinstance(error, ServerUnreachable):
            return
        if self.give_up_at is None:
            self.give_up_at = now + self.start_s
        if now >= self.give_up_at:
            raise ServerUnreachable(
                f"{error} The node has waited {self.start_s:g} s for it and stops: correct "
                "REDIS_URL (or REDIS_HOST, REDIS_PORT), start the server, or raise SKITTER_START_S."
            ) from None
