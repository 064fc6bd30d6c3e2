// This module is run in a clone only: nothing imports it, and it has no versions.

module github.com/mmapfilter/mmapfilter/layout/_asm

go 1.24.0

require (
	github.com/mmapfilter/mmapfilter v0.1.0
	github.com/mmcloughlin/avo v0.5.0
)

require (
	github.com/klauspost/cpuid/v2 v2.2.10 // indirect
	github.com/klauspost/crc32 v1.3.0 // indirect
	github.com/zeebo/xxh3 v1.1.0 // indirect
	golang.org/x/mod v0.26.0 // indirect
	golang.org/x/sync v0.16.0 // indirect
	golang.org/x/sys v0.34.0 // indirect
	golang.org/x/tools v0.35.0 // indirect
)

replace github.com/mmapfilter/mmapfilter => ../..
