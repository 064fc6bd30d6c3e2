package kernel

import (
	"testing"
)

func TestUseKernel(t *testing.T) {
	list := Names()
	if InUse().String() != list[0] || list[len(list)-1] != "go" {
		t.Errorf("%s of %v", InUse().String(), list)
	}
	if err := Use("abacus"); err == nil || InUse().String() != list[0] {
		t.Errorf("%v; then it is %s", err, InUse().String())
	}
}
