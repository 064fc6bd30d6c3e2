package readers

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const node = "node" // stands for a compiler in a variant

// maxModule limits the bytes of the module, which a page loads for its lookups.
const maxModule = 12 << 10

// nodeWorks reports whether Node is installed and new enough for the module.
var nodeWorks = sync.OnceValue(func() bool {
	return run(node, "-e", "if (parseInt(process.versions.node) < 18) process.exit(1)") == nil
})

// nodeProbe returns a program that runs js/probe.mjs.
func nodeProbe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(scratch, "probe.mjs.sh")
	err := nodeScript()
	must(t, err)
	return path
}

var nodeScript = sync.OnceValue(func() error {
	text := fmt.Sprintf("#!/bin/sh\nexec node '%s' \"$@\"\n", filepath.Join(scratch, "js", "probe.mjs"))
	return os.WriteFile(filepath.Join(scratch, "probe.mjs.sh"), []byte(text), 0o777)
})

// fewer returns every second image for Node, which is slow, and all images for other readers.
func fewer(v variant, images ...string) []string {
	if v.compiler != node {
		return images
	}
	var some []string
	for i := 0; i < len(images); i += 2 {
		some = append(some, images[i])
	}
	return some
}

// TestJS runs the tests of the JavaScript module.
func TestJS(t *testing.T) {
	if !nodeWorks() {
		notTested(t, "the reader in JavaScript: there is no node of version 18 or later")
	}
	out, err := exec.Command(node, "js/test_mmapfilter.mjs").CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("fail 0")) {
		t.Errorf("%v: %s", err, out)
	}
	t.Logf("%s", out)
}

// TestModule checks that the module is small and imports nothing.
func TestModule(t *testing.T) {
	text := mustRead(t, "js/mmapfilter.mjs")
	if len(text) >= maxModule || strings.Contains(string(text), "import") {
		t.Errorf("the module has %d bytes, or imports something", len(text))
	}
}
