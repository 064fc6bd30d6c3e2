// Package kerneltest runs tests with every kernel.
package kerneltest

import (
	"runtime"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// Each runs f with each kernel that exists for this architecture. It skips a kernel that
// this machine lacks, and logs that.
func Each(t *testing.T, f func(t *testing.T)) {
	names := []string{"go"}
	if runtime.GOARCH == "amd64" {
		names = []string{"avx512", "avx2", "go"}
	}
	before := kernel.InUse().String()
	defer kernel.Use(before)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			if err := kernel.Use(name); err != nil {
				t.Skipf("NOT TESTED: %v", err)
			}
			f(t)
		})
	}
}
