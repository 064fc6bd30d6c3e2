module github.com/mmapfilter/mmapfilter/tools/evaluate

go 1.24.0

require github.com/mmapfilter/mmapfilter v0.0.0

replace github.com/mmapfilter/mmapfilter => ../..
