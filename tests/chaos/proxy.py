"""A proxy between a caller and a server that does what bad networks do."""

import asyncio
import enum
import threading


class Fault(enum.Enum):
    """What happens to the bytes of all connections."""

    NONE = "none"
    # The server gets what is sent to it; its answers are lost.
    ANSWERS_LOST = "answers lost"
    # Nothing comes through and nothing is said: a half-open connection.
    SILENT = "silent"
    # Nobody is there: connections end, and new ones too.
    AWAY = "away"


class Proxy:
    """Forwards Unix sockets, from a thread of its own.

    Args:
        front: Path to listen at.
        back: Path of the server.
        delay: Seconds that each portion of bytes takes, each way.
    """

    def __init__(self, front: str, back: str, delay: float = 0.0) -> None:
        self.fault = Fault.NONE
        self.forwarded = 0
        self._paths = front, back
        self._delay = delay
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, daemon=True
        )
        self._thread.start()
        self._run(self._start())

    def set(self, fault: Fault) -> None:
        """Begins a fault, or ends it; then silent connections end."""
        self._run(self._set(fault))

    def cut(self) -> None:
        """Ends all connections; new ones come through."""
        self._run(self._cut())

    def close(self) -> None:
        """Ends everything."""
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, coroutine) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _start(self) -> None:
        self._server = await asyncio.start_unix_server(
            self._serve, self._paths[0]
        )

    async def _stop(self) -> None:
        self._server.close()
        await self._cut()

    async def _set(self, fault: Fault) -> None:
        ended, self.fault = self.fault, fault
        if fault is Fault.AWAY or ended is not Fault.NONE:
            await self._cut()

    async def _cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader, writer) -> None:
        if self.fault is Fault.AWAY:
            writer.transport.abort()
            return
        server_reader, server_writer = await asyncio.open_unix_connection(
            self._paths[1]
        )
        pair = {writer, server_writer}
        self._writers |= pair
        try:
            await asyncio.gather(
                self._forward(reader, server_writer, answers=False),
                self._forward(server_reader, writer, answers=True),
            )
        except ConnectionError:
            pass
        finally:
            self._writers -= pair
            for each in pair:
                each.transport.abort()

    async def _forward(self, reader, writer, *, answers: bool) -> None:
        while data := await reader.read(1 << 16):
            if self._delay:
                await asyncio.sleep(self._delay)
            lost = self.fault is Fault.SILENT or (
                answers and self.fault is Fault.ANSWERS_LOST
            )
            if lost:
                continue
            self.forwarded += len(data)
            writer.write(data)
            await writer.drain()
        writer.transport.abort()
