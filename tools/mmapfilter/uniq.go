package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const uniqHelp = `Usage: mmapfilter uniq [FILE...]

Print each line the first time it occurs, at once and in order. No line is
printed twice. A new line is dropped with a probability of at most P as long as
at most N different lines have been printed.

  -n, --capacity N      size for N different lines; it takes few more (10M)
  -p, --rate P          see above (1e-6; with --window 5e-6)
  -f, --fingerprint-bits N, -b, --bucket-size N, --layout L
                        choose these by hand; -f replaces -p
` + createSeedHelp + `      --filter FILTER   remember lines in FILTER for later runs; create it if
                        it is missing. An existing FILTER keeps its options. A
                        killed run may remember lines it has not printed
      --window D        print a line again once D, such as 24h, has passed since
                        it was printed: after D to 1.1 D if lines come evenly,
                        else up to 2 D. The filter grows and shrinks by itself,
                        from N (100k) to what the lines of a window take. With
                        --filter, give --window in each run
  -v, --verbose         print how many lines passed

` + uniqKeysHelp + `
      --plain           ignore the settings that FILTER records

Whole records are printed, whatever part of them is the key.

Exit status: 0, or 2 after an error, such as a full filter.`

// The default size and rate of a filter of uniq. Such a filter takes 41 MB.
const (
	uniqCapacity = 10_000_000
	uniqRate     = 1e-6
)

// A uniqCommand holds the flags of uniq.
type uniqCommand struct {
	flags   *pflag.FlagSet
	opts    mmapfilter.Options
	seed    *seedFlags
	filter  string
	window  time.Duration
	format  *formatFlags
	plain   bool
	seeded  bool // a seed was given
	verbose bool
}

func newUniqCommand() *cobra.Command {
	u := &uniqCommand{opts: mmapfilter.Options{Capacity: uniqCapacity}}
	cmd := &cobra.Command{Use: "uniq", Long: uniqHelp, Args: cobra.ArbitraryArgs, RunE: u.run}
	flags := cmd.Flags()
	u.flags = flags
	addPlanFlags(flags, &u.opts)
	addSharedF(flags, &u.opts)
	u.seed = addSeedFlags(flags)
	flags.StringVar(&u.filter, "filter", "", "file to remember lines in")
	flags.Func("window", "how long to remember a line", func(text string) (err error) {
		u.window, err = parseAge(text)
		return err
	})
	flags.BoolVar(&u.plain, "plain", false, "ignore recorded settings")
	flags.BoolVarP(&u.verbose, "verbose", "v", false, "print how many lines passed")
	u.format = addFileFormatFlags(flags)
	return cmd
}

func (u *uniqCommand) run(cmd *cobra.Command, names []string) (err error) {
	if err := resolveF(cmd.Flags()); err != nil {
		return err
	}
	if err := checkPlanFlags(cmd.Flags()); err != nil {
		return err
	}
	if u.opts.Seed, u.seeded, err = u.seed.seed(); err != nil {
		return err
	}
	if u.opts.Capacity == 0 {
		return fmt.Errorf("--capacity %w", errAtLeastOne)
	}
	rate := uniqRate
	if u.window != 0 {
		u.opts.AutoGrow = true
		rate = windowRate
		if !u.flags.Changed("capacity") {
			u.opts.Capacity = windowCapacity
		}
	}
	if u.opts.FalsePositiveRate == 0 && u.opts.FingerprintBits == 0 {
		u.opts.FalsePositiveRate = rate
	}
	p := &passage{in: &input{whole: true}, stderr: cmd.ErrOrStderr(), out: bufio.NewWriterSize(cmd.OutOrStdout(), bufferBytes)}
	if p.in.sources, err = u.format.sources(names, cmd.InOrStdin()); err != nil {
		return err
	}
	if err := p.in.sources.err(); err != nil {
		return err
	}
	if p.temporary = u.filter == ""; p.temporary {
		temp, tempErr := os.MkdirTemp("", "mmapfilter-uniq-")
		if tempErr != nil {
			return tempErr
		}
		defer os.RemoveAll(temp)
		p.path = filepath.Join(temp, "uniq.mmf")
		if u.window == 0 { // commits say how old lines are
			u.opts.CommitInterval = -1 // after a crash the filter is useless
		}
		err = u.create(p)
	} else {
		p.path = u.filter
		err = u.open(p)
	}
	if err != nil {
		return err
	}
	p.window = window{filter: p.filter, path: p.path, length: u.window}
	p.bar = new(progress)
	if p.in.sources.bytes > 0 && !isTerminal(cmd.OutOrStdout()) {
		p.bar = newProgress(p.stderr)
	}
	err = p.run(cmd.Context())
	if closeErr := p.filter.Close(); err == nil && closeErr != nil {
		err = fmt.Errorf("close %s: %w", p.path, closeErr)
	}
	if u.verbose {
		fmt.Fprintf(p.stderr, "mmapfilter: %s of %s passed\n", formatCount(p.passed), formatNumber(p.read, "line", "lines"))
	}
	return err
}

// create creates a filter for the lines, which records how they are read.
func (u *uniqCommand) create(p *passage) (err error) {
	if p.in.format, err = u.format.format(format{}); err != nil {
		return err
	}
	p.filter, err = createFilter(p.path, &u.opts, p.in.format)
	return err
}

// open opens the filter of an earlier run, or creates one.
func (u *uniqCommand) open(p *passage) (err error) {
	p.filter, err = mmapfilter.Open(p.path, &mmapfilter.OpenOptions{RequireHashes: u.window != 0})
	switch {
	case errors.Is(err, mmapfilter.ErrNoHashes):
		return lacksHashes(p.path, err)
	case errors.Is(err, fs.ErrNotExist):
		return u.create(p)
	case err != nil:
		return err
	}
	if err := u.contradicted(p.filter); err != nil {
		return errors.Join(err, p.filter.Close())
	}
	if p.recorded, err = recordedFormat(p.path, p.filter.Normalisation(), u.plain); err == nil {
		p.in.format, err = u.format.format(p.recorded)
	}
	if is, was := p.in.format, p.recorded; err == nil && !u.plain && (is.hex != was.hex || is.trimCR != was.trimCR) {
		// The same line would have another key, and would pass again.
		err = &fileError{u.filter, fmt.Errorf("its keys are read as: %s; omit --hex and --trim-cr, or choose another file", describeNote(p.recorded.note()))}
	}
	if err != nil {
		err = errors.Join(err, p.filter.Close())
	}
	return err
}

// contradicted reports an option that contradicts the existing filter. One that grows has its size
// and layout from the last time that it grew.
func (u *uniqCommand) contradicted(filter *mmapfilter.Filter) error {
	s, want := filter.Stats(), u.opts
	for _, c := range []struct {
		flag       string
		has, asked any
	}{
		{"capacity", formatCount(s.Cap), formatCount(want.Capacity)},
		{"rate", s.TargetRate, want.FalsePositiveRate},
		{"fingerprint-bits", s.FingerprintBits, want.FingerprintBits},
		{"bucket-size", s.BucketSize, want.BucketSize},
		{"layout", s.Layout, want.Layout},
	} {
		if u.flags.Changed(c.flag) && (c.flag == "rate" || !s.Grows) && c.has != c.asked && c.asked != layout.Auto {
			return &fileError{u.filter, fmt.Errorf("was made with --%s %v, not %v; omit the flag or choose another file", c.flag, c.has, c.asked)}
		}
	}
	if u.seeded && s.Seed != want.Seed {
		return &fileError{u.filter, errors.New("was made with another seed; omit the seed or choose another file")}
	}
	return nil
}

// A passage is a run of uniq. It passes on what its filter has not seen.
type passage struct {
	path      string
	temporary bool // the filter exists only for this run
	filter    *mmapfilter.Filter
	recorded  format // how keys are read, according to the filter
	in        *input
	out       *bufio.Writer
	stderr    io.Writer
	block     block
	bar       *progress
	window    window

	headed, warned bool
	read, passed   uint64
	err            error // the first error
}

func (p *passage) run(ctx context.Context) error {
	p.in.beforeRead = func() error {
		p.pass(ctx)
		p.flush()
		p.bar.show("passing", p.in.sources.read.Load(), p.in.sources.bytes, nil)
		if p.err != nil {
			return io.EOF
		}
		return nil
	}
	for key, err := range p.in.keys(ctx) {
		p.head()
		switch {
		case ctx.Err() != nil:
			p.pass(ctx)
			p.fail(ctx.Err())
		case err != nil:
			p.pass(ctx)
			p.fail(explainMisfit(err, p.in.format, p.recorded, p.path))
		default:
			p.block.add(key, p.in.record, p.in.number)
			if p.block.full() {
				p.pass(ctx)
			}
		}
		if p.err != nil {
			break
		}
	}
	p.head()
	p.pass(ctx)
	p.flush()
	p.bar.close()
	return p.err
}

// head passes on the column names of the first file that has them.
func (p *passage) head() {
	if !p.headed && p.in.header != nil {
		p.headed = true
		p.print(p.in.header)
	}
}

// pass processes the block, and starts another.
func (p *passage) pass(ctx context.Context) {
	if p.err != nil {
		return
	}
	if err := p.window.forget(ctx); err != nil && ctx.Err() == nil {
		p.fail(err)
		return
	}
	for i, key := range p.block.keys() {
		isNew, err := p.filter.InsertUnique(key)
		if err != nil {
			p.fail(p.explain(err, p.block.spans[i].number))
			return
		}
		p.read++
		if isNew {
			p.passed++
			p.print(p.block.text(i))
		}
	}
	p.block.clear()
	if n := p.filter.Cap(); !p.warned && p.filter.Len() > n && !growing(p.filter) {
		p.warned = true
		p.bar.hide()
		fmt.Fprintf(p.stderr, "mmapfilter: more than %s lines: new lines may be dropped more often than the rate says\n", formatCount(n))
	}
}

// explain says which record an error is about and, if the filter is full, how to avoid that.
func (p *passage) explain(err error, number int) error {
	record := fmt.Sprintf("record %d of %s", number, p.in.file)
	switch {
	case !errors.Is(err, mmapfilter.ErrFull):
		return fmt.Errorf("%s: %w", record, err)
	case p.temporary:
		return fmt.Errorf("%s does not fit: there were %s, and -n is %s; give a larger -n",
			record, formatNumber(p.filter.Len(), "different line", "different lines"), formatCount(p.filter.Cap()))
	}
	help := ""
	if canGrow(p.filter) {
		help = "; run: mmapfilter grow " + p.path
	}
	return fmt.Errorf("%s is full: it holds %s and was made for %s; %s does not fit%s", p.path, formatNumber(p.filter.Len(), "key", "keys"), formatCount(p.filter.Cap()), record, help)
}

// print leaves its error to flush.
func (p *passage) print(record []byte) {
	p.out.Write(record)
	p.out.WriteString(p.in.end())
}

func (p *passage) flush() {
	if err := p.out.Flush(); err != nil {
		p.fail(err)
	}
}

func (p *passage) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}
