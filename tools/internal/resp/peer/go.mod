// This module is run in a clone only: nothing imports it, and it has no versions.

module github.com/mmapfilter/mmapfilter/tools/internal/resp/peer

go 1.24

require (
	github.com/alicebob/miniredis/v2 v2.36.1
	github.com/mmapfilter/mmapfilter v0.1.0
)

replace github.com/mmapfilter/mmapfilter => ../../../..
