package mmapfilter_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"expvar"
	"fmt"
	"io"
	"iter"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// inTemp runs an example in its own directory.
func inTemp(example func() error) {
	dir, err := os.MkdirTemp("", "example")
	if err == nil {
		defer os.RemoveAll(dir)
		var before string
		if before, err = os.Getwd(); err == nil {
			defer os.Chdir(before)
			err = os.Chdir(dir)
		}
	}
	if err == nil {
		err = example()
	}
	if err != nil {
		fmt.Println(err)
	}
}

func Example() {
	inTemp(seen)
	// Output:
	// true
	// false
}

// seen inserts a key, looks keys up, and deletes the key.
func seen() error {
	o := &mmapfilter.Options{Capacity: 10_000_000, FalsePositiveRate: 0.001}
	f, err := mmapfilter.OpenOrCreate("seen.mmf", o, nil)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Insert([]byte("apple")); err != nil { // survives kill -9 once it returns nil
		return err
	}
	if err := f.Sync(); err != nil { // survives a power loss once this returns nil
		return err
	}
	fmt.Println(f.ContainsString("apple"))  // maybe
	fmt.Println(f.ContainsString("potato")) // certainly not
	_, err = f.Delete([]byte("apple"))      // only keys that were inserted: other keys may look like one
	return err
}

// A consumer applies the changes of a stream to a filter. SyncAt stores the position in the stream with
// each commit. After a crash or a close, the consumer continues where the durable operations end, so no
// change is lost or applied twice.
func ExampleFilter_SyncAt() {
	inTemp(func() error {
		stream := []string{"+apple", "+banana", "-apple", "+cherry", "+damson", "-banana"}
		consume := func(upTo int) error {
			f, err := mmapfilter.Open("stream.mmf", nil) // recovers the filter after a crash
			if err != nil {
				return err
			}
			defer f.Close()
			position := int(f.DurableSeq() + f.DurableOps())
			fmt.Println("goes on at", position)
			for ; position < upTo; position++ {
				change, key := stream[position][0], stream[position][1:]
				if change == '+' {
					err = f.Insert([]byte(key))
				} else {
					_, err = f.Delete([]byte(key))
				}
				if err != nil {
					return err
				}
				if position%2 == 1 {
					if err := f.SyncAt(uint64(position + 1)); err != nil {
						return err
					}
				}
			}
			fmt.Println(f.Len(), "keys")
			return nil
		}
		f, err := mmapfilter.Create("stream.mmf", &mmapfilter.Options{Capacity: 1000})
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
		if err := consume(3); err != nil {
			return err
		}
		return consume(len(stream))
	})
	// Output:
	// goes on at 0
	// 1 keys
	// goes on at 3
	// 2 keys
}

// InsertUnique is a lookup and an insert in one step. If several workers get the same URL, exactly one
// of them crawls it.
func ExampleFilter_InsertUnique() {
	inTemp(func() error {
		f, err := mmapfilter.Create("crawled.mmf", &mmapfilter.Options{Capacity: 1_000_000, FalsePositiveRate: 1e-6})
		if err != nil {
			return err
		}
		defer f.Close()
		for _, url := range []string{"/a", "/b", "/a"} {
			added, err := f.InsertUnique([]byte(url))
			if err != nil {
				return err
			}
			if added {
				fmt.Println("crawl", url)
			}
		}
		return nil
	})
	// Output:
	// crawl /a
	// crawl /b
}

// A crawler keeps the URLs that it has seen in a filter that grows by itself. It goes through a list of
// links in batches, and fetches the new ones. SyncAt stores how many links are done, and after a crash
// the crawler goes on there. DurableOps says how many of the next links are in the filter already. These
// may not have been fetched, so the crawler fetches them again.
func ExampleOpenOrCreate() {
	links := [][]byte{[]byte("/a"), []byte("/b"), []byte("/a"), []byte("/c"), []byte("/b"), []byte("/d")}
	crawl := func(fetch func(url []byte) error) error {
		f, err := mmapfilter.OpenOrCreate("seen.mmf", &mmapfilter.Options{
			Capacity: 100_000, FalsePositiveRate: 1e-6, AutoGrow: true,
		}, nil)
		if err != nil {
			return err
		}
		defer f.Close()
		done, again := f.DurableSeq(), f.DurableOps()
		for added := make([]bool, 2); done < uint64(len(links)); again = 0 {
			batch := links[done:min(done+2, uint64(len(links)))]
			if _, err := f.InsertUniqueBatch(batch, added); err != nil {
				return err
			}
			for i, url := range batch {
				if added[i] || uint64(i) < again {
					if err := fetch(url); err != nil {
						return err
					}
				}
			}
			done += uint64(len(batch))
			if err := f.SyncAt(done); err != nil {
				return err
			}
		}
		return nil
	}
	inTemp(func() error {
		err := crawl(func(url []byte) error {
			if string(url) == "/c" {
				return errors.New("the network is down")
			}
			fmt.Printf("fetched %s\n", url)
			return nil
		})
		fmt.Println(err)
		return crawl(func(url []byte) error {
			fmt.Printf("fetched %s\n", url)
			return nil
		})
	})
	// Output:
	// fetched /a
	// fetched /b
	// the network is down
	// fetched /a
	// fetched /c
	// fetched /d
}

// linesOf yields the lines of a file as keys.
func linesOf(path string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		file, err := os.Open(path)
		if err != nil {
			yield(nil, err)
			return
		}
		defer file.Close()
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			if !yield(lines.Bytes(), nil) { // Build does not keep the key
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(nil, err)
		}
	}
}

func ExampleBuild() {
	inTemp(func() error {
		if err := os.WriteFile("fruit.txt", []byte("apple\nbanana\ncherry\n"), 0o666); err != nil {
			return err
		}
		f, err := mmapfilter.Build(context.Background(), "fruit.mmf", nil, linesOf("fruit.txt"))
		if err != nil {
			return err
		}
		defer f.Close()
		fmt.Println(f.Len(), f.ContainsString("banana"), f.ContainsString("potato"))
		return nil
	})
	// Output: 3 true false
}

// A garbage collector marks the chunks of all files in a filter, and removes the chunks that are
// certainly not in the filter. A false positive keeps a dead chunk, but no live chunk is lost. Each run
// has its own seed, so that the next run removes dead chunks that this one has kept. Walk every file,
// whatever another filter says about it: if a file is skipped by mistake, its chunks get no marks.
func ExampleBuild_markSet() {
	inTemp(func() error {
		chunk := func(i int) string { return fmt.Sprint("chunk ", i) }
		store := map[string]bool{} // for each chunk, whether a file has it; unknown to the collector
		for i := range 10_000 {
			store[chunk(i)] = i%2 == 0
		}
		walk := func(yield func([]byte, error) bool) { // yields the chunks of all files
			for i := 0; i < 10_000; i += 2 {
				if !yield([]byte(chunk(i)), nil) {
					return
				}
			}
		}
		for run := range 2 {
			seed := uint64(run + 1) // in a real program, a random number
			marks, err := mmapfilter.Build(context.Background(), "marks.mmf", &mmapfilter.Options{Seed: seed}, walk)
			if err != nil {
				return err
			}
			maps.DeleteFunc(store, func(chunk string, _ bool) bool { return !marks.ContainsString(chunk) })
			live := 0
			for _, used := range store {
				if used {
					live++
				}
			}
			fmt.Println(live, "live chunks,", len(store)-live, "dead ones")
			if err := marks.Close(); err != nil {
				return err
			}
		}
		return nil
	})
	// Output:
	// 5000 live chunks, 50 dead ones
	// 5000 live chunks, 1 dead ones
}

// A cursor is like the cursors of bbolt, Pebble and database/sql: the caller advances it to the end, and
// then asks for its error.
type cursor struct {
	rows [][2]string
	at   int
}

func (c *cursor) Next() bool  { c.at++; return c.at <= len(c.rows) }
func (c *cursor) Key() []byte { return []byte(c.rows[c.at-1][0]) }
func (c *cursor) Err() error  { return nil }

// Build takes keys from a database cursor. There may be far more keys than fit in memory.
func ExampleBuild_cursor() {
	inTemp(func() error {
		rows := &cursor{rows: [][2]string{{"alice", "1"}, {"bob", "2"}}}
		keys := func(yield func([]byte, error) bool) {
			for rows.Next() {
				if !yield(rows.Key(), nil) {
					return
				}
			}
			if err := rows.Err(); err != nil {
				yield(nil, err) // ends the build, and leaves any older file as it was
			}
		}
		f, err := mmapfilter.Build(context.Background(), "users.mmf", &mmapfilter.Options{FalsePositiveRate: 0.001}, keys)
		if err != nil {
			return err
		}
		defer f.Close()
		fmt.Println(f.ContainsString("alice"), f.ContainsString("carol"))
		return nil
	})
	// Output: true false
}

func ExampleOpenReadOnly() {
	f, err := mmapfilter.OpenReadOnly("../testdata/compact-q41.mmf", &mmapfilter.OpenOptions{Residency: mmapfilter.ResidencyPopulate})
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

// keysOf yields keys.
func keysOf(keys ...string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, key := range keys {
			if !yield([]byte(key), nil) {
				return
			}
		}
	}
}

func ExampleOpenBytes() {
	inTemp(func() error {
		built, err := mmapfilter.Build(context.Background(), "users.mmf", nil, keysOf("alice", "bob"))
		if err != nil {
			return err
		}
		built.Close()

		// The file may also be a part of the program:
		//
		//	//go:embed users.mmf
		//	var users []byte
		users, err := os.ReadFile("users.mmf")
		if err != nil {
			return err
		}
		f, err := mmapfilter.OpenBytes(users, nil)
		if err != nil {
			return err
		}
		defer f.Close()
		fmt.Println(f.ContainsString("alice"), f.ContainsString("carol"))
		return nil
	})
	// Output: true false
}

// A file of an fs.FS, such as os.DirFS or embed.FS, is not copied: each lookup of an absent key reads
// only a line of it.
func ExampleOpenReaderAt() {
	inTemp(func() error {
		built, err := mmapfilter.Build(context.Background(), "users.mmf", nil, keysOf("alice", "bob"))
		if err != nil {
			return err
		}
		built.Close()

		file, err := os.DirFS(".").Open("users.mmf")
		if err != nil {
			return err
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil {
			return err
		}
		f, err := mmapfilter.OpenReaderAt(file.(io.ReaderAt), info.Size(), nil)
		if err != nil {
			return err
		}
		defer f.Close()
		fmt.Println(f.ContainsString("alice"), f.ContainsString("carol"))
		fmt.Println(f.Err()) // nil: all answers are from the same file
		return nil
	})
	// Output:
	// true false
	// <nil>
}

// A server follows a filter that another program rebuilds now and then. It answers requests from the
// newest complete file, and publishes the state of the filter to a monitor.
func ExampleFollow() {
	inTemp(func() error {
		blocked, err := mmapfilter.Follow("blocked.mmf", &mmapfilter.OpenOptions{WaitForFile: true})
		if err != nil {
			return err
		}
		defer blocked.Close()
		if expvar.Get("blocked") == nil {
			expvar.Publish("blocked", expvar.Func(func() any { return blocked.Stats() }))
		}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if blocked.ContainsString(r.FormValue("user")) {
				http.Error(w, "ask the database", http.StatusConflict) // maybe
				return
			}
			fmt.Fprint(w, "welcome") // certainly not
		}))
		defer server.Close()
		ask := func(user string) {
			response, err := http.Get(server.URL + "?user=" + user)
			if err != nil {
				log.Print(err)
				return
			}
			response.Body.Close()
			fmt.Println(user, response.StatusCode)
		}

		ask("alice") // there is no file yet, so every answer is "maybe"
		if err := os.WriteFile("blocked.txt", []byte("mallory\n"), 0o666); err != nil {
			return err
		}
		built, err := mmapfilter.Build(context.Background(), "blocked.mmf", nil, linesOf("blocked.txt"))
		if err != nil {
			return err
		}
		built.Close()
		if _, err := blocked.Refresh(); err != nil { // without this call, it takes a tenth of a second
			return err
		}
		ask("alice")
		ask("mallory")
		fmt.Println(expvar.Get("blocked") != nil)
		return nil
	})
	// Output:
	// alice 409
	// alice 200
	// mallory 409
	// true
}

// A filter that keeps its hashes can be rebuilt without its keys, here for a hundred times as many
// items. Inserts, deletes and lookups of other goroutines go on meanwhile.
func ExampleFilter_Rebuild() {
	inTemp(func() error {
		f, err := mmapfilter.Create("users.mmf", &mmapfilter.Options{Capacity: 1000, KeepHashes: true})
		if err != nil {
			return err
		}
		defer f.Close()
		for _, user := range []string{"alice", "bob", "carol"} {
			if err := f.Insert([]byte(user)); err != nil {
				return err
			}
		}
		fmt.Println(f.Stats().Capacity, f.Len())
		if err := f.Rebuild(context.Background(), &mmapfilter.RebuildOptions{Capacity: 100_000}); err != nil {
			return err
		}
		fmt.Println(f.Stats().Capacity, f.Len(), f.ContainsString("bob"))
		return nil
	})
	// Output:
	// 1000 3
	// 100000 3 true
}

// Snapshot makes a copy for a backup while the filter is open for writing.
func ExampleFilter_Snapshot() {
	inTemp(func() error {
		f, err := mmapfilter.Create("users.mmf", &mmapfilter.Options{Capacity: 100_000})
		if err != nil {
			return err
		}
		defer f.Close()
		if err := f.Insert([]byte("alice")); err != nil {
			return err
		}
		if _, err := f.Snapshot(context.Background(), "backup.mmf"); err != nil {
			return err
		}
		if err := f.Insert([]byte("bob")); err != nil {
			return err
		}
		copied, err := mmapfilter.OpenReadOnly("backup.mmf", nil)
		if err != nil {
			return err
		}
		defer copied.Close()
		fmt.Println(copied.ContainsString("alice"), copied.ContainsString("bob"))
		return nil
	})
	// Output: true false
}

func ExampleVerify() {
	const path = "../testdata/compact-q41.mmf"
	report, err := mmapfilter.Verify(context.Background(), path)
	fmt.Println(report.Items, report.Sealed, err)

	data, err := os.ReadFile(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	data = bytes.Clone(data)
	data[33_000] ^= 1 // a bad disk
	copied := filepath.Join(os.TempDir(), "example-verify.mmf")
	defer os.Remove(copied)
	if err := os.WriteFile(copied, data, 0o666); err != nil {
		fmt.Println(err)
		return
	}
	_, err = mmapfilter.Verify(context.Background(), copied)
	var damage *mmapfilter.CorruptError
	if errors.As(err, &damage) {
		fmt.Println(damage.Region)
	}
	// Output:
	// 564 true <nil>
	// region
}

func ExampleOptions_Plan() {
	plan, err := (&mmapfilter.Options{Capacity: 1_000_000_000, FalsePositiveRate: 0.001}).Plan()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.2f bits per key, %.1f GB, a rate of %.4g\n", plan.BitsPerKey, float64(plan.FileBytes)/1e9, plan.PredictedRate)
	// Output: 13.48 bits per key, 1.7 GB, a rate of 0.0009761
}
