// Command beam makes a set of filters on Apache Beam: on Prism, Dataflow, Flink, or another runner of
// Beam. A plan, which "mmapfilter set plan" writes, describes the set; package sets says what a set
// consists of. README.md has the commands.
//
// # The pipeline
//
//	list      the files, cut into parts of about 64 MiB                                once
//	hash      the keys of a part; their hashes, by shard, in chunks          for each part
//	group     all chunks of a shard: the shuffle, which Beam does
//	build     a shard from its chunks                                       for each shard
//	assemble  check the counts and the shards, then write the manifest                once
//
// A key stays in the call that reads it: it is never an element. The workers send one another only
// hashes, 8 bytes for each key; a chunk has up to 32 KiB of hashes.
//
// # Failures
//
// A runner may do a bundle again, or do it twice at once and throw one result away. This changes
// nothing: Beam gives the chunks of a bundle to the next step only if the bundle succeeds, and then
// once; a shard that is built again has the same bytes and the same name; and the manifest is
// written last, by one call. If a runner lost or doubled a chunk nevertheless, the counts would
// show it. Each bundle that hashes also outputs its number of keys, and there is no manifest
// unless, over all bundles and shards,
//
//	keys read = hashes built from = items + duplicates
//
// A file of keys that changes its size while the pipeline runs is an error.
package main
