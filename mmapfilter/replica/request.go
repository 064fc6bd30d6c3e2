package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// A StatusError is an answer of the server that is neither a snapshot nor changes. It matches the error
// of package mmapfilter for which a [Handler] sends this status; fs.ErrPermission if the server wants
// another authorization; and fs.ErrNotExist if there is no Handler at the URL.
type StatusError struct {
	Status int
	Text   string // the beginning of what the server says
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("the server says %d %s", e.Status, http.StatusText(e.Status))
	if e.Text != "" {
		text += fmt.Sprintf(": %q", e.Text)
	}
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		text += "; give the authorization that it wants (Options.Header or --token-file)"
	case http.StatusNotFound:
		text += "; the URL must be that of a replica.Handler or of mmapfilter publish"
	case http.StatusNotImplemented:
		text += "; publish a filter that keeps its hashes (Options.KeepHashes)"
	}
	return text
}

func (e *StatusError) Is(target error) bool {
	switch e.Status {
	case http.StatusNotFound:
		return target == fs.ErrNotExist
	case http.StatusUnauthorized, http.StatusForbidden:
		return target == fs.ErrPermission
	}
	for _, s := range statuses {
		if s.status == e.Status && e.Status != http.StatusServiceUnavailable {
			return target == s.err
		}
	}
	return false
}

func (e *StatusError) isFinal() bool {
	return e.Status/100 == 4 && e.Status != http.StatusTooManyRequests && e.Status != http.StatusRequestTimeout || e.Status == http.StatusNotImplemented
}

// parse checks the URL of a Handler. It also returns the URL in a form that can be shown: without the
// password, and without the query, which may be a signature.
func parse(raw string) (*url.URL, string, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, "", &mmapfilter.OpError{Op: "follow", Path: raw, Err: errors.New("not an http or https URL")}
	}
	shown := *u
	shown.RawQuery, shown.Fragment = "", ""
	return u, shown.Redacted(), nil
}

// An answer is a response whose body must come at a certain rate. Read returns errSilent if it does not.
type answer struct {
	*http.Response
	primary mmapfilter.Position // of the filter, as the server says
	body    io.ReadCloser
	begun   time.Time
	got     int64
	most    int64 // bytes that the body may have
	timer   *time.Timer
	cancel  context.CancelCauseFunc
	ctx     context.Context
}

var (
	errSilent    = errors.New("the server sends nothing, or too little")
	errTooLarge  = errors.New("too large")
	errNoHandler = errors.New("the answer has no position: the URL must be that of a replica.Handler or of mmapfilter publish")
)

// ask sends a GET for a path below the URL. wait is how long the server may wait before it answers.
// The caller closes the answer.
func (r *Replica) ask(ctx context.Context, path string, query url.Values, header http.Header, wait time.Duration) (*answer, error) {
	u := *r.url
	u.Path = strings.TrimSuffix(u.Path, "/") + path
	all := u.Query()
	for name, values := range query {
		all[name] = values
	}
	u.RawQuery = all.Encode()
	ctx, cancel := context.WithCancelCause(ctx)
	a := &answer{ctx: ctx, cancel: cancel, begun: time.Now().Add(wait)}
	a.timer = time.AfterFunc(wait+due(0), func() { cancel(errSilent) })
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err == nil {
		for _, h := range []http.Header{r.opts.Header, header} {
			for name, values := range h {
				request.Header[name] = values
			}
		}
		request.Header.Set("Accept-Encoding", "identity")
		a.Response, err = r.opts.Client.Do(request)
	}
	if err != nil {
		err = a.because(err)
		a.Close() // not before, since it gives the context another cause
		return nil, err
	}
	a.body = a.Body
	if a.StatusCode/100 != 2 {
		a.most = 200
		text, _ := io.ReadAll(a)
		a.Close()
		return nil, &StatusError{a.StatusCode, strings.TrimSpace(string(text))}
	}
	if a.primary, err = mmapfilter.ParsePosition(a.Header.Get(positionHeader)); err != nil {
		a.Close()
		return nil, errNoHandler
	}
	r.note(func(s *Stats) { s.Primary = a.primary })
	return a, nil
}

// because returns the cause of an error, without the URL, which may have a secret.
func (a *answer) because(err error) error {
	if cause := context.Cause(a.ctx); cause != nil {
		return cause
	}
	if e := new(url.Error); errors.As(err, &e) {
		err = e.Err
	}
	return err
}

// Read reads from the body.
func (a *answer) Read(p []byte) (n int, err error) {
	if a.got == a.most {
		return 0, errTooLarge
	}
	n, err = a.body.Read(p[:min(int64(len(p)), a.most-a.got)])
	a.got += int64(n)
	a.timer.Reset(time.Until(a.begun.Add(due(a.got))))
	if err != nil && err != io.EOF {
		err = a.because(err)
	}
	return n, err
}

// Close ends the request.
func (a *answer) Close() {
	a.timer.Stop()
	if a.body != nil {
		a.body.Close()
	}
	a.cancel(nil)
}
