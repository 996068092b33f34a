"""What runs in a worker process: read a message, do it, answer; end when the parent is gone."""

import json
import os
import pickle
import select
import socket
import struct
import time
import traceback
from dataclasses import asdict
from typing import Any, final

import numpy as np

from gensmooth.estimators import Plan
from gensmooth.evaluators.board import Board, read
from gensmooth.evaluators.channel import Channel
from gensmooth.evaluators.travel import Site, Step
from gensmooth.streams import Purpose

# From the parent.
OPEN, CLOSE, LAYOUT, TELL, EVALUATE = b"O", b"C", b"L", b"T", b"E"
# From the worker.
HELLO, READY, REFUSED, TOLD, VALUES = b"h", b"r", b"x", b"t", b"v"

SESSION = struct.Struct("<q")
OPENING = struct.Struct("<qqq")  # the session's number, where its luggage begins, its size
# Step, seed, what comes with it, its size, the purpose, evaluations planned; a plan, a context.
TELLING = struct.Struct("<qQBqBq")
NOTHING, ESTIMATE, WHOLE = range(3)
ASSIGNMENT = struct.Struct("<qqq")  # its number, start, stop
RESULT = struct.Struct("<qdqq")  # the assignment's number, seconds, rows, columns; failures


def main(
    talk: int, lifeline: int, board: int, luggage: int, state: int, slots: int, slot: int
) -> None:
    """Serve until the parent hangs up.

    Args:
        talk: Descriptor of the socket for messages.
        lifeline: Descriptor of a socket that closes when the parent ends.
        board: Descriptor of the shared block.
        luggage: Descriptor of the search and the objective, pickled.
        state: Descriptor of the directions' whole state, pickled.
        slots: How many slots the board has.
        slot: Which is this worker's.
    """
    _die_with_parent(lifeline)
    channel = Channel(socket.socket(fileno=talk))
    worker = _Worker(channel, Board(board, slots), slot, luggage, state)
    channel.send(HELLO)
    while True:
        try:
            for code, payload in channel.read():
                worker.handle(code, payload)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return


def _die_with_parent(lifeline: int) -> None:
    """Have the kernel end this process, and any it has started, when the parent is gone.

    A signal whose default is to end the process works even inside a C call that never returns.
    """
    import fcntl  # not on Windows, where this module can be imported and not run

    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC)
    if select.select([lifeline], [], [], 0)[0]:  # gone before we were listening
        os._exit(1)


@final
class _Worker:
    def __init__(self, channel: Channel, board: Board, slot: int, luggage: int, state: int) -> None:
        self.channel = channel
        self.board = board
        self.slot = slot
        self.luggage = luggage
        self.state = state
        self.site: Site | None = None
        self.dtype: np.dtype[Any] = np.dtype(np.float64)
        self.shape: tuple[int, ...] = ()

    def handle(self, code: bytes, payload: bytes) -> None:
        if code == EVALUATE:
            self.evaluate(*ASSIGNMENT.unpack(payload))
        elif code == TELL:
            self.tell(payload)
        elif code == LAYOUT:
            name, shape = json.loads(payload)
            self.dtype, self.shape = np.dtype(name), tuple(shape)
            self.board.fit(int(np.prod(self.shape)) * self.dtype.itemsize)
        elif code == OPEN:
            self.open(*OPENING.unpack(payload))
        elif code == CLOSE:
            self.site = None

    def open(self, session: int, start: int, size: int) -> None:
        number = SESSION.pack(session)
        try:
            self.site = Site(*pickle.loads(read(self.luggage, start, size)))
        except BaseException:
            text = traceback.format_exc()[-10_000:]
            self.channel.send(REFUSED, number + text.encode("utf-8", "replace"))
        else:
            self.channel.send(READY, number)

    def tell(self, payload: bytes) -> None:
        assert self.site is not None
        number, seed, news, length, purpose, planned = TELLING.unpack_from(payload)
        plan = context = None
        if planned:
            plan = Plan(
                *np.frombuffer(payload, np.int64, 3 * planned, TELLING.size).reshape(3, planned)
            )
        if len(payload) > (used := TELLING.size + 3 * 8 * planned):
            context = np.frombuffer(payload, np.float64, offset=used)
        size = int(np.prod(self.shape))
        x = self.board.x(self.dtype, size).reshape(self.shape)
        estimate = self.board.estimate(self.dtype, size).copy() if news == ESTIMATE else None
        whole = pickle.loads(read(self.state, 0, length)) if news == WHOLE else None
        if news != NOTHING:  # we have our copies; the parent may go on
            self.channel.send(TOLD)
        step = Step(number, seed, plan, Purpose(purpose), context)
        self.site.step(step, x, estimate=estimate, directions=whole)

    def evaluate(self, number: int, start: int, stop: int) -> None:
        assert self.site is not None
        self.board.receive(self.slot, number)
        report = self.site.evaluate(start, stop, self.begin)
        self.board.begin(self.slot, -1, 0.0)
        columns = report.values.shape[1] if report.values.ndim > 1 else 0
        found = RESULT.pack(number, report.seconds, stop - start, columns) + report.values.tobytes()
        if report.failures:
            found += json.dumps([asdict(failure) for failure in report.failures]).encode()
        self.channel.send(VALUES, found)

    def begin(self, index: int) -> None:
        self.board.begin(self.slot, index, time.monotonic())
