"""What the engine put into the outbox, handed in: found requests, endings, items, refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skitter.frontier.admin.items import put_items
from skitter.frontier.batches import finish_batch
from skitter.frontier.completions import seal_offers
from skitter.frontier.feed import bury_messages
from skitter.loading import keep_rejected
from skitter.model import Added, Completion, Ended, Failure
from skitter.scrapy.mailbox import Batch, Entry, Link, Loose, Pushes, Rejected, Unstored

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from skitter.frontier.admin.items import RejectedItem
    from skitter.scrapy.node import Node

AT_ONCE = 200


class Delivery:
    """Empties the outbox. Nothing leaves it before the server has it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.pages = self.errors = 0
        self._in_cluster = (node.options.server.redis_url or "").startswith("redis+cluster")

    async def all(self) -> None:
        """What is sent a second time, because the first answer was lost, changes nothing."""
        outbox = self.node.mailbox.outbox
        while outbox:
            # By position: the other thread may append meanwhile, which an iterator does not like.
            batch = [outbox[i] for i in range(min(len(outbox), AT_ONCE))]
            await self._add([one.links for one in batch if isinstance(one, Loose)])
            await self._reject([one for one in batch if isinstance(one, Rejected)])
            await self._push(
                [push for one in batch if isinstance(one, Pushes) for push in one.pushes]
            )
            await self._feed([one for one in batch if isinstance(one, Batch)])
            entries = [one for one in batch if isinstance(one, Entry)]
            await self._bury([one for one in entries if one.error])
            await self._complete([one for one in entries if not one.error])
            # Last, as it is the one thing that would be there twice if it were sent twice.
            await self._set_aside([one.aside for one in batch if isinstance(one, Unstored)])
            for _ in batch:
                outbox.popleft()

    async def _add(self, groups: Sequence[Sequence[Link]]) -> None:
        links = [link for group in groups for link in group]
        if not links:
            return
        epoch = self.node.frontier.epoch
        answers = await self.node.frontier.add_offers([one.offer for one in links], links=True)
        self._remember(links, epoch)
        self._drop([one for one, said in zip(links, answers, strict=True) if said is Added.SEEN])
        if refused := sum(said is Added.CLOSED for said in answers):
            self.node.say(
                "warning",
                f"{refused} requests were refused: the job takes nothing new (skitter resume)",
            )

    def _remember(self, links: Iterable[Link], epoch: Hashable) -> None:
        found = ((one.key, one.offer.depth) for one in links if one.key)
        self.node.mailbox.memory.add(found, epoch=epoch)

    def _drop(self, known: list[Link]) -> None:
        """Tell the engine of duplicates; of what may be sent again, nobody says so."""
        if dropped := [link for link in known if link.key]:
            self.node.engine.call(self.node.on_dropped, dropped)

    async def _reject(self, refused: Sequence[Rejected]) -> None:
        if refused:
            await bury_messages(
                self.node.frontier,
                [(one.text.encode("utf-8", "replace"), one.reason) for one in refused],
                origin="unsent",
            )
            self.errors += len(refused)

    async def _set_aside(self, asides: Sequence[RejectedItem]) -> None:
        await keep_rejected(self.node.frontier, self.node.say, *asides)
        self.errors += len(asides)

    async def _push(self, pushes: Sequence[tuple[str, bytes]]) -> None:
        server = self.node.frontier.server
        for start in range(0, len(pushes), AT_ONCE):
            some = pushes[start : start + AT_ONCE]
            for key in dict.fromkeys(key for key, _ in some):
                await server.command("RPUSH", key, *(item for at, item in some if at == key))

    async def _feed(self, batches: Sequence[Batch]) -> None:
        for batch in batches:
            await self._add([batch.links])
            if batch.rejected:
                await bury_messages(self.node.frontier, batch.rejected)
                for _, reason in batch.rejected:
                    self.node.say("warning", f"a message of the feed is a dead letter: {reason}")
            await finish_batch(self.node.frontier, batch.name)

    async def _bury(self, entries: Sequence[Entry]) -> None:
        """What a page brought before it failed is kept, and goes first."""
        if not entries:
            return
        await self._add([one.links for one in entries])
        await self._push([push for one in entries for push in one.pushes])
        for one in entries:
            await put_items(self.node.frontier, one.lease, one.items)
        await self._send_ahead(entries)
        graves = [Failure(lease=one.lease, error=one.error or "") for one in entries]
        await self.node.frontier.bury(graves)
        self.errors += len(graves)
        for grave in graves:
            self.node.say("warning", f"{grave.lease.url} is a dead letter: {grave.error}")

    async def _complete(self, entries: Sequence[Entry]) -> None:
        """Children, items and the end are one step. Items for several lists go ahead of it."""
        await self._send_ahead(entries)
        groups: dict[str, list[Entry]] = {}
        light: list[Entry] = []
        for one in entries:
            is_light = not one.pushes and not one.items
            (light if is_light else groups.setdefault(self._list_of(one), [])).append(one)
        await self._push([push for one in groups.get("", ()) for push in one.pushes])
        if light:
            groups.setdefault(next(iter(groups), ""), []).extend(light)
        for key, group in groups.items():
            await self._complete_group(group, items_to=key)

    async def _send_ahead(self, entries: Sequence[Entry]) -> None:
        """A page that is done again brings the same: loaders know items by their number."""
        await self._push([push for one in entries for push in one.more_pushes])
        for one in entries:
            await put_items(self.node.frontier, one.lease, one.more_items, first=len(one.items))

    def _list_of(self, entry: Entry) -> str:
        """The one list that all items of a page go to; empty: there are others too."""
        keys = {key for key, _ in entry.pushes}
        return "" if len(keys) != 1 or entry.items or self._in_cluster else keys.pop()

    async def _complete_group(self, entries: Sequence[Entry], *, items_to: str) -> None:
        frontier = self.node.frontier
        sealed = [
            seal_offers(
                Completion(
                    lease=one.lease,
                    items=[item for _, item in one.pushes] if items_to else one.items,
                ),
                [link.offer for link in one.links],
                frontier.layout,
                raw=bool(items_to),
            )
            for one in entries
        ]
        epoch = frontier.epoch
        links = {id(link.offer): link for one in entries for link in one.links}
        known: list[Link] = []
        answers = await frontier.complete_sealed(
            sealed, items_to=items_to, on_known=lambda offer: known.append(links[id(offer)])
        )
        self._drop(known)
        done = [one for one, said in zip(entries, answers, strict=True) if said is Ended.DONE]
        self._remember((link for one in done for link in one.links), epoch)
        self.pages += len(done)
        if late := len(entries) - len(done):
            self.node.say("warning", f"{late} pages came too late, somebody else has them")
