package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/cobra"
)

const uniqHelp = `Print each line when it first occurs, at once and in order. No line is printed
twice. While at most N different lines have been printed, a new line is dropped
with a probability of at most P.

` + keysHelp + `
Whole records are printed, whatever part of them is the key.

Exit status: 0, or 2 after an error, such as a full filter.`

// The default size and rate of the filter of uniq, without --window and with it. With --window, the
// filter grows to its size by itself.
const (
	uniqCapacity   = 10_000_000
	uniqRate       = 1e-6
	windowCapacity = 100_000
	windowRate     = 5e-6
)

// A uniqCommand holds the flags of uniq.
type uniqCommand struct {
	create  createFlags
	filter  string
	window  time.Duration
	format  *formatFlags
	plain   bool
	verbose bool
}

func newUniqCommand() *cobra.Command {
	u := new(uniqCommand)
	opts := &u.create.opts
	opts.Capacity = uniqCapacity
	cmd := &cobra.Command{Use: "uniq [FILE...]", Short: "print each line the first time it occurs", Long: uniqHelp, Args: cobra.ArbitraryArgs, RunE: u.run}
	flags := cmd.Flags()
	u.create.flags = flags
	addSharedF(flags)
	addPlanFlags(flags, opts, "size for `N` different lines; few more fit (10M)", "1e-6; with --window 5e-6", "")
	u.create.seed = addSeedFlags(flags, "random")
	flags.StringVar(&u.filter, "filter", "", "remember lines in `FILTER` for later runs; create it if it is missing. An existing FILTER keeps its "+
		"options. If a run is killed, FILTER may have lines that were not printed. If FILTER keeps hashes, deletes wait (see del)")
	flags.Func("window", "print a line again once `D`, such as 24h or 7d, at least 10s, has passed since it was printed: never sooner, and "+
		"at most 5 % later (3s, if that is more). The filter grows and shrinks by itself, from N (100k) to what the lines of a window "+
		"take. FILTER keeps its window; another D changes it", func(text string) (err error) {
		u.window, err = parseAge(text, leastWindow)
		return err
	})
	flags.BoolVarP(&u.verbose, "verbose", "v", false, "print how many lines passed")
	u.format = addFileFormatFlags(flags)
	addPlainFlag(flags, &u.plain)
	return cmd
}

func (u *uniqCommand) run(cmd *cobra.Command, names []string) (err error) {
	if err := resolveF(cmd.Flags()); err != nil {
		return err
	}
	opts := &u.create.opts
	if opts.Capacity == 0 {
		return fmt.Errorf("--capacity %w", errAtLeastOne)
	}
	rate := uniqRate
	if u.window != 0 {
		opts.AutoGrow, opts.ExpireAfter = true, u.window
		rate = windowRate
		if !u.create.flags.Changed("capacity") {
			opts.Capacity = windowCapacity
		}
	}
	if opts.FalsePositiveRate == 0 && opts.FingerprintBits == 0 {
		opts.FalsePositiveRate = rate
	}
	if err := u.create.options(u.format); err != nil {
		return err
	}
	r := &uniqRun{stderr: cmd.ErrOrStderr(), out: bufio.NewWriterSize(cmd.OutOrStdout(), bufferBytes)}
	if r.in, err = u.format.input(names, cmd.InOrStdin()); err != nil {
		return err
	}
	r.in.whole = true
	if r.path, r.temporary = u.filter, u.filter == ""; r.temporary {
		temp, tempErr := os.MkdirTemp("", "mmapfilter-uniq-")
		if tempErr != nil {
			return tempErr
		}
		defer os.RemoveAll(temp)
		r.path, u.plain = filepath.Join(temp, "uniq.mmf"), true
		// A filter that is removed after this run need not survive a crash. With a window
		// the filter commits nevertheless, since commits record how old lines are.
		if u.window == 0 {
			opts.CommitInterval = -1
		}
	}
	if err := u.open(r); err != nil {
		return err
	}
	r.bar = new(progress)
	if r.in.sources.bytes > 0 && !isTerminal(cmd.OutOrStdout()) {
		r.bar = newProgress(r.stderr)
	}
	err = r.run(cmd.Context())
	r.in.warn(r.stderr)
	if closeErr := r.filter.Close(); err == nil && closeErr != nil {
		err = fmt.Errorf("close %s: %w", r.path, closeErr)
	}
	if u.verbose {
		fmt.Fprintf(r.stderr, "mmapfilter: %s of %s passed\n", formatCount(r.passed), formatNumber(r.read, "line", "lines"))
	}
	return err
}

// open opens the filter of an earlier run, or creates one.
func (u *uniqCommand) open(r *uniqRun) (err error) {
	opening := mmapfilter.OpenOptions{Checked: true, RequireHashes: u.window != 0, ExpireAfter: u.window, CommitInterval: u.create.opts.CommitInterval}
	r.filter, err = openOrCreate(r.path, &opening, &u.create)
	if errors.Is(err, mmapfilter.ErrNoHashes) {
		return lacksHashes(r.path, err)
	}
	if err != nil {
		return err
	}
	r.recorded, err = u.format.read(r.in, r.path, r.filter.Normalisation(), u.plain)
	if is, was := r.in.format, r.recorded; err == nil && !u.plain && (is.hex != was.hex || is.trimCR != was.trimCR) {
		// The same line would have another key, and would be printed again.
		err = &fileError{u.filter, fmt.Errorf("its keys are read as: %s; omit --hex and --trim-cr, or choose another file", describeNote(r.recorded.note()))}
	}
	if err != nil {
		err = errors.Join(err, r.filter.Close())
	}
	return err
}

// A uniqRun is one run of uniq. It prints the records whose keys its filter has not seen.
type uniqRun struct {
	path      string
	temporary bool // the filter exists only for this run
	filter    *mmapfilter.Filter
	recorded  format // how keys are read, according to the filter
	in        *input
	out       *bufio.Writer
	stderr    io.Writer
	block     block
	added     []bool // which keys of the block were added
	bar       *progress

	headed, warned bool
	read, passed   uint64
	ctx            context.Context
}

func (r *uniqRun) run(ctx context.Context) error {
	r.ctx = ctx
	err := r.in.each(ctx, &r.block, r.pass)
	r.head()
	if flushed := r.out.Flush(); err == nil {
		err = flushed
	}
	r.bar.close()
	return explainMisfit(err, r.in.format, r.recorded, r.path)
}

// head prints the column names of the first file that has them, once.
func (r *uniqRun) head() {
	if !r.headed && r.in.header != nil {
		r.headed = true
		r.print(r.in.header)
	}
}

// pass inserts the keys of the block, prints the records of new keys, and empties the block.
func (r *uniqRun) pass() error {
	if _, err := r.filter.Expire(r.ctx); err != nil && r.ctx.Err() == nil {
		return err
	}
	r.head()
	keys := r.block.keys()
	if len(r.added) < len(keys) {
		r.added = make([]bool, max(len(keys), blockKeys))
	}
	n, err := r.filter.InsertUniqueBatch(keys, r.added)
	r.read += uint64(n)
	for i, isNew := range r.added[:n] {
		if isNew {
			r.passed++
			r.print(r.block.record(i))
		}
	}
	if err != nil {
		return r.explain(err, r.block.spans[n].number)
	}
	r.block.clear()
	if n := r.filter.Cap(); !r.warned && r.filter.Len() > n && !growing(r.filter) {
		r.warned = true
		r.bar.hide()
		fmt.Fprintf(r.stderr, "mmapfilter: more than %s lines: new lines may be dropped more often than the rate says\n", formatCount(n))
	}
	r.bar.show("passing", r.in.sources.read.Load(), r.in.sources.bytes, nil)
	return r.out.Flush()
}

// explain says which record an error is about and, if the filter is full, how to avoid that.
func (r *uniqRun) explain(err error, number int) error {
	record := fmt.Sprintf("record %d of %s", number, r.in.file)
	switch {
	case !errors.Is(err, mmapfilter.ErrFull):
		return fmt.Errorf("%s: %w", record, err)
	case r.temporary:
		return fmt.Errorf("%s does not fit: there were %s, but -n is %s; give a larger -n",
			record, formatNumber(r.filter.Len(), "different line", "different lines"), formatCount(r.filter.Cap()))
	}
	help := ""
	if canGrow(r.filter) {
		help = "; run: mmapfilter grow " + r.path
	}
	why := " is full"
	if r.filter.Stats().Grows { // the error says why it does not grow
		why = ": " + err.Error()
	}
	return fmt.Errorf("%s%s: it holds %s and was made for %s; %s does not fit%s", r.path, why, formatNumber(r.filter.Len(), "key", "keys"), formatCount(r.filter.Cap()), record, help)
}

// print prints a record. The writer keeps its first error for flush.
func (r *uniqRun) print(record []byte) {
	r.out.Write(record)
	r.out.WriteString(r.in.end())
}

// leastWindow is the shortest time after which keys may expire: see mmapfilter.Options.ExpireAfter.
const leastWindow = 10 * time.Second

// lacksHashes says that a filter cannot be used with --window.
func lacksHashes(path string, err error) error {
	return &fileError{path, errors.New(whatOfHashes(path, err) + ", and --window needs the hashes; choose another file")}
}
