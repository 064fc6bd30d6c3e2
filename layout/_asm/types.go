//go:build types

package main

// This program loads these packages for the types of the arguments of kernels. It does not
// import them, since it must build when the code that it has written there does not compile.
// The import below, for a build tag that nobody sets, keeps them in go.mod.
import _ "github.com/mmapfilter/mmapfilter/layout/all"
