package httpfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// ErrNoRanges is returned for a server that does not serve parts of the file, or does not show when
// the file changes.
var ErrNoRanges = errors.New("the server does not serve parts of files")

// A StatusError is an answer of the server that is no part of the file. It matches fs.ErrNotExist if
// there is no such file, and fs.ErrPermission if the server does not allow access to it.
type StatusError struct{ Status int }

func (e *StatusError) Error() string {
	return fmt.Sprintf("the server says %d %s", e.Status, http.StatusText(e.Status))
}

func (e *StatusError) Is(target error) bool {
	switch e.Status {
	case http.StatusNotFound, http.StatusGone:
		return target == fs.ErrNotExist
	case http.StatusUnauthorized, http.StatusForbidden:
		return target == fs.ErrPermission
	}
	return false
}

// Options say how to read. A nil *Options and the zero value mean the defaults.
type Options struct {
	Client     *http.Client  // nil means one like http.DefaultClient
	Header     http.Header   // sent with each request, such as Authorization
	Timeout    time.Duration // for one try, up to the last byte, plus a second for each 256 KiB; 0 means 5 seconds
	Tries      int           // of a read; 0 means 3
	Backoff    time.Duration // pause before the second try, doubled before each later one; 0 means 100 ms
	CacheBytes int64         // memory for pages; 0 means 1 MiB. If it is negative, each read requests only its own bytes
}

// headBytes is how much of the file Open reads: the part that mmapfilter.OpenReaderAt reads first. This
// part has the superblocks, so later reads of it go to the server again.
const headBytes = 32 << 10

// A File is an open file at a URL. It is safe for concurrent use by multiple goroutines.
type File struct {
	url, name string
	opts      Options
	version   *version               // nil while it is opened
	head      atomic.Pointer[[]byte] // what Open has read, until ReadAt has returned it
	pages     cache
	life      context.Context // ends with Close
	end       context.CancelFunc
	changed   atomic.Bool
}

// A version tells a file from a file that takes its place.
type version struct {
	size           int64
	etag, modified string // not both ""
}

// Open opens the file at a URL. ctx is only for opening.
//
// The errors are errors of the network, a [*StatusError], and [ErrNoRanges].
func Open(ctx context.Context, rawURL string, opts *Options) (*File, error) {
	u, err := url.Parse(rawURL)
	shown := "URL" // not rawURL, which may have a password
	if err == nil {
		// A query may be a secret, as in a URL that is signed.
		public := *u
		public.RawQuery, public.Fragment = "", ""
		shown = public.Redacted()
	}
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, &fs.PathError{Op: "open", Path: shown, Err: errors.New("not an http or https URL")}
	}
	f := &File{url: rawURL, name: shown}
	if opts != nil {
		f.opts = *opts
	}
	f.opts.setDefaults()
	f.pages.most = int(f.opts.CacheBytes / pageBytes)
	f.life, f.end = context.WithCancel(context.Background())
	head, err := f.read(ctx, 0, headBytes)
	if err != nil {
		f.end()
		return nil, &mmapfilter.OpError{Op: "open", Path: f.name, Err: err}
	}
	f.head.Store(&head)
	return f, nil
}

func (o *Options) setDefaults() {
	if o.Client == nil {
		o.Client = new(http.Client)
	}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	if o.Tries == 0 {
		o.Tries = 3
	}
	if o.Backoff == 0 {
		o.Backoff = 100 * time.Millisecond
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 1 << 20
	}
}

// Size returns the size of the file.
func (f *File) Size() int64 { return f.version.size }

// Weak reports whether the server sends no strong ETag, so that reads may take another file of the same
// size and time for this one. [mmapfilter.OpenReaderAt] then has each "certainly not" checked.
func (f *File) Weak() bool { return !strings.HasPrefix(f.version.etag, `"`) }

// Name returns the URL without password and query.
func (f *File) Name() string { return f.name }

// Close ends all reads, with an error.
func (f *File) Close() error {
	f.end()
	return nil
}

// ReadAt reads a part of the file.
func (f *File) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, errors.New("negative offset")
	}
	if f.life.Err() != nil {
		return 0, fs.ErrClosed
	}
	if f.changed.Load() {
		return 0, errChanged
	}
	want := p[:max(min(int64(len(p)), f.Size()-off), 0)]
	switch {
	case len(want) == 0:
	case off >= headBytes && len(want) <= pageBytes && f.pages.most > 0:
		n, err = f.readPages(want, off)
	default:
		var part []byte
		if off == 0 && len(want) == int(min(headBytes, f.Size())) {
			part = f.takeHead()
		}
		if part == nil {
			part, err = f.read(f.life, off, int64(len(want)))
		}
		n = copy(want, part)
	}
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// takeHead returns what Open has read. After the first call it returns nil.
func (f *File) takeHead() []byte {
	if head := f.head.Swap(nil); head != nil {
		return *head
	}
	return nil
}

// readPages is ReadAt through the cache.
func (f *File) readPages(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		number := (off + int64(n)) / pageBytes
		page := f.pages.get(number)
		if page == nil {
			first := number * pageBytes
			if page, err = f.read(f.life, first, min(pageBytes, f.Size()-first)); err != nil {
				return n, err
			}
			f.pages.put(number, page)
		}
		n += copy(p[n:], page[off+int64(n)-number*pageBytes:])
	}
	return n, nil
}

// read reads n bytes from off on. At opening it may read fewer, if the file is short.
func (f *File) read(ctx context.Context, off, n int64) (part []byte, err error) {
	for try, pause := 1, f.opts.Backoff; ; try, pause = try+1, 2*pause {
		var again bool
		part, again, err = f.try(ctx, off, n)
		if err == nil || !again || try >= f.opts.Tries {
			return part, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		case <-f.life.Done():
			return nil, err
		}
	}
}

var errChanged = fmt.Errorf("the file has changed since it was opened: %w", mmapfilter.ErrSuperseded)

// try is one try of read. again says whether another try may succeed.
func (f *File) try(ctx context.Context, off, n int64) (part []byte, again bool, err error) {
	within := f.opts.Timeout + time.Duration(n/bytesPerSecond)*time.Second
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	defer context.AfterFunc(f.life, cancel)()
	request, err := f.request(ctx, off, n)
	if err != nil {
		return nil, false, err
	}
	response, err := f.opts.Client.Do(request)
	if e := new(url.Error); errors.As(err, &e) {
		err = e.Err // the URL may have a secret
	}
	if err == nil {
		defer response.Body.Close()
		var is version
		if is, again, err = f.check(response, off, n); err != nil {
			return nil, again, err
		}
		part = make([]byte, min(n, is.size-off))
		if _, err = io.ReadFull(response.Body, part); err == nil {
			if f.version == nil {
				f.version = &is
			}
			return part, false, nil
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %v: %w", within, err)
	}
	return nil, true, err
}

// bytesPerSecond is how fast a server must be. A try to read more bytes may take longer.
const bytesPerSecond = 256 << 10

func (f *File) request(ctx context.Context, off, n int64) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url, nil)
	if err != nil {
		return nil, err
	}
	for name, values := range f.opts.Header {
		r.Header[name] = values
	}
	r.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", off, off+n-1))
	r.Header.Set("Accept-Encoding", "identity")
	switch v := f.version; {
	case v == nil:
	case v.etag == "":
		r.Header.Set("If-Unmodified-Since", v.modified)
	case !f.Weak(): // If-Match matches no weak tag
		r.Header.Set("If-Match", v.etag)
	}
	return r, nil
}

// check checks whether a response has the n bytes of the file from off on, or at opening as many of
// them as there are. It returns the version of the file.
func (f *File) check(r *http.Response, off, n int64) (is version, again bool, err error) {
	switch s := r.StatusCode; {
	case f.version != nil && (s == http.StatusPreconditionFailed || s == http.StatusRequestedRangeNotSatisfiable):
		return is, false, f.change() // a range that cannot be served means that the file is shorter now
	case s == http.StatusOK:
		return is, false, ErrNoRanges
	case s != http.StatusPartialContent:
		return is, s >= 500 || s == http.StatusTooManyRequests || s == http.StatusRequestTimeout, &StatusError{s}
	}
	is.etag, is.modified = r.Header.Get("ETag"), r.Header.Get("Last-Modified")
	if is.etag != "" {
		is.modified = ""
	}
	span := r.Header.Get("Content-Range")
	var first, last int64
	_, err = fmt.Sscanf(span, "bytes %d-%d/%d", &first, &last, &is.size)
	switch {
	case err == nil && f.version != nil && is != *f.version:
		return is, false, f.change()
	case is.etag == "" && is.modified == "":
		return is, false, fmt.Errorf("%w with a version: it sends neither ETag nor Last-Modified", ErrNoRanges)
	}
	if n = min(n, is.size-off); err != nil || first != off || n <= 0 || last != off+n-1 || r.ContentLength >= 0 && r.ContentLength != n {
		return is, false, fmt.Errorf("%w: it was asked for %d bytes from %d on, but sends %d as %q", ErrNoRanges, n, off, r.ContentLength, span)
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return is, false, fmt.Errorf("%w without an encoding: it encodes them as %q", ErrNoRanges, encoding)
	}
	return is, false, nil
}

func (f *File) change() error {
	f.changed.Store(true)
	return errChanged
}
