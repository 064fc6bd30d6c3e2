"""A reader that TestKill (tools/kill) starts, as ../c/stress.c is, which says more."""

import mmap
import os
import random
import struct
import sys
import threading
import time

import mmapfilter

KEYS, MOST_ASKS, PAUSE = 64, 500, 4
SYNCED, STATES = 2, 4


def until_parent_ends():
    while os.read(0, 4096):  # not of sys.stdin, whose lock would be held when the program ends
        pass
    os._exit(1)


def main(path, page, seed, *words):
    w = {name: int(n) for name, n in (word.split("=") for word in words)}
    with open(page, "r+b") as f:
        page = memoryview(mmap.mmap(f.fileno(), 0)).cast("Q")  # an item is loaded as one word
    seed = int(seed)
    rng = random.Random(seed)
    threading.Thread(target=until_parent_ends, daemon=True).start()

    def key(i):
        if i % w["family"] < w["copies"]:
            i -= i % w["family"]
        return struct.pack("<QQ", seed, i * 0x9E3779B97F4A7C15 % 2**64)

    def ask(f, file):
        ids = [rng.randrange(page[w["limit"]]) for _ in range(KEYS)]
        keys = [key(i) for i in ids]
        before = [page[w["keys"] + i] for i in ids]
        found = f.contains_many(keys) if rng.random() < 0.5 else [k in f for k in keys]
        after = [page[w["keys"] + i] for i in ids]
        if page[w["file"]] != file:
            return False  # a new file has replaced this one
        for i, b, a, yes in zip(ids, before, after, found):
            if a == b and a % STATES == SYNCED and not yes:
                sys.exit("VIOLATION: in Python: key %d was synced, and not found (file %d, status %d)" % (i, file, f.status))
        page[w["nos"]] += found.count(False)  # no other process counts here
        return True

    while not page[w["end"]]:
        file, reopen = page[w["file"]], page[w["reopen"]]
        with mmapfilter.open(path) as f:
            status = f.status
            for n in range(rng.randrange(MOST_ASKS)):
                if page[w["end"]] or page[w["reopen"]] != reopen or not ask(f, file):
                    break
                if status == mmapfilter.SERVED:
                    page[w["lookups"]] += KEYS
                if n % PAUSE == 0 or status != mmapfilter.SERVED:
                    time.sleep(rng.random() * 0.002)  # leave the processors to others
                    status = f.status
                    if status in (mmapfilter.SUPERSEDED, mmapfilter.REPLACED):
                        break


if __name__ == "__main__":
    main(*sys.argv[1:])
