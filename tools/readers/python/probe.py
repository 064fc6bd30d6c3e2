"""The program through which TestKill (tools/kill) calls mmapfilter.py.

It has the commands o, s and x of the session of ../c/probe.c."""

import sys

import mmapfilter

f = None
for line in sys.stdin:
    what, rest = line[0], line[1:-1]
    if what == "o":
        if f:
            f.close()
        f, answer = mmapfilter.open(rest), 0
    elif what == "s":
        answer = f.status
    else:
        keys = [bytes.fromhex(rest[i : i + 32]) for i in range(0, len(rest), 32)]
        answer = "".join("1" if k in f and found else "0" for k, found in zip(keys, f.contains_many(keys)))
    print(answer, flush=True)
