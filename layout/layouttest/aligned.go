package layouttest

import (
	"reflect"
	"runtime"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// InOneCacheLine checks, for many values from alloc, that each of the named fields lies in one
// cache line. A field that is longer than a cache line must start with one.
func InOneCacheLine(t *testing.T, alloc func() any, names ...string) {
	t.Helper()
	var keep []any
	for range 1000 {
		v := alloc()
		keep = append(keep, v)
		of := reflect.ValueOf(v)
		for _, name := range names {
			field, _ := of.Type().Elem().FieldByName(name)
			offset, in := field.Offset, of.Type().Elem()
			for _, i := range field.Index[:len(field.Index)-1] { // through the embedded structs
				offset += in.Field(i).Offset
				in = in.Field(i).Type
			}
			size := min(field.Type.Size(), layout.LineBytes)
			if at := of.Pointer() + offset; at/layout.LineBytes != (at+size-1)/layout.LineBytes {
				t.Fatalf("%s of %T at %#x crosses cache lines", name, v, at)
			}
		}
	}
	runtime.KeepAlive(keep)
}
