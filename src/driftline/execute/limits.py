"""How long the pool waits, and how much a worker may have, print and serve."""

from __future__ import annotations

START_TIMEOUT = 300.0  # a cold import of a large compiler on a busy machine
FORK_TIMEOUT = 30.0  # for a nursery to fork; one that takes longer is stopped or hangs, and is replaced
SEND_TIMEOUT = 30.0  # for a process to read what it is sent
END_TIMEOUT = 10.0  # from SIGKILL to the end of a process: long when it holds much memory
STARTS = 3  # how often a process is started that is killed before it has begun its work
FIT_TIMEOUT = 30.0  # for a device to answer after a task
JOBS_PER_WORKER = 200
IDLE_PER_JOB = 3  # idle workers that are kept for each task that may run: one makes and judges programs, others compile
GROWTH = 512 << 20  # bytes that an idle worker may hold beyond what it began with; a fork gives the rest back
LOG_LIMIT = 16 << 20
# A worker's whole tree. Counted, since RLIMIT_NPROC counts all processes of a user and does not bind root.
PROCESSES = 256
TICK = 0.1  # seconds between two looks at what changes without a message
