package readers

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	manyKeys = flag.Int("keys", 20_000, "number of present keys, and of absent keys, that are looked up in a filter")
	damaged  = flag.Int("damaged", 50, "number of files with random damage that are opened, for each golden file")
	sanitize = flag.Bool("sanitize", false, "test the programs that gcc and clang build, those of one of them with sanitizers")
)

var scratch string // a directory for the whole run, with the sources

// must ends the test if err is not nil.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(runAll(m))
}

func runAll(m *testing.M) int {
	dir, err := os.MkdirTemp("", "mmapfilter-readers-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	defer os.RemoveAll(dir)
	scratch = dir
	if err := Unpack(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return m.Run()
}

// notTested skips a test, and prints what was not tested, even without -v.
func notTested(t *testing.T, format string, args ...any) {
	t.Helper()
	shout(format, args...)
	t.SkipNow()
}

var shouted sync.Map

func shout(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if _, before := shouted.LoadOrStore(text, true); !before {
		fmt.Println("NOT TESTED:", text)
	}
}

// A variant is a way to build.
type variant struct {
	compiler string
	flags    string
}

func (v variant) String() string { return strings.TrimSpace(v.compiler + " " + v.flags) }

const (
	warnings  = "-std=c11 -Wall -Wextra -Wpedantic -Werror"
	plain     = "-O2"
	sanitized = "-g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all"
	threaded  = "-g -O1 -fsanitize=thread"
	native    = "-O2 -march=native" // compact has other code for processors with bit instructions
)

// variants returns the variants that tests run with: that of cc or, with -sanitize, those of gcc and
// clang, one of which has sanitizers.
func variants(t *testing.T) []variant {
	t.Helper()
	if !*sanitize {
		return []variant{{compiler(t), plain}}
	}
	all := sanitizedVariants()
	if all == nil {
		notTested(t, "readers in C: there is no C compiler")
	}
	return all
}

var sanitizedVariants = sync.OnceValue(func() (all []variant) {
	sanitizer := false
	for _, cc := range []string{"gcc", "clang"} {
		flags := plain
		if !works(cc, plain) {
			shout("there is no %s", cc)
			continue
		}
		if !sanitizer && works(cc, sanitized) && works(cc, threaded) {
			sanitizer, flags = true, sanitized
		}
		if flags == plain && works(cc, native) {
			flags = native
		}
		all = append(all, variant{cc, flags})
	}
	if !sanitizer {
		shout("there is no compiler with sanitizers")
	}
	return all
})

// compiler returns the C compiler, or ends the test.
func compiler(t *testing.T) string {
	t.Helper()
	cc := workingCompiler()
	if cc == "" {
		notTested(t, "readers in C: there is no C compiler")
	}
	return cc
}

var workingCompiler = sync.OnceValue(func() string { return compilerOf(scratch) })

// works reports whether programs can be built with these flags, and run. Sanitizers, for example, may
// not be installed.
func works(cc, flags string) bool {
	source, program := filepath.Join(scratch, "works.c"), filepath.Join(scratch, "works")
	return os.WriteFile(source, []byte("#include <stdio.h>\nint main(void) { return 0; }\n"), 0o666) == nil &&
		run(cc, append(strings.Fields(flags), source, "-o", program)...) == nil && run(program) == nil
}

var built sync.Map // from the paths of programs to functions that build them once

// program builds a C file of this package once in a run, and returns the path of the program. A warning
// ends the test.
func program(t *testing.T, name string, v variant, more ...string) string {
	t.Helper()
	out := filepath.Join(scratch, strings.NewReplacer("/", "_", " ", "", "=", "", ",", "").Replace(name+v.String()))
	build, _ := built.LoadOrStore(out, sync.OnceValue(func() error {
		args := slices.Concat(strings.Fields(warnings), strings.Fields(v.flags), []string{filepath.Join(scratch, "c", name+".c"), "-o", out}, more)
		return run(v.compiler, args...)
	}))
	must(t, build.(func() error)())
	return out
}

func probe(t *testing.T, v variant) string {
	t.Helper()
	if v.compiler == node {
		return nodeProbe(t)
	}
	return program(t, "probe", v)
}

// output runs a program and returns its output. A sanitizer that finds an error makes the program fail.
func output(t *testing.T, in io.Reader, program string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(program, args...)
	var errs bytes.Buffer
	cmd.Stdin, cmd.Stderr = in, &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v: %s", filepath.Base(program), args, err, &errs)
	}
	return out
}

// record appends a key in the form that the probe reads.
func record(dst, key []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(key)))
	return append(dst, key...)
}

// each runs a test for every variant, in parallel, once the function that calls each has returned.
func each(t *testing.T, test func(t *testing.T, v variant)) {
	for _, v := range variants(t) {
		t.Run(v.String(), func(t *testing.T) {
			t.Parallel()
			test(t, v)
		})
	}
}

// eachReader does what each does, for the reader in JavaScript, too.
func eachReader(t *testing.T, test func(t *testing.T, v variant)) {
	t.Run(node, func(t *testing.T) {
		t.Parallel()
		if !nodeWorks() {
			notTested(t, "the reader in JavaScript: there is no node of version 18 or later")
		}
		test(t, variant{compiler: node})
	})
	each(t, test)
}

// A session is a probe that answers each line with a line.
type session struct {
	t     *testing.T
	in    io.Writer
	lines chan string
}

// openSession starts a probe that has a filter open.
func openSession(t *testing.T, v variant, path string) *session {
	t.Helper()
	s := start(t, v, "session")
	s.want("open", "o"+path, "0")
	return s
}

func start(t *testing.T, v variant, args ...string) *session {
	t.Helper()
	var errs bytes.Buffer
	cmd := exec.Command(probe(t, v), args...)
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	s := &session{t, in, make(chan string)}
	go func() {
		defer close(s.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		in.Close()
		for range s.lines { // until the probe ends
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the session: %v: %s", err, &errs)
		}
	})
	return s
}

// ask sends a command, and returns the answer.
func (s *session) ask(command string) string {
	s.t.Helper()
	fmt.Fprintln(s.in, command)
	select {
	case line := <-s.lines:
		return line
	case <-time.After(time.Minute):
		s.t.Fatalf("no answer to %q", command)
	}
	return ""
}

func (s *session) want(what, command, want string) {
	s.t.Helper()
	if got := s.ask(command); got != want {
		s.t.Errorf("%s: %q gives %s, not %s", what, command, got, want)
	}
}

// An opener is a probe that opens the images that are written to a file.
type opener struct {
	*session
	file *os.File
}

func newOpener(t *testing.T, v variant) opener {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "x.mmf"))
	must(t, err)
	t.Cleanup(func() { file.Close() })
	return opener{start(t, v, "opens"), file}
}

// code has the probe open an image, and look keys up in it. It returns the code of mmf_open.
func (o opener) code(image []byte) (code int) {
	o.t.Helper()
	_, err := o.file.WriteAt(image, 0)
	must(o.t, err)
	must(o.t, o.file.Truncate(int64(len(image))))
	answer := o.ask(o.file.Name())
	if _, err := fmt.Sscan(answer, &code); err != nil {
		o.t.Fatalf("the answer is %q: %v", answer, err)
	}
	return code
}
