package compact

import (
	"reflect"
	"runtime"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// TestVectorsAreLines: what a kernel loads at once is in one line of the cache.
func TestVectorsAreLines(t *testing.T) {
	var keep []any
	for range 1000 {
		for _, c := range []struct {
			v     any
			names []string
		}{
			{new(direct), []string{"slotVectors"}},
		} {
			keep = append(keep, c.v)
			for _, name := range c.names {
				of := reflect.ValueOf(c.v)
				field, _ := of.Type().Elem().FieldByName(name)
				offset := field.Offset
				for i, part := of.Type().Elem(), 0; part < len(field.Index)-1; part++ { // of what is embedded
					f := i.Field(field.Index[part])
					offset += f.Offset
					i = f.Type
				}
				size := min(field.Type.Size(), layout.LineBytes)
				if at := of.Pointer() + offset; at/layout.LineBytes != (at+size-1)/layout.LineBytes {
					t.Fatalf("%s of %T at %#x", name, c.v, at)
				}
			}
		}
	}
	runtime.KeepAlive(keep)
}
