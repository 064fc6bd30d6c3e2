// Package byshard sorts the keys of a batch by the shards that they belong to, so that a shard takes
// all of its keys in one call.
//
// A batch is taken in parts: large enough that a shard has several keys in each, and small enough that a
// cache holds a Part. A counting sort puts the keys in the order of their shards. Keys of one shard keep
// their order.
//
// Keys of shards that are looked up together need no order. They are the others of a part.
package byshard
