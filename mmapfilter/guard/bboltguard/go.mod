// The guard of bbolt is a module of its own, so that only those who use it need bbolt. The replace at the
// end serves a clone of the repository; Go ignores it for whoever imports this module.

module github.com/mmapfilter/mmapfilter/mmapfilter/guard/bboltguard

go 1.25.0

require (
	github.com/mmapfilter/mmapfilter v0.1.0
	go.etcd.io/bbolt v1.5.0
)

require (
	github.com/edsrzf/mmap-go v1.2.0 // indirect
	github.com/klauspost/cpuid/v2 v2.2.10 // indirect
	github.com/klauspost/crc32 v1.3.0 // indirect
	github.com/zeebo/xxh3 v1.1.0 // indirect
	golang.org/x/sys v0.45.0 // indirect
)

replace github.com/mmapfilter/mmapfilter => ../../..
