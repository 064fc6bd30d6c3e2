package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/httpfile"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
	"github.com/spf13/pflag"
)

// urlHelp says what a command can do with a URL.
const urlHelp = `FILTER may be the https:// URL of a sealed or clean filter. It is read where it
is: 32 KiB at first, and then a few lines for the keys that are looked up. It
may also be the URL of a set, with the shards beside it; then the path must end
in .set.`

// isURL reports whether a path is a URL, so that the filter is read from a web server.
func isURL(path string) bool {
	scheme, _, found := strings.Cut(path, "://")
	return found && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// shownURL returns what is printed for a path. A URL is printed without its password, and without
// its query, which may be a signature.
func shownURL(path string) string {
	if !isURL(path) {
		return path
	}
	u, err := url.Parse(path)
	switch {
	case err != nil:
		return "URL"
	case u.User == nil && u.RawQuery == "" && u.Fragment == "":
		return path
	}
	u.RawQuery, u.Fragment = "", ""
	return u.Redacted()
}

// urlReadSize is how much of a file a request asks for, if a batch of lookups can use that much. A
// server sends about as much in the time that a request takes.
const urlReadSize = 64 << 10

// refuseWithURL refuses flags that cannot be used with a URL.
func refuseWithURL(flags *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		if flags.Changed(name) {
			return fmt.Errorf("--%s cannot be used with a URL", name)
		}
	}
	return nil
}

// openURL opens the filter at a URL. The httpfile.File that it reads with stays open until the
// process ends. The parameter but names flags that must not be set.
func openURL(ctx context.Context, path string, flags *pflag.FlagSet, but ...string) (*mmapfilter.Filter, error) {
	if err := refuseWithURL(flags, but...); err != nil {
		return nil, err
	}
	file, err := httpfile.Open(ctx, path, nil)
	if err != nil {
		return nil, err
	}
	filter, err := mmapfilter.OpenReaderAt(file, file.Size(), &mmapfilter.OpenOptions{ReadSize: urlReadSize})
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return filter, nil
}

// isSetURL reports whether a URL leads to the manifest of a set.
func isSetURL(path string) bool {
	u, err := url.Parse(path)
	return err == nil && isURL(path) && strings.HasSuffix(u.Path, manifestSuffix)
}

// openSetURL opens the set at a URL. The parameter but names flags that must not be set.
func openSetURL(ctx context.Context, rawURL string, flags *pflag.FlagSet, but ...string) (*sets.Set, error) {
	if err := refuseWithURL(flags, but...); err != nil {
		return nil, err
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, err
	}
	return sets.OpenFS(webFS{ctx, u}, path.Base(u.Path), &mmapfilter.OpenOptions{ReadSize: urlReadSize})
}

// A webFS has the files beside the file at a URL. Requests for them have the query of the URL, too,
// because it may carry a permission.
type webFS struct {
	ctx context.Context // for opening
	url *url.URL
}

func (w webFS) Open(name string) (fs.File, error) {
	at := w.url.ResolveReference(&url.URL{Path: name})
	at.RawQuery = w.url.RawQuery
	file, err := httpfile.Open(w.ctx, at.String(), nil)
	if err != nil {
		return nil, err
	}
	return &webFile{File: file}, nil
}

// A webFile is a file of a webFS, and its own fs.FileInfo.
type webFile struct {
	*httpfile.File
	off int64 // of the next Read
}

func (f *webFile) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.off)
	f.off += int64(n)
	return n, err
}

func (f *webFile) Stat() (fs.FileInfo, error) { return f, nil }
func (f *webFile) Mode() fs.FileMode          { return 0o444 }
func (f *webFile) ModTime() time.Time         { return time.Time{} }
func (f *webFile) IsDir() bool                { return false }
func (f *webFile) Sys() any                   { return nil }

// explainURL explains an error of a filter at a URL.
func explainURL(path string, err error) string {
	damage := new(mmapfilter.CorruptError)
	switch {
	case errors.Is(err, mmapfilter.ErrNeedsRecovery):
		return path + ": a program had it open for writing when it was copied; seal a filter before you publish it: mmapfilter checkpoint --seal"
	case errors.Is(err, mmapfilter.ErrSuperseded):
		return path + ": the file has changed meanwhile; run it again"
	case errors.As(err, &damage) && damage.NoFilter:
		return path + ": not an mmapfilter file"
	}
	if call := new(mmapfilter.OpError); errors.As(err, &call) {
		err = call.Err
	}
	return path + ": " + reason(err)
}
