# Made by `make docs` from the headers in lua/; edit those.
from collections.abc import Iterable, Sequence
from typing import Any

Text = str | bytes

class Verbs:
    async def call(self, verb: str, each: Any = ..., **values: Any) -> Any: ...
    async def add(
        self,
        each: Sequence[tuple[Text, Text, int, int, bytes]],
        *,
        links: int,
        replicated: bool = ...,
    ) -> list[int]: ...
    async def adopt(self, each: Sequence[Text], *, replicated: bool = ...) -> list[int]: ...
    async def again(
        self,
        each: Sequence[tuple[Text, Text, int, int, bytes]],
        *,
        due_ms: Text,
        replicated: bool = ...,
    ) -> list[int]: ...
    async def allow(self, *, granted: int, keep: int, strict: bool = ...) -> list[int]: ...
    async def audit(self, each: Sequence[tuple[Text, Text]]) -> list[Any]: ...
    async def audit_host(self, each: Sequence[Text]) -> list[Any]: ...
    async def audit_keys(self, each: Sequence[Text]) -> list[Any]: ...
    async def audit_sums(self, *, limit: int) -> list[Any]: ...
    async def beat(
        self,
        *,
        name: Text,
        message: bytes,
        supervises: int,
        strict: bool = ...,
    ) -> int: ...
    async def behind(self) -> list[Any]: ...
    async def bury(
        self,
        each: Sequence[tuple[Text, Text, Text, bytes, Text, int]],
        *,
        strict: bool = ...,
        replicated: bool = ...,
    ) -> list[int]: ...
    async def bury_messages(
        self,
        each: Sequence[tuple[Text, Text, bytes, Text]],
        *,
        strict: bool = ...,
        replicated: bool = ...,
    ) -> list[int]: ...
    async def claim_callback(
        self,
        *,
        claim: Text,
        ttl_ms: int,
        strict: bool = ...,
    ) -> list[Any]: ...
    async def claim_login(
        self,
        *,
        name: Text,
        number: int,
        claim: Text,
        ttl_ms: int,
        strict: bool = ...,
    ) -> list[Any]: ...
    async def complete(
        self,
        each: Sequence[tuple[Text, Text, Text, bytes]],
        *,
        leases: int,
        links: int,
        list: Text,
        report: int,
        rest: Iterable[object] = ...,
        strict: bool = ...,
        replicated: bool = ...,
    ) -> list[int]: ...
    async def control(
        self,
        each: Sequence[tuple[Text, Any]],
        *,
        create: int,
        strict: bool = ...,
    ) -> int: ...
    async def depart(
        self,
        each: Sequence[tuple[Text, int, int, int, int]],
        *,
        strict: bool = ...,
        replicated: bool = ...,
    ) -> list[int]: ...
    async def drop(
        self,
        each: Sequence[Text],
        *,
        forget: int,
        strict: bool = ...,
        replicated: bool = ...,
    ) -> int: ...
    async def end_login(
        self,
        each: Sequence[tuple[Text, Text]],
        *,
        name: Text,
        number: int,
        claim: Text,
        reason: Text,
        rest_ms: int,
        strict: bool = ...,
    ) -> int: ...
    async def end_run(
        self,
        each: Sequence[tuple[Text, Text]],
        *,
        id: Text,
        claim: Text,
        back: int,
        blamed: int,
        most_lost: int,
        strict: bool = ...,
    ) -> int: ...
    async def extend(
        self,
        each: Sequence[tuple[Text, Text]],
        *,
        ttl_ms: int,
        alone: int,
        strict: bool = ...,
        replicated: bool = ...,
    ) -> list[int]: ...
    async def feed(
        self,
        each: Sequence[Text],
        *,
        limit: int,
        ttl_ms: int,
        strict: bool = ...,
    ) -> list[Any]: ...
    async def figures(self, each: Sequence[Text], *, kind: Text) -> list[Any]: ...
    async def finish_callback(self, *, claim: Text, value: Text, strict: bool = ...) -> int: ...
    async def forget(
        self,
        each: Sequence[tuple[Text, Text]],
        *,
        strict: bool = ...,
        replicated: bool = ...,
    ) -> list[int]: ...
    async def free_trapped(
        self,
        *,
        at_most: int,
        handler: Text,
        strict: bool = ...,
        replicated: bool = ...,
    ) -> int: ...
    async def grant(
        self,
        each: Sequence[tuple[int, int, int, int]],
        *,
        strict: bool = ...,
    ) -> list[int]: ...
    async def group(self, *, name: Text, strict: bool = ...) -> int: ...
    async def handled(
        self,
        each: Sequence[tuple[Text, int]],
        *,
        keep: int,
        strict: bool = ...,
        replicated: bool = ...,
    ) -> int: ...
    async def host(
        self,
        each: Sequence[Text],
        *,
        field: Text,
        value: Any,
        strict: bool = ...,
    ) -> int: ...
    async def increment(
        self,
        each: Sequence[tuple[Text, Text, Text, bytes]],
        *,
        limit: int,
        keep_s: int,
        strict: bool = ...,
        replicated: bool = ...,
    ) -> int: ...
    async def issue_permits(
        self,
        each: Sequence[Text],
        *,
        wanted: int,
        ttl_ms: int,
        lane: Text,
        strict: bool = ...,
    ) -> list[Any]: ...
    async def keep_failed(
        self,
        each: Sequence[tuple[Text, Text, bytes]],
        *,
        most: int,
        max_bytes: int,
        replicated: bool = ...,
    ) -> list[int]: ...
    async def lease(
        self,
        *,
        limit: int,
        ttl_ms: int,
        company: int,
        lane: Text,
        strict: bool = ...,
        replicated: bool = ...,
    ) -> list[Any]: ...
    async def log(
        self,
        each: Sequence[tuple[Text, Text, Text, Text, Text]],
        *,
        keep: int,
        replicated: bool = ...,
    ) -> int: ...
    async def look(self, *, strict: bool = ...) -> int: ...
    async def measure(
        self,
        each: Sequence[tuple[Text, Text, bytes]],
        *,
        members: int,
        strict: bool = ...,
        replicated: bool = ...,
    ) -> int: ...
    async def next_round(
        self,
        *,
        due_ms: Text,
        next_ms: Text,
        missed: int,
        strict: bool = ...,
        replicated: bool = ...,
    ) -> int: ...
    async def note_sessions(
        self,
        each: Sequence[bytes],
        *,
        strict: bool = ...,
        replicated: bool = ...,
    ) -> int: ...
    async def observe(
        self,
        each: Sequence[tuple[Text, bytes, bytes, bytes]],
        *,
        handlers: int,
        columns: int,
        replicated: bool = ...,
    ) -> int: ...
    async def open_sessions(
        self,
        each: Sequence[tuple[Text, int, Text]],
        *,
        size: int,
        uses: int,
        errors: int,
        age_ms: int,
        chance: int,
        strict: bool = ...,
    ) -> list[Any]: ...
    async def quota(
        self,
        each: Sequence[tuple[Text, int]],
        *,
        wanted: int,
        back: int,
        of_day: int,
        strict: bool = ...,
        replicated: bool = ...,
    ) -> list[int]: ...
    async def reap(self, *, at_most: int, strict: bool = ..., replicated: bool = ...) -> int: ...
    async def reclaim(
        self,
        each: Sequence[tuple[Text, Text]],
        *,
        seen: int,
        alone: int,
        why: Text,
        strict: bool = ...,
        replicated: bool = ...,
    ) -> int: ...
    async def record(
        self,
        each: Sequence[Text],
        *,
        strict: bool = ...,
        replicated: bool = ...,
    ) -> int: ...
    async def refuse(
        self,
        each: Sequence[tuple[Text, Text, bytes]],
        *,
        keep: int,
        strict: bool = ...,
        replicated: bool = ...,
    ) -> int: ...
    async def reject_items(
        self,
        each: Sequence[tuple[Text, bytes]],
        *,
        keep: int,
        replicated: bool = ...,
    ) -> int: ...
    async def release(
        self,
        each: Sequence[tuple[Text, Text, int]],
        *,
        strict: bool = ...,
        replicated: bool = ...,
    ) -> list[int]: ...
    async def renew_permits(
        self,
        each: Sequence[Text],
        *,
        ttl_ms: int,
        strict: bool = ...,
    ) -> list[int]: ...
    async def renew_run(
        self,
        *,
        id: Text,
        claim: Text,
        ttl_ms: int,
        job: Text,
        version: Text,
        done: int,
        strict: bool = ...,
    ) -> int: ...
    async def reopen(
        self,
        *,
        limit: int,
        max_bytes: int,
        ttl_ms: int,
        strict: bool = ...,
    ) -> list[Any]: ...
    async def reopened(
        self,
        each: Sequence[tuple[Text, Text, Text]],
        *,
        strict: bool = ...,
    ) -> int: ...
    async def reserve(
        self,
        *,
        tenant: Text,
        limit: int,
        wanted: int,
        fresh_ms: int,
        counted: int,
        asked_ms: int,
        strict: bool = ...,
        replicated: bool = ...,
    ) -> list[int]: ...
    async def retry(
        self,
        each: Sequence[tuple[Text, Text, int, Text, bytes]],
        *,
        strict: bool = ...,
        replicated: bool = ...,
    ) -> list[int]: ...
    async def revive(self, each: Sequence[Text], *, replicated: bool = ...) -> int: ...
    async def robots(
        self,
        *,
        name: Text,
        rules: bytes,
        ttl_ms: int,
        keep_ms: int,
        strict: bool = ...,
        replicated: bool = ...,
    ) -> Any: ...
    async def settle_routes(
        self,
        each: Sequence[tuple[Text, Text, Text, Text, Text]],
        *,
        domain: Text,
        strict: bool = ...,
        replicated: bool = ...,
    ) -> list[Any]: ...
    async def share_out(
        self,
        *,
        machine: Text,
        job: Text,
        share: int,
        wanted: int,
        unused: int,
        strict: bool = ...,
    ) -> int: ...
    async def sink(self, *, place: Text, instead: Text, strict: bool = ...) -> bytes: ...
    async def spare(self, *, name: Text, wanted: int, strict: bool = ...) -> int: ...
    async def start_run(
        self,
        *,
        id: Text,
        spider: Text,
        lane: Text,
        spec: Text,
        keep: int,
        at_most: int,
    ) -> int: ...
    async def stats(self) -> list[Any]: ...
    async def stop_run(self, *, id: Text, who: Text, strict: bool = ...) -> int: ...
    async def take_routes(
        self,
        each: Sequence[tuple[Text, Text, Text, Text]],
        *,
        ttl_ms: int,
        strict: bool = ...,
    ) -> list[int]: ...
    async def take_run(
        self,
        each: Sequence[Text],
        *,
        agent: Text,
        ttl_ms: int,
        most_lost: int,
        strict: bool = ...,
    ) -> list[Any]: ...
    async def tally(
        self,
        each: Sequence[tuple[Text, Text]],
        *,
        strict: bool = ...,
        replicated: bool = ...,
    ) -> int: ...
    async def trap(
        self,
        each: Sequence[tuple[Text, Text, int, int]],
        *,
        strict: bool = ...,
        replicated: bool = ...,
    ) -> list[int]: ...
    async def turn(
        self,
        *,
        moment_ms: int,
        delay_ms: int,
        max_wait_ms: int,
        for_ms: int,
        place: Text,
        limit: int,
        held_ms: int,
        strict: bool = ...,
    ) -> list[int]: ...
    async def unload(
        self,
        each: Sequence[Text],
        *,
        name: Text,
        stored: int,
        updated: int,
        strict: bool = ...,
        replicated: bool = ...,
    ) -> int: ...
    async def unreject(
        self,
        each: Sequence[tuple[Text, Text]],
        *,
        replicated: bool = ...,
    ) -> int: ...
    async def withdraw(
        self,
        each: Sequence[tuple[Text, Text]],
        *,
        strict: bool = ...,
        replicated: bool = ...,
    ) -> list[int]: ...
