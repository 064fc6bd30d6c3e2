// Command mmapfilter builds, changes, queries and inspects filter files.
//
// # Exit status
//
// The exit status is 0 for yes, 1 for no (check selected no key, del was given a
// key that is not in the filter, verify found damage), and 2 after an error.
// recover uses 4, 8 and 16 for errors. If the reader of the output has gone, the
// status is 141, as for a program ended by SIGPIPE.
//
// # JSON
//
// With --json, check, expire, grow, info, recover, repair, size and verify print
// objects. A name means the same in all of them:
//
//	before              grow                                    the filter before
//	bits_per_key        grow info size                          bits of the whole file for each key; in grow and size, for each key of the capacity
//	bucket_size         grow info size                          slots in a bucket, in packed and semisorted
//	build_disk_bytes    size                                    most disk space that a build takes beside the file
//	build_memory_bytes  size                                    memory that a build takes
//	capacity            grow info size                          keys that the filter was sized for
//	checkpoints         info                                    checkpoints since the filter was opened
//	chunks              verify                                  checksums that the file was checked against
//	commits             info                                    commits since the filter was opened
//	damage              verify                                  one object for each damaged place
//	design_load         grow info size                          load planned for capacity keys
//	discarded           recover                                 the log was discarded, by --discard-log
//	error               info verify                             why a shard of a set cannot be used or checked; "" if it can
//	estimated_rate      grow info                               false-positive rate now, from a sample of lines
//	expire_after        info                                    nanoseconds after which keys expire, or 0 if they stay
//	expire_err          info                                    why keys do not expire in time
//	expired             expire info                             keys that were deleted
//	failed              info                                    shards of a set that cannot be used
//	file                check                                   file of keys, if there is more than one
//	file_bytes          grow info size verify                   size of the filter
//	files               info                                    one object for each shard of a set
//	filter              expire grow recover repair verify       the filter, as named on the command line
//	fingerprint_bits    grow info size                          bits in a fingerprint, in packed and semisorted
//	generation          info recover                            generation of the superblock
//	grows               info                                    the filter grows by itself
//	growth_err          info                                    why a filter that should keep its hashes cannot be rebuilt from them
//	hashes              verify                                  kept hashes that the keys were compared with
//	hashes_err          verify                                  why they were not compared, in a filter that should keep its hashes
//	hex                 check                                   the key in hex, if it is not text
//	highest_rate        info                                    highest false-positive rate of a shard
//	information_bound   size                                    fewest bits per key that any filter of this rate needs
//	keep_changes        info                                    nanoseconds for which the history from before a rebuild is kept
//	keeps_hashes        info                                    the filter keeps the hashes of its keys
//	kernel              info                                    instruction set for batches of lookups
//	key                 check                                   the key as it is in the input
//	keys                expire grow info recover repair verify  keys in the filter, each copy of equal keys counted; null if it is damaged
//	layout              grow info size                          name of the layout
//	left_out            info verify                             keys, since the last rebuild, that InsertUnique left out
//	line                check                                   number of the record; in CSV, its line number
//	lines               grow info size                          lines, or buckets, of the filter
//	log_bytes           info                                    size of the log
//	log_bytes_read      recover                                 bytes of the log that were read
//	log_lost            repair                                  the log is lost, and with it what was not durable
//	longest_stall       info                                    longest time, in nanoseconds, that an operation waited for the log or the disk
//	lost_operations     repair                                  durable adds and deletes that are lost, at most
//	lsn                 recover                                 number of the last valid record of the log
//	memory_bytes        size                                    memory that holds the whole filter
//	normalisation       info                                    how keys are read
//	not_found           verify                                  keys that are not found, because strays removed items that stood for them
//	now                 grow                                    the filter now
//	offset              verify                                  offset of a damage, in bytes
//	opened              info                                    shards of a set that are open
//	operations          info recover                            durable operations since user_seq
//	past_bytes          info                                    size of the history from before a rebuild
//	path                info verify                             file of a shard
//	pending             info                                    operations not yet committed
//	plan                info                                    identity of the plan that the shards of a set were built by
//	predicted_rate      grow info size                          false-positive rate at capacity
//	present             check                                   false: certainly not in the filter; true: maybe
//	quotients           grow info size                          quotients that a fingerprint may have, in compact
//	rebuild_stall       info                                    how long operations waited at the end of the last rebuild, in nanoseconds
//	rebuilds            info                                    rebuilds since the filter was opened
//	record              check                                   the record of the key, with --record
//	record_hex          check                                   the record in hex, if it is not text
//	records             recover                                 records of the log that were replayed
//	recovered           recover                                 a writer had died, and the filter was recovered
//	region              verify                                  part of the file that is damaged
//	remainder_bits      grow info size                          bits of a remainder, in compact
//	repaired            repair                                  the filter was damaged, and was rebuilt
//	residency           info                                    where the filter is kept
//	resident_bytes      info                                    bytes of the filter in memory; null if unknown
//	rule                verify                                  rule of the format that is broken
//	sealed              verify                                  every byte is under a checksum
//	second_probe_rate   grow info size                          share of lookups of absent keys that read a second line; in grow and size, as planned
//	seed                info                                    seed of the hash, in hex, with --show-seed
//	shard               info verify                             number of a shard, from 0
//	shards              info verify                             shards in the set; 0 for a filter that is no shard
//	slots               grow info size                          slots, each for one fingerprint
//	stash_len           info verify                             stash entries in use; null if the filter is damaged
//	state               info                                    clean, live or sealed
//	strays              verify                                  deletes, since the last rebuild, of keys that were not in the filter
//	swaps               info                                    how often the set has switched to another manifest; always 0 here
//	target_rate         grow info size                          false-positive rate that was asked for
//	torn                recover                                 the log ended in the middle of an operation
//	user_seq            info recover                            last durable user sequence, see Filter.SyncAt
//	uuid                info                                    UUID of the filter
//	waiting             expire info verify                      deletes that remove their items in the next rebuild
//	warning             info                                    what the file system cannot promise or what could not be done
//	what                verify                                  how the rule is broken
//	whole               verify                                  there is no damage
//	writer_alive        info                                    a process has the filter open for writing
package main
