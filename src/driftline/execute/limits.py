"""Time limits of the pool, and resource limits of workers."""

from __future__ import annotations

START_TIMEOUT = 300.0  # a cold import of a large compiler on a busy machine
FORK_TIMEOUT = 30.0  # for a nursery to fork; a nursery that takes longer is stopped or hangs, and is replaced
SEND_TIMEOUT = 30.0  # for a process to read a message
END_TIMEOUT = 10.0  # from SIGKILL to the end of a process: long when it holds much memory
STARTS = 3  # how often a process that is killed before its work begins is started
FIT_TIMEOUT = 30.0  # for a device to respond after a task
JOBS_PER_WORKER = 200
IDLE_PER_JOB = 3  # idle workers kept for each task that may run: one makes and judges programs, others compile
GROWTH = 512 << 20  # bytes that an idle worker may hold beyond its initial memory; a new fork frees the rest
LOG_LIMIT = 16 << 20
# Of a worker's process tree. Polled, since RLIMIT_NPROC counts all processes of a user and does not limit root.
PROCESSES = 256
TICK = 0.1  # seconds between two checks for changes that cause no message
