package kernel

import (
	"testing"
)

func TestUseKernel(t *testing.T) {
	list := Names()
	if InUse().String() != list[0] || list[len(list)-1] != "go" {
		t.Errorf("kernel %s is in use, of %v", InUse().String(), list)
	}
	if err := Use("abacus"); err == nil || InUse().String() != list[0] {
		t.Errorf("%v; then %s is in use", err, InUse().String())
	}
}
