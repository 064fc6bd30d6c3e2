package sets_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
)

// A set of four files is built on one machine, and read as one filter.
func ExampleBuild() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "users.set")
	users := func(yield func([]byte, error) bool) {
		for i := range 10_000 {
			if !yield(fmt.Appendf(nil, "user %d", i), nil) {
				return
			}
		}
	}

	plan, err := sets.NewPlan(&mmapfilter.Options{Capacity: 10_000, FalsePositiveRate: 1e-6}, 4)
	if err != nil {
		fmt.Println(err)
		return
	}
	summary, err := sets.Build(context.Background(), path, plan, sets.Work{}, users)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(summary.Keys, "keys in", summary.Shards, "shards")

	set, err := sets.Open(path, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer set.Close()
	fmt.Println(set.ContainsString("user 7"), set.ContainsString("nobody"))
	// Output:
	// 10000 keys in 4 shards
	// true false
}
