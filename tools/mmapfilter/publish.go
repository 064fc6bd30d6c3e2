package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/replica"
	"github.com/mmapfilter/mmapfilter/tools/internal/server"
	"github.com/spf13/cobra"
)

const publishHelp = `Publish FILTER over HTTP for "mmapfilter replicate" on other machines: a
snapshot, and all changes from then on. FILTER must keep its hashes. Another
program may write to FILTER meanwhile. publish sees these writes once that
program makes a checkpoint, so a program that writes all the time should itself
publish, with package replica.

publish keeps the snapshot beside FILTER, as FILTER.snapshot. Everyone who can
connect can read all of FILTER, unless --token-file asks for a token. publish
has no TLS: to serve other machines, put a proxy with TLS in front of it.`

func newPublishCommand() *cobra.Command {
	var listen, tokenFile string
	var open bool
	cmd := &cobra.Command{Use: "publish FILTER", Short: "publish a filter to replicas on other machines", Long: publishHelp, Args: needFile,
		Example: "mmapfilter publish users.mmf --listen 10.0.0.1:7700 --token-file token"}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:7700", "`ADDRESS` to listen on")
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "serve only clients that send the token, the first line of `FILE`")
	cmd.Flags().BoolVar(&open, "no-token", false, "let --listen name an address that other machines reach, without a token")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		token, err := readToken(tokenFile)
		if err != nil {
			return err
		}
		if !server.Loopback(listen) && token == "" && !open {
			return fmt.Errorf("other machines reach %s, but there is no token; give --token-file, or --no-token if that is intended", listen)
		}
		f, err := mmapfilter.Follow(args[0], nil)
		if err != nil {
			return err
		}
		defer f.Close()
		if f.Filter().Position().IsZero() {
			return &fileError{args[0], errors.New("it keeps no hashes, so nobody knows what changes; create it with --keep-hashes")}
		}
		l, err := net.Listen("tcp", listen)
		if err != nil {
			return err
		}
		s := &http.Server{Handler: withToken(token, &followed{Follower: f}), ReadHeaderTimeout: 10 * time.Second}
		fmt.Fprintln(cmd.OutOrStdout(), "listening on", l.Addr())
		go func() {
			<-cmd.Context().Done()
			s.Close()
		}()
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}
	return cmd
}

// readToken returns the first line of a file, or "" if none is named.
func readToken(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if line = strings.TrimSpace(line); line == "" {
		return "", &fileError{path, errors.New("its first line, the token, is empty")}
	}
	return line, nil
}

// authorization returns the value of the header Authorization for a token.
func authorization(token string) string { return "Bearer " + token }

// withToken serves those who know a token, or everybody if there is none.
func withToken(token string, h http.Handler) http.Handler {
	if token == "" {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte(authorization(token))) != 1 {
			http.Error(w, "the token is missing or wrong", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// A followed publishes the file that a follower uses at the time of a request.
type followed struct {
	*mmapfilter.Follower
	mu      sync.Mutex
	filter  *mmapfilter.Filter
	handler http.Handler // of filter
}

func (f *followed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	if now := f.Filter(); f.filter != now {
		f.filter, f.handler = now, replica.Handler(now)
	}
	h := f.handler
	f.mu.Unlock()
	h.ServeHTTP(w, r)
}

const replicateHelp = `Until a signal comes, keep FILTER a copy of the filter at URL, served by
"mmapfilter publish" or by a program with package replica. If FILTER does not
exist, replicate takes a snapshot first. Programs may look keys up in FILTER
meanwhile, but must not write to it.

After a failure that may pass, replicate prints a message and tries again; a
download goes on where it was cut off.

Exit status: 0 after --once, or 2 after an error.`

func newReplicateCommand() *cobra.Command {
	var quiet quiet
	var tokenFile string
	var once bool
	cmd := &cobra.Command{Use: "replicate URL FILTER", Short: "keep a copy of a filter on another machine up to date", Long: replicateHelp,
		Args: takes(2, 2, "a URL and a filter file"), Example: "mmapfilter replicate https://filters.example.org users.mmf"}
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "send the token, the first line of `FILE`")
	cmd.Flags().BoolVar(&once, "once", false, "end as soon as FILTER has all that the filter at URL has")
	quiet.addTo(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		token, err := readToken(tokenFile)
		if err != nil {
			return err
		}
		opts, told := new(replica.Options), ""
		if token != "" {
			opts.Header = http.Header{"Authorization": {authorization(token)}}
		}
		opts.OnError = func(err error) {
			if err.Error() != told {
				told = err.Error()
				fmt.Fprintln(cmd.ErrOrStderr(), "mmapfilter:", told)
			}
		}
		r, err := replica.Follow(cmd.Context(), args[0], args[1], opts)
		switch {
		case err != nil && err.Error() == told:
			return errReported
		case err != nil:
			return &aboutError{args[1], err}
		}
		return errors.Join(watch(cmd.Context(), r, once, quiet.out(cmd)), r.Close())
	}
	return cmd
}

// watch waits until a replica has everything that the filter at the URL has, and prints its position.
// Then it waits for the end of ctx, unless once is set.
func watch(ctx context.Context, r *replica.Replica, once bool, out io.Writer) error {
	for told := false; ; {
		if s := r.Stats(); !told && !s.Primary.IsZero() && s.LagOperations == 0 && r.Err() == nil {
			told = true
			if _, err := fmt.Fprintf(out, "%s, position %v\n", formatNumber(r.Len(), "key", "keys"), s.Position); err != nil || once {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
