"""The relay: connects one chat platform with the daemon, through the API only, until it is stopped."""

import asyncio
import logging
import os
import shutil
import socket
from contextlib import aclosing, suppress
from pathlib import Path
from secrets import token_hex
from typing import Final

from tinyagi.api.channels import RelayReport
from tinyagi.channels.delivery import Delivery
from tinyagi.channels.journal import DeliveryJournal
from tinyagi.channels.port import Channel, ChannelError, NotSetUp
from tinyagi.channels.progress import ProgressDisplay, ProgressMode
from tinyagi.channels.reception import Reception
from tinyagi.client.client import AsyncClient
from tinyagi.client.errors import ClientError, ConflictError, NotTinyAGI, Rejected, Unauthorized
from tinyagi.domain.chats import Chat
from tinyagi.domain.texts import one_line

log = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
_RETRY_SECONDS: Final = 0.5
_EVENTS: Final = ("response_ready", "chain_step_start")
_REFUSALS: Final = (Unauthorized, NotTinyAGI, Rejected)
"""Errors of the daemon that another try does not change."""


class Relay:
    """Serves one channel. Two relays of a channel exclude each other by a lease that the daemon keeps."""

    def __init__(self, channel: Channel, client: AsyncClient, state: Path, mode: ProgressMode) -> None:
        """`state` is a folder of the channel's own; the channel and the journal keep their files there."""
        self._channel = channel
        self._client = client
        self._state = state
        self._mode = mode
        self._owner = f"{socket.gethostname()[:60]} process {os.getpid()} {token_hex(4)}"
        self._account = ""
        self._error: str | None = None

    async def run(self) -> None:
        """Serve until cancelled; raise NotSetUp, or ChannelError when another relay serves the channel."""
        downloads = self._state / "downloads"
        # Left over by a killed process.
        await asyncio.to_thread(shutil.rmtree, downloads, ignore_errors=True)
        downloads.mkdir(mode=0o700, parents=True)
        # The lease comes first: a second relay must not even connect, because platforms end the older connection.
        lease = await self._take_lease()
        try:
            with DeliveryJournal(self._state / "journal.jsonl") as journal:
                await self._serve(journal, downloads, lease)
        except* (ChannelError, ClientError) as errors:
            # The first one is the cause; the others are its consequences.
            raise _first(errors) from None
        finally:
            await self._leave()

    async def _serve(self, journal: DeliveryJournal, downloads: Path, lease_seconds: float) -> None:
        progress = ProgressDisplay(self._channel, self._client, journal, self._mode)
        async with asyncio.TaskGroup() as tasks:

            def stored(_: Chat) -> None:
                progress.wake()

            delivery = Delivery(self._channel, self._client, journal, downloads, progress.answered)
            reception = Reception(self._channel, self._client, downloads, stored)
            tasks.create_task(self._keep_lease(lease_seconds))
            await self._connect()
            tasks.create_task(reception.run())
            tasks.create_task(self._receive(reception))
            tasks.create_task(delivery.run())
            tasks.create_task(progress.run())
            tasks.create_task(self._follow_events(delivery, progress))

    async def _connect(self) -> None:
        """Log in, as often as it takes; raise NotSetUp."""
        pause = _FIRST_PAUSE
        while True:
            try:
                self._account = await self._channel.connect()
            except NotSetUp:
                raise
            except ChannelError as error:
                await self._set_error(str(error))
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            else:
                log.info("connected as %s", one_line(self._account))
                await self._set_error(None)
                return

    async def _receive(self, reception: Reception) -> None:
        pause = _FIRST_PAUSE
        while True:
            began = asyncio.get_running_loop().time()
            try:
                await self._channel.receive(reception.receive)
            except NotSetUp:
                raise
            except ChannelError as error:
                await self._set_error(str(error))
            if asyncio.get_running_loop().time() - began > _LONGEST_PAUSE:
                pause = _FIRST_PAUSE
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            await self._connect()

    async def _follow_events(self, delivery: Delivery, progress: ProgressDisplay) -> None:
        """Wake the others when the daemon announces something; also after every reconnection."""
        channel = self._channel.manifest.id
        while True:
            try:
                async with aclosing(self._client.events(types=_EVENTS)) as events:
                    async for event in events:
                        if event.type == "chain_step_start":
                            progress.wake()
                        elif event.type != "response_ready" or event.text("channel") == channel:
                            delivery.wake()
            except _REFUSALS:
                raise
            except ClientError as error:
                log.debug("no events: %s", error)
            await asyncio.sleep(_RETRY_SECONDS)

    async def _take_lease(self) -> float:
        """Wait for the daemon and take the channel's lease; raise ChannelError when another relay has it."""
        while True:
            try:
                return await self._report()
            except ConflictError as error:
                raise ChannelError(str(error)) from None
            except _REFUSALS:
                raise
            except ClientError as error:
                log.debug("waiting for the daemon: %s", error)
            await asyncio.sleep(_RETRY_SECONDS)

    async def _keep_lease(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds / 3)
            await self._renew()

    async def _renew(self) -> None:
        """Report; a daemon that is away gets the next report, but another relay in this one's place ends it."""
        try:
            await self._report()
        except ConflictError as error:
            raise ChannelError(str(error)) from None
        except ClientError as error:
            log.debug("the daemon did not take the report: %s", error)

    async def _report(self) -> float:
        report = RelayReport(
            owner=self._owner,
            connected=bool(self._account) and self._error is None,
            account=one_line(self._account, 256),
            error=None if self._error is None else one_line(self._error, 1_000),
        )
        return (await self._client.relays.report(self._channel.manifest.id, report)).lease_seconds

    async def _set_error(self, error: str | None) -> None:
        if error is not None:
            log.warning("%s", one_line(error))
        self._error = error
        await self._renew()

    async def _leave(self) -> None:
        with suppress(Exception):
            async with asyncio.timeout(5):
                await self._client.relays.release(self._channel.manifest.id, self._owner)
        # A platform that is away does not keep the process from ending.
        with suppress(Exception):
            async with asyncio.timeout(5):
                await self._channel.close()


def _first(errors: BaseExceptionGroup[ChannelError | ClientError]) -> ChannelError | ClientError:
    for error in errors.exceptions:
        return _first(error) if isinstance(error, BaseExceptionGroup) else error
    raise AssertionError
