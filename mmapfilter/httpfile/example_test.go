package httpfile_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/httpfile"
)

// Any server of static files will do.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err == nil {
		defer os.RemoveAll(dir)
		err = publish(filepath.Join(dir, "users.mmf"))
	}
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	if err == nil {
		err = ask(server.URL + "/users.mmf")
	}
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// true false
	// <nil>
}

func publish(path string) error {
	users := func(yield func([]byte, error) bool) { yield([]byte("alice"), nil) }
	f, err := mmapfilter.Build(context.Background(), path, nil, users)
	if err != nil {
		return err
	}
	return f.Close()
}

func ask(url string) error {
	file, err := httpfile.Open(context.Background(), url, nil)
	if err != nil {
		return err
	}
	defer file.Close()
	f, err := mmapfilter.OpenReaderAt(file, file.Size(), &mmapfilter.OpenOptions{ReadSize: 64 << 10})
	if err != nil {
		return err
	}
	defer f.Close()
	fmt.Println(f.ContainsString("alice"), f.ContainsString("carol"))
	fmt.Println(f.Err()) // nil: all answers came from one file
	return nil
}
