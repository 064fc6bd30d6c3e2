// This module is run in a clone only: nothing imports it, and it has no versions.

module github.com/mmapfilter/mmapfilter/tools/release

go 1.26.0

require golang.org/x/mod v0.42.0
