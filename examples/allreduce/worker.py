"""A worker of a ring all-reduce over TCP: the sum of one vector per worker, known to all of them at the end.

It needs nothing but Python and numpy. Who it is comes from JOB_COMPLETION_INDEX, as in any Indexed Job; where the
others are from ALLHANDS_WORKER_HOSTS, addresses in the order of the indexes. On another cluster, where that is not set,
give WORKER_HOSTS the names of the pods in the same form.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time

import numpy as np

PORT = int(os.environ.get("WORKER_PORT", "29500"))
POLL_SECONDS = 0.05
PATIENCE_SECONDS = float(os.environ.get("WORKER_PATIENCE_SECONDS", "60"))


def listen(address: str) -> socket.socket:
    server = socket.create_server((address, PORT))
    server.settimeout(PATIENCE_SECONDS)
    return server


def connect(address: str, own: str) -> socket.socket:
    """To a neighbour that may not be up yet."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            link = socket.create_connection((address, PORT), timeout=PATIENCE_SECONDS, source_address=(own, 0))
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_SECONDS)
        else:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return link


def exchange(right: socket.socket, left: socket.socket, block: np.ndarray) -> np.ndarray:
    """Sends a block to the right neighbour while one of the same size comes from the left."""
    incoming = np.empty_like(block)
    sending, receiving = memoryview(block).cast("B"), memoryview(incoming).cast("B")
    while sending or receiving:
        readable, writable, _ = select.select(
            [left] if receiving else [], [right] if sending else [], [], PATIENCE_SECONDS
        )
        if not readable and not writable:
            raise TimeoutError(f"the neighbours were silent for {PATIENCE_SECONDS:g} s")
        if writable:
            sending = sending[right.send(sending) :]
        if readable:
            count = left.recv_into(receiving)
            if not count:
                raise ConnectionError("the left neighbour is gone")
            receiving = receiving[count:]
    return incoming


def ring_all_reduce(vector: np.ndarray, rank: int, world: int, right: socket.socket, left: socket.socket) -> np.ndarray:
    """First every worker gets the whole sum of one part, then all parts go round once more."""
    parts = np.array_split(vector.copy(), world)
    largest = max(map(len, parts))

    def padded(part: np.ndarray) -> np.ndarray:
        return np.pad(part, (0, largest - len(part)))

    for step in range(world - 1):
        out, into = (rank - step) % world, (rank - step - 1) % world
        parts[into] = parts[into] + exchange(right, left, padded(parts[out]))[: len(parts[into])]
    for step in range(world - 1):
        out, into = (rank - step + 1) % world, (rank - step) % world
        parts[into] = exchange(right, left, padded(parts[out]))[: len(parts[into])]
    return np.concatenate(parts)


def main() -> int:
    rank = int(os.environ["JOB_COMPLETION_INDEX"])
    hosts = (os.environ.get("ALLHANDS_WORKER_HOSTS") or os.environ["WORKER_HOSTS"]).split(",")
    world, size = len(hosts), int(os.environ.get("VECTOR_SIZE", "1000003"))
    own = hosts[rank]
    began = time.monotonic()
    with listen(own) as server:
        right = connect(hosts[(rank + 1) % world], own)
        left, _ = server.accept()
        left.setblocking(False)
        right.setblocking(False)
        vectors = [np.random.default_rng(number).integers(0, 1000, size) for number in range(world)]
        total = ring_all_reduce(vectors[rank], rank, world, right, left)
        right.close()
        left.close()
    correct = bool(np.array_equal(total, np.sum(vectors, axis=0)))
    seconds = time.monotonic() - began
    verdict = "correct" if correct else "WRONG"
    sys.stdout.write(f"worker {rank} of {world} at {own}: sum of {size} numbers {verdict}, {seconds:.2f} s\n")
    return 0 if correct else 1


if __name__ == "__main__":
    sys.exit(main())
