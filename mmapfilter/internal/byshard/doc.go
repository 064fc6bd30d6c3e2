// Package byshard sorts the keys of a batch by the shards that they belong to, so that a shard takes
// all of its keys in one call.
//
// A batch is taken in parts: large enough that a shard has several keys of one, and small enough that a
// cache holds what is noted of them. A counting sort puts them in the order of their shards. Keys of a
// shard keep their order.
//
// Keys of shards that are looked up together need no order. They are the others of a part.
package byshard
