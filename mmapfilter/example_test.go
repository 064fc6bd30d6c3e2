package mmapfilter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

func ExampleBuild() {
	dir, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "fruit.mmf")

	keys := func(yield func([]byte, error) bool) {
		for _, key := range []string{"apple", "banana", "cherry"} {
			if !yield([]byte(key), nil) {
				return
			}
		}
	}
	f, err := Build(context.Background(), path, &Options{FalsePositiveRate: 0.001}, keys)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	fmt.Println(f.Len(), f.ContainsString("banana"), f.ContainsString("potato"))
	// Output: 3 true false
}

func ExampleOpenReadOnly() {
	f, err := OpenReadOnly("../testdata/blocked-f12.mmf", &OpenOptions{Residency: ResidencyPopulate})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	keys := [][]byte{[]byte("key 1"), []byte("key 2"), []byte("no key")}
	found := make([]bool, len(keys))
	f.ContainsBatch(keys, found)
	fmt.Println(found)
	// Output: [true true false]
}

func ExampleFollow() {
	dir, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "fruit.mmf")
	publish := func(fruit ...string) {
		f, err := Build(context.Background(), path, nil, func(yield func([]byte, error) bool) {
			for _, key := range fruit {
				if !yield([]byte(key), nil) {
					return
				}
			}
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		f.Close()
	}
	publish("apple")
	f, err := Follow(path, nil) // looks at the path ten times a second
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	fmt.Println(f.ContainsString("apple"), f.ContainsString("banana"))
	publish("apple", "banana")
	_, err = f.Refresh() // or now
	fmt.Println(f.ContainsString("apple"), f.ContainsString("banana"), err)
	// Output:
	// true false
	// true true <nil>
}

func ExampleVerify() {
	report, err := Verify(context.Background(), "../testdata/blocked-f12.mmf")
	fmt.Println(report.Items, report.Sealed, err)
	_, err = Verify(context.Background(), "filter_test.go")
	fmt.Println(errors.Is(err, ErrCorrupt))
	// Output:
	// 524 true <nil>
	// true
}

func ExampleOptions_Plan() {
	plan, err := (&Options{Capacity: 1_000_000_000, FalsePositiveRate: 0.001}).Plan()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s f=%d b=%d, %.2f bits per key, %.1f GB\n", plan.Layout, plan.FingerprintBits, plan.BucketSize, plan.BitsPerKey, float64(plan.FileBytes)/1e9)
	// Output: blocked f=15 b=4, 16.33 bits per key, 2.0 GB
}
