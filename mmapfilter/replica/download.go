package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/bridge"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// download downloads a snapshot to NAME.part, beside the file of the replica. If NAME.part has the
// beginning of a snapshot that the server still has, the download continues it. Meanwhile it holds the
// lock of NAME.part, so that another replica with the same path does not install NAME.part as its file.
func (r *Replica) download(ctx context.Context, after mmapfilter.Position) error {
	part, err := os.OpenFile(r.part(), os.O_RDWR|os.O_CREATE, 0o666)
	if err == nil {
		part.Close()
		part, err = osfile.OpenLocked(r.part())
	}
	if err != nil {
		return err
	}
	defer part.Close()
	have, err := part.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	header := http.Header{}
	tag, err := tagOf(part)
	if err == nil {
		header.Set("Range", fmt.Sprintf("bytes=%d-", have))
		header.Set("If-Range", tag)
	}
	query := url.Values{}
	if !after.IsZero() {
		query.Set("after", after.String())
	}
	a, err := r.ask(ctx, snapshotPath, query, header, busyAfter)
	if s := new(StatusError); errors.As(err, &s) && s.Status == http.StatusRequestedRangeNotSatisfiable {
		return nil // the part is whole, or wrong: its verification will tell
	}
	if err != nil {
		return err
	}
	defer a.Close()
	size := a.ContentLength
	var first, last int64
	switch _, err := fmt.Sscanf(a.Header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &size); {
	case a.StatusCode == http.StatusOK:
		size, have = a.ContentLength, 0
	case a.StatusCode != http.StatusPartialContent || err != nil || tag == "" || a.Header.Get("ETag") != tag || first != have || last < first || last != size-1:
		return errors.Join(fmt.Errorf("the server answers a request for the bytes from %d on with status %d and range %q", have, a.StatusCode, a.Header.Get("Content-Range")), r.discard())
	}
	switch {
	case size < 0:
		return errors.New("the server does not say how large the snapshot is")
	case size > r.opts.MaxBytes:
		return fmt.Errorf("the snapshot has %d bytes, but Options.MaxBytes is %d: %w", size, r.opts.MaxBytes, errTooLarge)
	}
	if err := part.Truncate(have); err != nil {
		return err
	}
	if _, err := part.Seek(have, io.SeekStart); err != nil {
		return err
	}
	a.most = size - have + 1
	n, err := io.Copy(part, a)
	r.note(func(s *Stats) { s.SnapshotBytes += uint64(n) })
	if err == nil && n != size-have {
		err = io.ErrUnexpectedEOF
	}
	return err
}

func (r *Replica) part() string { return r.path + ".part" }

// discard removes the part, so that the next download begins anew.
func (r *Replica) discard() error {
	if err := os.Remove(r.part()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// check checks that NAME.part is a snapshot of a filter that keeps its hashes.
func (r *Replica) check() error {
	f, err := mmapfilter.OpenReadOnly(r.part(), nil)
	if err != nil {
		return err
	}
	defer f.Close()
	if !isReplica(f) {
		return fmt.Errorf("the server sent a file that is not a snapshot of a filter that keeps its hashes: %w", mmapfilter.ErrNoHashes)
	}
	return nil
}

// isReplica reports whether a filter is a snapshot of a filter that keeps its hashes, and only Follow
// has changed it since.
func isReplica(f *mmapfilter.Filter) bool {
	sb := bridge.Of(f).Superblock()
	return sb != nil && sb.IsReplica()
}
