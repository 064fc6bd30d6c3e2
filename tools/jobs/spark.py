"""Makes a set from keys that are in Spark: each partition is a task, which a pipe feeds.

    spark-submit spark.py /mnt/users.plan /mnt/spool 'hdfs:///users/*.gz'

Make the plan before, with "mmapfilter set plan", and afterwards build the shards and assemble them,
with any engine; it prints how many tasks there are, for "set assemble --tasks". /mnt is a file system
that all executors share, and /usr/local/bin/mmapfilter is on each of them.

RDD.pipe does not tell a process which partition it gets. From Python, a process has only the
environment that is given here; from Scala, also that of the executor, and the name of the input file
if there is one. So the first line is the name of the task, from the index of the partition. The last
line is a mark: if an executor dies, or the input fails, the pipe is closed as at its end, and a task
without the mark fails instead of spooling a part of its keys. A key must not be the mark, and must
have no line feed: write such keys in hex, and plan with --hex.

Spark may retry a partition, or run it twice at the same time (speculation). Both are right as long as
the keys of a partition come in the same order each time. Those of a file do. After a shuffle they do
not: write the keys to files first, or sort them within partitions.
"""

import itertools
import os
import shlex
import sys

MARK = "-- all keys of this task --"


def command(plan, spool, mmapfilter="/usr/local/bin/mmapfilter"):
    """Returns the command for a pipe. The shell reads the first line, and no more."""
    task = 'read -r task && exec "$0" set partition -q --plan "$1" --spool "$2" --task "$task" --end-mark "$3"'
    return shlex.join(["/bin/sh", "-c", task, mmapfilter, plan, spool, MARK])


def lines(index, keys):
    """Returns what a task reads."""
    return itertools.chain([f"spark-{index:05d}"], keys, [MARK])


def partition(keys, plan, spool):
    """Spools the keys, an RDD of strings, and returns the number of tasks."""
    env = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    keys.mapPartitionsWithIndex(lines).pipe(command(plan, spool), env=env, checkCode=True).count()
    return keys.getNumPartitions()


if __name__ == "__main__":
    from pyspark import SparkContext

    plan, spool, path = sys.argv[1:]
    print("tasks:", partition(SparkContext(appName="mmapfilter").textFile(path), plan, spool))
