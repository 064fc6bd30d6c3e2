#!/bin/bash
# Makes a set with Slurm: array jobs of a task for each file of keys and one for each shard, which wait
# for one another.
#
#   tools/jobs/slurm.sh out/users.set 64 '-n 2B -p 0.001' keys/*.gz
#
# All paths must be on a file system that the nodes share, and mmapfilter on their PATH (or in MMF). It
# prints the numbers of the jobs and waits for none. A task whose node dies is queued again; after a
# failure, run the script again: tasks leave the same bytes, and shards that are whole stay.
# ARRAY is the most tasks that an array may have (see MaxArraySize); with more shards, a task builds
# several. SBATCH_FLAGS has flags for all jobs, such as '--account=x --partition=y'.
set -euo pipefail
[ $# -ge 4 ] || { echo "usage: $0 NAME.set SHARDS 'FLAGS OF PLAN' FILE..." >&2; exit 2; }
set=$1 shards=$2 flags=$3
shift 3
MMF=${MMF:-mmapfilter} ARRAY=${ARRAY:-1000}
out=$(realpath -m "$(dirname "$set")") work=$(realpath -m "${set%.set}.work") set=$(realpath -m "$set")
[ $# -le "$ARRAY" ] || { echo "$0: $# files are more than $ARRAY tasks; join some" >&2; exit 2; }
mkdir -p "$work/log" "$out"
realpath "$@" >"$work/files" # one a line; task I reads line I
"$MMF" set plan $flags --shards "$shards" -o "$work/plan"

# submit NAME FLAGS... <SCRIPT prints the number of a job.
submit() {
  local name=$1
  shift
  # shellcheck disable=SC2086 # they are words
  sbatch --parsable --requeue --kill-on-invalid-dep=yes --job-name="set-$name" --output="$work/log/$name-%A_%a" ${SBATCH_FLAGS:-} "$@" | cut -d';' -f1
}

common="set -eu; MMF=$(printf %q "$MMF") work=$(printf %q "$work") out=$(printf %q "$out") set=$(printf %q "$set")"
builds=$((shards < ARRAY ? shards : ARRAY))

partition=$(submit partition --array=1-$# <<EOF
#!/bin/bash
$common
file=\$(sed -n "\${SLURM_ARRAY_TASK_ID}p" "\$work/files")
exec "\$MMF" set partition --plan "\$work/plan" --task "\$(basename "\$file")" --spool "\$work/spool" "\$file"
EOF
)
build=$(submit build --array=0-$((builds - 1)) --dependency="afterok:$partition" <<EOF
#!/bin/bash
$common
exec "\$MMF" set build --plan "\$work/plan" --shard "\$SLURM_ARRAY_TASK_ID/$builds" --workers "\${SLURM_CPUS_PER_TASK:-1}" --spool "\$work/spool" --out "\$out"
EOF
)
assemble=$(submit assemble --dependency="afterok:$build" <<EOF
#!/bin/bash
$common
exec "\$MMF" set assemble --plan "\$work/plan" --tasks $# --spool "\$work/spool" --out "\$out" -o "\$set"
EOF
)
echo "partition $partition, build $build, assemble $assemble; logs in $work/log"
