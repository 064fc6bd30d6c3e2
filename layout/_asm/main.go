// Command asm writes the assembly of package layout and of the packages below it: the
// kernels that look keys up. For example, in this directory:
//
//	go run . -out ../compact/kernel_amd64.s -stubs ../compact/stubs_amd64.go -pkg compact
package main

import (
	"log"
	"os"

	. "github.com/mmcloughlin/avo/build"
)

// packages has, for each package, the function that writes its assembly.
var packages = map[string]func(){
	"kernel": func() {
		testBitsAVX512()
		splitLinesAVX512()
		sumAVX2()
		cpuid()
	},
	"layout": direct,
	"compact": func() {
		compactOne()
		compactLooks()
		for _, w := range widths {
			compactBatch(w, false)
			compactBatch(w, true)
		}
	},
}

func main() {
	// Not flag.Args: only Generate parses the flags, and it discards what has been loaded before.
	name := os.Args[len(os.Args)-1]
	write, ok := packages[name]
	if !ok {
		log.Fatalf("the last argument, %q, is not a package that has assembly", name)
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
