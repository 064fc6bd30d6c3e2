// Command asm writes the assembly of package layout and of the packages below it: the
// kernels that look up one, four or eight hashes at once. In this directory, for one of
// the packages:
//
//	go run . -out ../blocked/kernel_amd64.s -stubs ../blocked/stubs_amd64.go -pkg blocked
package main

import (
	"log"
	"os"

	. "github.com/mmcloughlin/avo/build"
)

// packages says what is written for each of them.
var packages = map[string]func(){
	"kernel": func() {
		testBitsAVX512()
		splitLinesAVX512()
		cpuid()
	},
	"layout": direct,
	"blocked": func() {
		blockedAVX512()
		blockedAVX2()
		blockedOne()
		blockedLooks()
		blockedFullAVX512()
	},
	"compact": func() {
		compactOne()
		compactLooks()
		compactAVX512("batchAVX512", false)
		compactAVX512("shardsAVX512", true)
	},
}

func main() {
	name := os.Args[len(os.Args)-1] // Generate parses the flags, and empties what is loaded before
	write, ok := packages[name]
	if !ok {
		log.Fatalf("nothing is written for a package %q, the last argument", name)
	}
	path := "github.com/mmapfilter/mmapfilter/layout"
	if name != "layout" {
		path += "/" + name
	}
	Package(path)
	ConstraintExpr("amd64")
	write()
	Generate()
}
