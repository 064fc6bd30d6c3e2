package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/httpfile"
	"github.com/spf13/pflag"
)

// urlHelp says what a command can do with a URL.
const urlHelp = `FILTER may be the URL of a sealed or clean filter, https://: it is read where it
is, 32 KiB at first, and then a few lines for the keys that are asked for.`

// isURL reports whether a command is to read a filter from a web server.
func isURL(path string) bool {
	scheme, _, found := strings.Cut(path, "://")
	return found && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// shownURL returns what is printed for a URL: no password, and no query, which may be a signature.
func shownURL(path string) string {
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

// urlReadSize is how much of a file one request asks for where a batch can use it: about as much as a
// server sends in the time that a request takes.
const urlReadSize = 64 << 10

// openURL opens the filter at a URL. What it reads with stays open until the process ends. The flags
// in but must not be set.
func openURL(ctx context.Context, path string, flags *pflag.FlagSet, but ...string) (*mmapfilter.Filter, error) {
	for _, name := range but {
		if flags.Changed(name) {
			return nil, fmt.Errorf("--%s cannot be used with a URL", name)
		}
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
