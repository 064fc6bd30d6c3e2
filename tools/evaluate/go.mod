module github.com/mmapfilter/mmapfilter/tools/evaluate

go 1.24.0

require (
	github.com/bits-and-blooms/bloom/v3 v3.7.1
	github.com/mmapfilter/mmapfilter v0.0.0
	pgregory.net/rapid v1.3.0
)

require github.com/bits-and-blooms/bitset v1.24.2 // indirect

replace github.com/mmapfilter/mmapfilter => ../..
