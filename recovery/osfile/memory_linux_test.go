package osfile

import (
	"math"
	"testing"
	"testing/fstest"
)

func TestMemoryLimit(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for name, c := range map[string]struct {
		groups string
		files  fstest.MapFS
		want   int64
	}{
		"none":                     {"0::/\n", fstest.MapFS{}, math.MaxInt64},
		"version 2":                {"0::/a/b\n", fstest.MapFS{"a/b/memory.max": file("1000\n"), "a/memory.max": file("max\n")}, 1000},
		"of a group above":         {"0::/a/b\n", fstest.MapFS{"a/b/memory.max": file("1000\n"), "a/memory.max": file("500\n")}, 500},
		"of a container":           {"0::/../elsewhere\n", fstest.MapFS{"memory.max": file("700\n")}, 700},
		"version 1":                {"9:name=systemd:/\n4:cpu,memory:/a\n0::/\n", fstest.MapFS{"memory/a/memory.limit_in_bytes": file("800\n"), "memory/memory.limit_in_bytes": file("9223372036854771712\n")}, 800},
		"version 1 in a container": {"4:memory:/docker/0\n", fstest.MapFS{"memory/memory.limit_in_bytes": file("900\n")}, 900},
		"of another resource":      {"4:cpu:/a\n", fstest.MapFS{"memory/a/memory.limit_in_bytes": file("800\n")}, math.MaxInt64},
		"nonsense":                 {"4\n::\n", fstest.MapFS{"memory.max": file("many\n")}, math.MaxInt64},
	} {
		if got := limitOf(c.files, c.groups); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if n := MemoryLimit(); n < 1<<20 || n == math.MaxInt64 {
		t.Errorf("the limit of this process is %d bytes", n)
	}
}
