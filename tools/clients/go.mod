// This module is run in a clone only: nothing imports it, and it has no versions.

module github.com/mmapfilter/mmapfilter/tools/clients

go 1.26.0

require (
	github.com/mmapfilter/mmapfilter v0.1.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace github.com/mmapfilter/mmapfilter => ../..
