// Command mmapfilter builds, changes, asks and inspects filter files.
//
// # Exit status
//
// The exit status is 0 for yes, 1 for no (check selected no key, del met one
// that is not in the filter, verify found damage), and 2 where there is no
// answer because of an error. recover has 4, 8 and 16 for errors. Where nobody
// reads the output any more it is 141, as of a program that SIGPIPE ends.
//
// # JSON
//
// With --json, check, info, recover, size and verify print objects. One name is
// one thing in all of them:
//
//	bits_per_key        info size            bits of the whole file, over keys; in size over capacity
//	bucket_size         info size            slots a bucket
//	build_disk_bytes    size                 of the disk that a build takes beside the file, at most
//	build_memory_bytes  size                 of memory that a build takes
//	capacity            info size            keys that the filter is sized for
//	checkpoints         info                 checkpoints since the filter was opened
//	chunks              verify               checksums that the file was held against
//	commits             info                 commits since the filter was opened
//	damage              verify               what is damaged, an object each
//	design_load         info size            capacity over slots
//	discarded           recover              the log was given up, by --discard-log
//	estimated_rate      info                 false-positive rate now, from a sample of lines
//	file                check                file of keys, if there are several
//	file_bytes          info size verify     size of the filter
//	fill                info                 keys over capacity
//	filter              recover verify       the filter, as it was named
//	fingerprint_bits    info size            bits a fingerprint
//	generation          info recover         of the superblock
//	hex                 check                the key in hex, if it is no text
//	information_bound   size                 bits per key that a filter of this rate has at least
//	kernel              info                 what answers batches of lookups
//	key                 check                the key as it stands in the input
//	keys                info recover verify  keys in the filter, equal ones counted each; null if it is damaged
//	layout              info size            name of the layout
//	line                check                number of the record, in CSV of the line
//	lines               info size            lines, or buckets, of the filter
//	load                info                 keys over slots
//	log_bytes           info                 size of the log
//	log_bytes_read      recover              bytes of the log that were read
//	longest_stall       info                 nanoseconds for which a checkpoint has kept operations waiting
//	lsn                 recover              number of the last record of the log that counts
//	memory_bytes        size                 of memory that hold all of the filter
//	normalisation       info                 how keys are read
//	offset              verify               of a damage, in bytes
//	operations          info recover         operations that are durable, since user_seq
//	pending             info                 operations that are not durable
//	predicted_rate      size                 false-positive rate at capacity
//	present             check                false: certainly not in the filter; true: maybe
//	record              check                the record of the key, with --record
//	record_hex          check                the record in hex, if it is no text
//	records             recover              records of the log that were put into the filter
//	recovered           recover              a writer had died
//	region              verify               part of the file that is damaged
//	residency           info                 where the filter is to be
//	resident_bytes      info                 of the filter that are in memory; null if that is not known
//	rule                verify               rule of the format that is broken, and how
//	sealed              verify               all bytes are under checksums
//	second_probe_rate   info size            share of absent keys whose lookup reads a second line
//	seed                info                 of the hash, in hex, with --show-seed
//	slots               info                 places for keys
//	stash_len           info verify          entries of the stash that are in use; null if it is damaged
//	state               info                 clean, live or sealed
//	target_rate         info                 false-positive rate that was asked for
//	torn                recover              the log ended in the middle of an operation
//	user_seq            info recover         number that the writer has given last, see Filter.SyncAt
//	uuid                info                 of the filter
//	warning             info                 what the file system cannot promise, or what could not be done as usual
//	whole               verify               there is no damage
//	writer_alive        info                 a process has the filter open for writing
package main
