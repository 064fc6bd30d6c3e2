"""Sends commands with redis-py: reads requests from its standard input, a line each, and writes replies.

A request is {"call": false, "commands": [[word...]...]}; the reply is an array of values. The bytes of
strings are the characters of the same number. An error is {"error": text}. With "call", commands are done by
the functions that redis-py has for them.
"""

import json
import sys

import redis

port, password = int(sys.argv[1]), "".join(sys.argv[2:]) or None
r, plain = (redis.Redis(port=port, password=password, encoding="latin-1", decode_responses=True) for _ in range(2))
cf, bf = r.cf(), r.bf()
plain.response_callbacks.clear()  # so that it returns replies as they are


def options(words):
    """Returns the options before ITEMS, and the items."""
    words, found = list(words), {}
    while words:
        name = words.pop(0)
        if name == "ITEMS":
            break
        found[name] = True if name in ("NOCREATE", "NONSCALING") else words.pop(0)
    return found, words


def cf_reserve(key, capacity, *words):
    o, _ = options(words)
    return cf.create(key, capacity, o.get("EXPANSION"), o.get("BUCKETSIZE"), o.get("MAXITERATIONS"))


def cf_insert(key, *words):
    o, items = options(words)
    return cf.insert(key, items, o.get("CAPACITY"), o.get("NOCREATE"))


def cf_insertnx(key, *words):
    o, items = options(words)
    return cf.insertnx(key, items, o.get("CAPACITY"), o.get("NOCREATE"))


def cf_info(key):
    i = cf.info(key)
    return {
        "Size": i.size, "Number of buckets": i.bucketNum, "Number of filters": i.filterNum,
        "Number of items inserted": i.insertedNum, "Number of items deleted": i.deletedNum,
        "Bucket size": i.bucketSize, "Expansion rate": i.expansionRate, "Max iterations": i.maxIteration,
    }


def bf_reserve(key, rate, capacity, *words):
    o, _ = options(words)
    return bf.create(key, rate, capacity, o.get("EXPANSION"), o.get("NONSCALING"))


def bf_insert(key, *words):
    o, items = options(words)
    return bf.insert(key, items, o.get("CAPACITY"), o.get("ERROR"), o.get("NOCREATE"), o.get("EXPANSION"), o.get("NONSCALING"))


def bf_info(key):
    i = bf.info(key)
    return {
        "Capacity": i.capacity, "Size": i.size, "Number of filters": i.filterNum,
        "Number of items inserted": i.insertedNum, "Expansion rate": i.expansionRate,
    }


calls = {
    "CF.RESERVE": cf_reserve, "CF.ADD": cf.add, "CF.ADDNX": cf.addnx, "CF.INSERT": cf_insert,
    "CF.INSERTNX": cf_insertnx, "CF.EXISTS": cf.exists, "CF.MEXISTS": cf.mexists, "CF.DEL": cf.delete,
    "CF.COUNT": cf.count, "CF.INFO": cf_info, "CF.SCANDUMP": cf.scandump, "CF.LOADCHUNK": cf.loadchunk,
    "BF.RESERVE": bf_reserve, "BF.ADD": bf.add, "BF.MADD": bf.madd, "BF.INSERT": bf_insert,
    "BF.EXISTS": bf.exists, "BF.MEXISTS": bf.mexists, "BF.INFO": bf_info, "BF.SCANDUMP": bf.scandump,
    "BF.LOADCHUNK": bf.loadchunk,
    "BF.CARD": lambda key: r.execute_command("BF.CARD", key),  # newer ones have a function
}


def call(name, *words):
    try:
        value = calls[name](*words)
    except redis.RedisError as e:
        return e
    return "OK" if value is True else value  # what it makes of OK


def send(commands):
    pipe = plain.pipeline(transaction=False)
    for words in commands:
        pipe.execute_command(*words)
    try:
        return pipe.execute(raise_on_error=False)
    except redis.RedisError as e:  # of the connection
        return [e] * len(commands)


def plain_value(value):
    """Returns what JSON has for bytes, which only dumps are, or an error."""
    return value.decode("latin-1") if isinstance(value, bytes) else {"error": str(value)}


for line in sys.stdin:
    request = json.loads(line)
    commands = request["commands"]
    values = [call(*words) for words in commands] if request["call"] else send(commands)
    print(json.dumps(values, default=plain_value), flush=True)
