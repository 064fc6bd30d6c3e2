package layout

import "github.com/mmapfilter/mmapfilter/layout/kernel"

//go:generate go run -C _asm . -out ../direct_amd64.s -stubs ../direct_stubs_amd64.go -pkg layout

// codeInGo returns the Code that looks nothing up in assembly: it calls Go for every key.
func codeInGo() Code {
	hash, key, _, _ := lookAddresses()
	return Code{hash, key, key}
}

// shardsCode is the code of a Shards.
func shardsCode() Code {
	c := codeInGo()
	switch _, _, narrow, wide := lookAddresses(); kernel.InUse() {
	case kernel.AVX512:
		c.Key = wide
	case kernel.AVX2:
		c.Key = narrow
	}
	return c
}
