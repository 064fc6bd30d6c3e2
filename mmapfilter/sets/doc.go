// Package sets builds and reads sharded sets, called sets here: filters of more keys than one file, or
// one machine, should hold. A set is a manifest, NAME.set, and the files that the manifest names, the
// shards.
//
// # Use
//
// On one machine, [Build] does everything:
//
//	p, err := sets.NewPlan(&mmapfilter.Options{Capacity: 2_000_000_000, FalsePositiveRate: 0.001}, 64)
//	summary, err := sets.Build(ctx, "users.set", p, sets.Work{}, keys)
//	s, err := sets.Open("users.set", nil) // or Follow
//	if s.ContainsString("alice") { … }
//
// On many machines, the work is divided into tasks, which any program may start: a shell,
// make, Slurm, Kubernetes, Spark. They share a plan and two directories:
//
//	plan       NewPlan, Plan.Write           once
//	partition  Partition                     once for each part of the keys: hashes them, and spools the
//	                                         hashes by shard
//	build      BuildShard                    once for each shard, when all parts are done: builds the
//	                                         shard from its hashes
//	assemble   Assemble                      once, when all shards are done: checks all counts, and writes
//	                                         the manifest
//
// The command has the same steps: "set plan", "set partition", "set build", "set assemble". An engine
// that moves the hashes itself, such as Apache Beam, uses [Plan.Hash], [BuildShardFrom] and
// [AssembleFrom].
//
// # Terms
//
//	plan        what all tasks of a set agree on: seed, capacity, rate, layout and number of shards
//	task        one run of a step: the partition of one part, the build of one shard, or the assembly
//	part        the keys that one task partitions
//	spool       a file with the hashes of the keys of a part, by shard
//	block       of a spool: hashes of one shard, with one checksum
//	receipt     a file that says that a spool is complete, and what it holds
//
// # The rules
//
//	S1  A set has S shards. A key with the hash h belongs to shard hi(h, S), where h·S mod 2^64 takes
//	    the place of h. So the shards are consecutive ranges of one large filter, and the rate of the
//	    set is the rate of each shard. The superblock of each file has the number of the shard, and S. A
//	    shard that is opened alone answers correctly for every key: it says "certainly not" to keys of
//	    other shards. The manifest names the files and says what they held when they were built (see
//	    manifest.go). The manifest is written last, and replaced atomically.
//	S2  A plan fixes seed, capacity, rate, layout and S. Every file of a task has the ID of the plan
//	    (for a spool, its receipt has it), and a task refuses files of another plan. Files between tasks
//	    have hashes, not keys. A task may be killed, repeated, or run twice at the same time, on one
//	    machine or several; it leaves the same bytes. A file appears under its name once it is complete
//	    and durable. The bytes of a shard depend only on the plan and the keys, not on how the keys were
//	    divided into tasks. No key gets lost unnoticed: for all tasks and all shards,
//
//	        keys read = hashes spooled = hashes read = items + duplicates
//
//	    or the manifest is not written. Equal keys are separate items, unless the plan says Distinct.
//	S3  The name of a shard has a number computed from its content. So a file that a set names is never
//	    replaced by a file with other keys: a new set is built beside the old one, in the same
//	    directory, and is in use once its manifest replaces the old one. The new set lacks keys that
//	    writers have inserted into the old set meanwhile. [Superseded] lists the files that no manifest
//	    names. Two sets cannot share a file, since a change of one set would change the other. So the
//	    manifest is not written if another manifest in the directory of the shards (a file whose name
//	    ends with ".set") names one of its files.
//	S4  A reader opens a shard when it needs the shard. A shard that is missing, damaged, or not the
//	    file that the manifest names answers "maybe" for its keys. See [Set].
//
// # Files
//
// In the spool directory there are two files for each task:
//
//	TASK.spool  hashes
//	TASK.task   its receipt: JSON, written when TASK.spool is complete
//
// and in the directory of the shards
//
//	shard-00042-of-00064-0123456789abcdef.mmf    a shard and its identity
//	shard-00042-of-00064-01234567.built          JSON: what the shard was built from, and by which plan
//
// Plans, receipts and .built files are JSON. As in a manifest, their last member is "crc32c", the
// CRC32C of everything before it.
//
// A spool is little-endian:
//
//	8 bytes      "MMSPOOL1"
//	blocks       hashes of 8 bytes, as the index says
//	index        for each block
//	 0   4        shard
//	 4   4        hashes in the block
//	 8   4        CRC32C of the block
//
// The digest in the receipt is XXH3 of the first 8 bytes and the index. Everything else that a reader
// must know about a spool is in the receipt, too.
//
// A full block has 64 KiB, or less if S is above 4,096. The last block of each shard may be shorter. A
// task keeps one open block for each shard in memory. These blocks take 64 KiB times S up to 4,096
// shards, then 256 MiB, and above 65,536 shards 4 KiB times S.
package sets
