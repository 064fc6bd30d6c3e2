//go:build types

package main

// The type of the argument of a kernel is looked up there, whether what this
// program has written into it compiles or not.
import _ "github.com/mmapfilter/mmapfilter/layout/all"
