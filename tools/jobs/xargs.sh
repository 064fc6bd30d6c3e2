#!/bin/sh
# Makes a set with xargs: a task for each file of keys, one for each shard.
#
#   tools/jobs/xargs.sh out/users.set 64 '-n 2B -p 0.001' keys/*.gz
#
# JOBS is the number of processes (one a processor), MEMORY that of each build, MMF the command. If it
# is interrupted, run it again. What is in out/users.work may be removed afterwards.
set -eu
[ $# -ge 4 ] || { echo "usage: $0 NAME.set SHARDS 'FLAGS OF PLAN' FILE..." >&2; exit 2; }
set=$1 shards=$2 flags=$3
shift 3
export MMF="${MMF:-mmapfilter}" MEMORY="${MEMORY:-256MiB}" out="$(dirname "$set")" work="${set%.set}.work"
jobs=${JOBS:-$(getconf _NPROCESSORS_ONLN)}

mkdir -p "$work" "$out"
# shellcheck disable=SC2086 # flags are words
"$MMF" set plan -q $flags --shards "$shards" -o "$work/plan"
printf '%s\0' "$@" | xargs -0 -P "$jobs" -n 1 sh -c '
	exec "$MMF" set partition --plan "$work/plan" --task "$(basename "$1")" --spool "$work/spool" "$1"' sh
seq 0 $((shards - 1)) | xargs -P "$jobs" -n 1 sh -c '
	exec "$MMF" set build -m "$MEMORY" --plan "$work/plan" --shard "$1" --spool "$work/spool" --out "$out"' sh
"$MMF" set assemble --plan "$work/plan" --tasks $# --spool "$work/spool" --out "$out" -o "$set"
