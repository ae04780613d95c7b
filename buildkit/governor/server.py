"""The governor: serves launchers on a Unix socket and carries out what the policy decides.

What enters: connections, one per waiting or running compiler call. What leaves: orders to the
launchers, which hold the processes. One thread, one ledger; the policy is asked after every batch
of messages, and ten times a second. A call whose launcher is gone is struck out and its process
group ended. Another user's launcher is not served.
"""

from __future__ import annotations

import json
import math
import os
import selectors
import signal
import socket
import struct
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from buildkit.governor.capacity import read_headroom
from buildkit.governor.estimate import Measured
from buildkit.governor.knowledge import read_knowledge
from buildkit.governor.protocol import (
    GIVE_UP,
    ORDERS,
    Ask,
    Began,
    End,
    GiveUp,
    Out,
    Report,
    Resumed,
    Rss,
    parse_message,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from buildkit.governor.estimate import Call, Nearest
    from buildkit.governor.knowledge import Knowledge
    from buildkit.governor.ledger import Ledger
    from buildkit.governor.protocol import Message

__all__ = ["Server"]

#: Seconds between two decisions when nothing is said: as often as launchers tell their memory.
TICK_SECONDS = 0.1

#: The same while calls wait and none runs: the policy collects them for a moment.
COLLECTING_SECONDS = 0.01

#: Seconds that running calls get to find the next governor; they look every half second.
SUCCESSION_SECONDS = 0.8

#: For how long a figure of free memory is good: reading it takes longer than deciding.
HEADROOM_SECONDS = 0.05

#: Connections that may wait to be accepted.
BACKLOG = 4096

#: A line that is longer comes from no launcher; a path may have 4096 bytes, three each escaped.
LINE_BYTES = 64 << 10


@dataclass(slots=True)
class _Peer:
    """One connection."""

    socket: socket.socket
    pid: int
    """Of the launcher, as seen from here; 0 if it is in a namespace that we do not see."""
    received: bytes = b""
    job: int | None = None
    call: Call | None = None
    knowledge: Knowledge | None = None
    nearest: Nearest | None = None
    """What its expectation rests on while nothing better is known."""
    group: int = 0
    """Process group of its compiler; 0 while none runs."""
    has_ended: bool = False


class Server:
    """Serves one socket.

    :param listener: Bound and listening.
    :param ledger: Empty.
    :param headroom: Bytes that can be taken right now.
    :param succeeds: Another governor was here before: calls that it had started make themselves
        known first, then the others start.
    """

    def __init__(
        self,
        listener: socket.socket,
        ledger: Ledger,
        *,
        headroom: Callable[[], int] = read_headroom,
        clock: Callable[[], float] = time.monotonic,
        succeeds: bool = False,
    ) -> None:
        self._opens_seconds = clock() + (SUCCESSION_SECONDS if succeeds else 0.0)
        self._listener = listener
        self._ledger = ledger
        self._headroom = headroom
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self._jobs: dict[int, _Peer] = {}
        self._knowledge: dict[str, tuple[int, Knowledge]] = {}
        self._read = -math.inf
        self._free_bytes = 0
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)

    def serve(self, is_over: Callable[[], bool]) -> None:
        """Serve until ``is_over``, which is asked with every tick; then close everything."""
        try:
            while not is_over():
                is_idle = self._ledger.waiting and not self._ledger.running
                pause = COLLECTING_SECONDS if is_idle else TICK_SECONDS
                for key, _ in self._selector.select(pause):
                    if key.data is None:
                        self._accept()
                    else:
                        self._receive(key.data)
                self._decide(self._clock())
        finally:
            self._close()

    # --- connections ------------------------------------------------------------------------------

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # nobody else waits, or no descriptor is free for the next
                return
            pid, uid, _ = struct.unpack(
                "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            )
            if uid != os.geteuid():
                connection.close()
                continue
            connection.setblocking(False)
            self._selector.register(connection, selectors.EVENT_READ, _Peer(connection, pid))

    def _receive(self, peer: _Peer) -> None:
        try:
            data = peer.socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(peer)
            return
        *lines, peer.received = (peer.received + data).split(b"\n")
        for line in lines:
            message = parse_message(line)
            if message is None or not self._hear(peer, message):
                self._drop(peer)
                return
        if len(peer.received) > LINE_BYTES:
            self._drop(peer)

    def _drop(self, peer: _Peer) -> None:
        """Forget a connection. A compiler whose launcher died without a word is ended."""
        self._selector.unregister(peer.socket)
        peer.socket.close()
        if peer.job is not None:
            self._jobs.pop(peer.job, None)
            self._ledger.leave(peer.job)
        if peer.group and not peer.has_ended:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(peer.group, signal.SIGKILL)

    def _close(self) -> None:
        """Close all connections; the launchers then look for another governor."""
        for key in list(self._selector.get_map().values()):
            if key.data is not None:
                key.data.socket.close()
        self._selector.close()
        self._listener.close()

    # --- messages ---------------------------------------------------------------------------------

    def _hear(self, peer: _Peer, message: Message) -> bool:
        """Enter a message in the ledger; False if it does not fit what was said before."""
        if isinstance(message, Report):
            document = asdict(self._ledger.load(message.build))
            return self._send(peer, json.dumps(document).encode() + b"\n")
        if isinstance(message, GiveUp):
            self._give_up(message.build)
            return True
        now = self._clock()
        if isinstance(message, Ask):
            return self._arrive(peer, message, now)
        if peer.job is None:
            return False
        if isinstance(message, Resumed):
            if self._ledger.is_running(peer.job):
                return False
            self._ledger.adopt(peer.job, elapsed_seconds=message.elapsed_seconds, now=now)
            self._ledger.measure(peer.job, message.rss_bytes, now)
        elif isinstance(message, End):
            self._end(peer, peer.job, message)
        elif self._ledger.is_running(peer.job):
            self._follow(peer, peer.job, message, now)
        if isinstance(message, Began | Resumed):
            peer.group = _group_of(peer.pid)
        return True

    def _follow(self, peer: _Peer, job: int, message: Began | Rss | Out, now: float) -> None:
        """Enter how a running job is doing."""
        match message:
            case Began():
                pass
            case Rss(rss):
                self._ledger.measure(job, rss, now)
            case Out(reason, peak):
                self._ledger.measure(job, peak, now)
                self._ledger.requeue(job, now, is_alone=reason == "kernel")
                peer.group = 0
            case _:
                assert_never(message)

    def _give_up(self, build: str) -> None:
        """Send the waiting calls of a build away; what runs of it goes on."""
        for job in self._ledger.waiting_of(build):
            peer = self._jobs.pop(job)
            peer.job = None
            self._ledger.leave(job)
            self._send(peer, GIVE_UP)

    def _end(self, peer: _Peer, job: int, message: End) -> None:
        peer.has_ended = True
        peer.job = None
        self._jobs.pop(job, None)
        tail = self._ledger.tail_bytes(job) if self._ledger.is_running(job) else None
        self._ledger.leave(job)
        if message.status == 0 and peer.call is not None and peer.knowledge is not None:
            run = Measured(peak_bytes=message.peak_bytes, seconds=message.seconds, tail_bytes=tail)
            self._learn(peer.knowledge, peer.call, run)

    def _arrive(self, peer: _Peer, ask: Ask, now: float) -> bool:
        knowledge = self._knowledge_of(ask.build)
        if peer.job is not None or knowledge is None:
            return False
        peer.call = knowledge.call_of(ask)
        peer.knowledge = knowledge
        nearest = knowledge.nearest(peer.call)
        peer.nearest = nearest if knowledge.is_guess(peer.call) else None
        expected = knowledge.expect(peer.call, nearest)
        peer.job = self._ledger.arrive(
            build=ask.build,
            peak_bytes=max(expected.peak_bytes, ask.floor_bytes * 3 // 2),
            seconds=expected.seconds,
            tail_bytes=expected.tail_bytes,
            is_guess=expected.is_guess,
            cpus=ask.passes,
            now=now,
        )
        self._jobs[peer.job] = peer
        return True

    def _learn(self, knowledge: Knowledge, call: Call, run: Measured) -> None:
        """Expect of the waiting calls that are most like this one what it has taken."""
        knowledge.show(call, run)
        words = call.words
        for job, peer in self._jobs.items():
            other, nearest = peer.call, peer.nearest
            if other is None or nearest is None or peer.knowledge is not knowledge:
                continue
            if other.kind == call.kind and nearest.hear(words, run):
                guess = knowledge.expect(other, nearest)
                self._ledger.revise(
                    job,
                    peak_bytes=guess.peak_bytes,
                    seconds=guess.seconds,
                    tail_bytes=guess.tail_bytes,
                )

    def _knowledge_of(self, build: str) -> Knowledge | None:
        """Return what is known of a build, read anew when its file was written anew."""
        try:
            stamp = Path(build).stat().st_mtime_ns
            known = self._knowledge.get(build)
            if known is None or known[0] != stamp:
                known = (stamp, read_knowledge(Path(build)))
                self._knowledge[build] = known
                self._ledger.limit(build, known[1].limit)
        except (OSError, ValueError):
            return None
        return known[1]

    # --- decisions --------------------------------------------------------------------------------

    def _decide(self, now: float) -> None:
        """Ask the policy, and carry out what it says."""
        if not self._jobs or now < self._opens_seconds:
            return
        if now - self._read >= HEADROOM_SECONDS:
            self._read, self._free_bytes = now, self._headroom()
        for decision in self._ledger.step(now=now, headroom_bytes=self._free_bytes):
            peer = self._jobs.get(decision.job)
            if peer is not None and not self._send(peer, ORDERS[type(decision)]):
                self._drop(peer)

    def _send(self, peer: _Peer, line: bytes) -> bool:
        """Send a line. One that does not fit into the buffer of a socket nobody reads is an end."""
        try:
            return peer.socket.send(line) == len(line)
        except OSError:
            return False


def _group_of(launcher: int) -> int:
    """Return the process group of a launcher's compiler: its child leads it. 0 if unknown.

    The launcher may be in a process namespace of its own, where it knows other numbers than we.
    """
    try:
        children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
        group = int(children[0])
        return group if os.getpgid(group) == group else 0
    except (OSError, IndexError, ValueError):
        return 0
