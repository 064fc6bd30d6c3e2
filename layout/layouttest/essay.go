package layouttest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// Essay returns the essay of package layout, for the tests of the packages below
// layout, and a function that reports an error for a text that the essay lacks.
func Essay(t *testing.T) (essay string, says func(format string, args ...any)) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "doc.go"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text), func(format string, args ...any) {
		t.Helper()
		if said := fmt.Sprintf(format, args...); !strings.Contains(string(text), said) {
			t.Errorf("the essay does not say\n%s", said)
		}
	}
}

// Image returns a golden file, for the test of a package below layout, with its
// superblock and geometry.
func Image(t testing.TB, name string) (image []byte, sb *layout.Superblock, g layout.Geometry) {
	t.Helper()
	image, err := os.ReadFile(filepath.Join("..", "..", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	_, sb, g, err = layout.Newest(image[:layout.OffRuntime])
	if err != nil {
		t.Fatal(err)
	}
	return image, sb, g
}
