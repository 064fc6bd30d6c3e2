package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

var rewrite = flag.Bool("rewrite", false, "write the output of the commands into the scripts of testdata")

// TestScripts runs the scripts of testdata. A script is a series of blocks, each followed by an
// empty line:
//
//	command arguments
//	lines of input
//	----
//	lines of output: standard output, then standard error
//
// A line of output is quoted as in Go if it is empty or could not be read back unchanged. Lines before a
// block that start with # are comments. The function command implements the commands. Each script has
// its own directory.
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		path, err := filepath.Abs(path)
		noError(t, err)
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) { runScript(t, path) })
	}
}

func runScript(t *testing.T, path string) {
	data, err := os.ReadFile(path)
	noError(t, err)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	noError(t, err)
	t.Chdir(dir)
	var result []string
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	for len(lines) > 0 {
		if lines[0] == "" || strings.HasPrefix(lines[0], "#") {
			result, lines = append(result, lines[0]), lines[1:]
			continue
		}
		var block scriptBlock
		block, lines = cutBlock(lines)
		output := strings.ReplaceAll(block.run(t), dir, "DIR")
		if !*rewrite && output != block.output {
			t.Errorf("%s\n--- want\n%s--- got\n%s", block.command, block.output, output)
		}
		result = append(result, block.command)
		result = append(result, block.input...)
		result = append(result, "----")
		if output != "" {
			result = append(result, strings.Split(strings.TrimSuffix(output, "\n"), "\n")...)
		}
	}
	if *rewrite {
		noError(t, os.WriteFile(path, []byte(strings.Join(result, "\n")+"\n"), 0o666))
	}
}

type scriptBlock struct {
	command string
	input   []string
	output  string
}

func cutBlock(lines []string) (b scriptBlock, rest []string) {
	b.command, lines = lines[0], lines[1:]
	for len(lines) > 0 && lines[0] != "----" {
		b.input, lines = append(b.input, lines[0]), lines[1:]
	}
	if len(lines) > 0 {
		lines = lines[1:]
	}
	for len(lines) > 0 && lines[0] != "" {
		b.output += lines[0] + "\n"
		lines = lines[1:]
	}
	return b, lines
}

// run runs the block and returns its output in the form of a script.
func (b *scriptBlock) run(t *testing.T) string {
	args, err := splitArgs(b.command)
	if err != nil {
		t.Fatalf("%s: %v", b.command, err)
	}
	var input strings.Builder
	for _, line := range b.input {
		input.WriteString(line + "\n")
	}
	masked := args[0] == "masked"
	if masked {
		args = args[1:]
	}
	out, err := command(args, input.String())
	if err != nil {
		t.Fatalf("%s: %v", b.command, err)
	}
	for _, m := range masks {
		if m.always || masked {
			out = m.pattern.ReplaceAllString(out, m.with)
		}
	}
	return quoteLines(out)
}

// masks hide what differs between runs or machines. In blocks that start with the word masked, they also
// hide numbers that depend on the design of the layouts.
var masks = []struct {
	always  bool
	pattern *regexp.Regexp
	with    string
}{
	{true, regexp.MustCompile(`\b[0-9a-f]{32}\b`), "UUID"},
	{true, regexp.MustCompile(`\.tmp-[0-9a-f]+`), ".tmp-N"},
	{true, regexp.MustCompile(`\b[0-9a-f]{16}(-[0-9]+)-[0-9a-f]{16}\b`), "N$1-N"},                  // a position
	{true, regexp.MustCompile(`\b(identity |shard-[0-9]{5}-of-[0-9]{5}-)[0-9a-f]{16}\b`), "${1}N"}, // depends on the keys and the layout
	{true, regexp.MustCompile(`-[0-9a-f]{8}\.built\b`), "-N.built"},                                // depends on the plan
	{true, regexp.MustCompile(`(?m)^in memory .*$`), "in memory       N"},
	{true, regexp.MustCompile(`\b(avx512|avx2|neon)\b`), "go"},
	{true, regexp.MustCompile(`(?m)^(state .*, generation )[0-9,]+$`), "${1}N"}, // one for each checkpoint; a slow machine makes fewer
	{true, regexp.MustCompile(`\bsalt 0x[0-9a-f]{9,}`), "salt N"},
	{false, regexp.MustCompile(`stash entry\b`), "stash entries"}, // there may be one
	{false, regexp.MustCompile(`0x[0-9a-f]+|[0-9]+(,[0-9]{3})*(\.[0-9]+)?(e-[0-9]+)?`), "N"},
}

func quoteLines(out string) string {
	var b strings.Builder
	for line := range strings.Lines(out) {
		text, complete := strings.CutSuffix(line, "\n")
		if text == "" || !complete || strings.TrimRight(text, " ") != text || strings.ContainsFunc(text, hidden) {
			text = strconv.Quote(text)
			if !complete {
				text += " (no newline)"
			}
		}
		b.WriteString(text + "\n")
	}
	return b.String()
}

// hidden reports whether r is invisible or stands for invalid bytes.
func hidden(r rune) bool { return !strconv.IsPrint(r) || r == utf8.RuneError }

// splitArgs splits a line at spaces. Text in double quotes is quoted as in Go.
func splitArgs(line string) (args []string, err error) {
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if line[0] != '"' {
			arg, rest, _ := strings.Cut(line, " ")
			args, line = append(args, arg), rest
			continue
		}
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			return nil, err
		}
		arg, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, err
		}
		args, line = append(args, arg), line[len(quoted):]
	}
	return args, nil
}

// command runs one command of a script.
func command(args []string, input string) (out string, err error) {
	for i, arg := range args {
		if found, _ := filepath.Glob(arg); len(found) == 1 { // a shard, whose name has a number that depends on its keys
			args[i] = found[0]
		}
	}
	name, args := args[0], args[1:]
	switch name {
	case "mmapfilter":
		return runTool(context.Background(), args, input)
	case "interrupted": // command: runs the program as if ^C had been typed at once
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return runTool(ctx, args[1:], input)
	case "later": // duration command: runs the command with a clock that is ahead by the duration
		ahead, err := time.ParseDuration(args[0])
		if err != nil {
			return "", err
		}
		defer runAhead(func() time.Duration { return ahead })()
		return command(args[1:], input)
	case "write": // file [text]: writes the text, or the input
		if len(args) == 2 {
			input = args[1]
		}
		return "", os.WriteFile(args[0], []byte(input), 0o666)
	case "cat": // files
		for _, arg := range args {
			data, err := os.ReadFile(arg)
			if err != nil {
				return "", err
			}
			out += string(data)
		}
		return out, nil
	case "seq": // [from] to file: writes the numbers from 1 or from to to
		last := len(args) - 2
		to, err := strconv.Atoi(args[last])
		from, err1 := 1, error(nil)
		if last > 0 {
			from, err1 = strconv.Atoi(args[0])
		}
		for i := from; i <= to; i++ {
			out += strconv.Itoa(i) + "\n"
		}
		return "", errors.Join(err, err1, os.WriteFile(args[last+1], []byte(out), 0o666))
	case "dead": // from to: adds keys to the filter from; the filter to becomes what a writer leaves that is killed then
		return "", leaveDead(args[0], args[1], input)
	case "held": // filter command: runs the command while the filter is open for writing
		filter, err := mmapfilter.Open(args[0], nil)
		if err != nil {
			return "", err
		}
		out, err := command(args[1:], input)
		return out, errors.Join(err, filter.Close())
	case "env": // NAME=VALUE command: runs the command with a variable in the environment
		name, value, _ := strings.Cut(args[0], "=")
		if err := os.Setenv(name, value); err != nil {
			return "", err
		}
		defer os.Unsetenv(name)
		return command(args[1:], input)
	case "link": // target name: creates a symbolic link
		return "", os.Symlink(args[0], args[1])
	case "mkdir":
		return "", os.Mkdir(args[0], 0o777)
	case "rm":
		return "", os.Remove(args[0])
	case "mv":
		return "", os.Rename(args[0], args[1])
	case "ls": // [directory]
		entries, err := os.ReadDir(append(args, ".")[0])
		for _, e := range entries {
			out += e.Name() + "\n"
		}
		return out, err
	}
	return fileCommand(name, args)
}

// runTool runs the program. "< file" redirects its standard input, and "> file" its standard
// output.
func runTool(ctx context.Context, args []string, input string) (string, error) {
	var stdin io.Reader = strings.NewReader(input)
	var target string
	for len(args) > 2 {
		n := len(args) - 2
		if args[n] == "<" {
			f, err := os.Open(args[n+1])
			if err != nil {
				return "", err
			}
			defer f.Close()
			stdin = f
		} else if args[n] == ">" {
			target = args[n+1]
		} else {
			break
		}
		args = args[:n]
	}
	var stdout, stderr bytes.Buffer
	exit := run(ctx, args, stdin, &stdout, &stderr)
	if target != "" {
		if err := os.WriteFile(target, stdout.Bytes(), 0o666); err != nil {
			return "", err
		}
		stdout.Reset()
	}
	if stdout.Len() > 0 && !bytes.HasSuffix(stdout.Bytes(), []byte("\n")) && stderr.Len()+exit > 0 {
		stdout.WriteByte('\n')
	}
	out := stdout.String() + stderr.String()
	if exit != 0 {
		out += fmt.Sprintf("[exit %d]\n", exit)
	}
	return out, nil
}

// fileCommand runs a command that changes a file or writes one from another.
func fileCommand(name string, args []string) (out string, err error) {
	data, err := os.ReadFile(args[0])
	if err != nil {
		return "", err
	}
	switch name {
	case "gzip": // from to: adds a member to a gzip file
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Name = args[0]
		z.Write(data)
		z.Close()
		return "", appendFile(args[1], b.Bytes())
	case "zstd": // from to: adds a frame to a zstd file
		z, err := zstd.NewWriter(nil, zstd.WithZeroFrames(true))
		if err != nil {
			return "", err
		}
		return "", appendFile(args[1], z.EncodeAll(data, nil))
	case "cut": // file n: cuts n bytes off the end
		n, err := strconv.Atoi(args[1])
		if err != nil {
			return "", err
		}
		return "", os.WriteFile(args[0], data[:len(data)-n], 0o666)
	case "flip": // file offset: inverts a byte
		n, err := strconv.Atoi(args[1])
		if err != nil {
			return "", err
		}
		data[n] ^= 0xff
		return "", os.WriteFile(args[0], data, 0o666)
	case "edit": // file old new: replaces a text
		if !bytes.Contains(data, []byte(args[1])) {
			return "", fmt.Errorf("%s is not in %s", args[1], args[0])
		}
		return "", os.WriteFile(args[0], bytes.Replace(data, []byte(args[1]), []byte(args[2]), 1), 0o666)
	case "same": // file file
		other, err := os.ReadFile(args[1])
		return strconv.FormatBool(bytes.Equal(data, other)) + "\n", err
	case "swap": // file file: swaps their contents
		other, err := os.ReadFile(args[1])
		return "", errors.Join(err, os.WriteFile(args[0], other, 0o666), os.WriteFile(args[1], data, 0o666))
	case "cp": // from to
		return "", os.WriteFile(args[1], data, 0o666)
	}
	return "", fmt.Errorf("no command %s", name)
}

// leaveDead adds keys to the filter at from; for the line (sync), it calls Sync. At to, it writes what a
// process that is killed then would leave of the filter and its log. The two paths may be equal.
func leaveDead(from, to, keys string) error {
	filter, err := mmapfilter.Open(from, &mmapfilter.OpenOptions{CommitInterval: -1, LogBytes: 128 << 10})
	if err != nil {
		return err
	}
	for key := range strings.Lines(keys) {
		if key == "(sync)\n" {
			err = errors.Join(err, filter.Sync())
		} else if err == nil {
			err = filter.Insert([]byte(strings.TrimSuffix(key, "\n")))
		}
	}
	data, readErr := os.ReadFile(from)
	log, logErr := os.ReadFile(from + ".stash")
	if err := errors.Join(err, readErr, logErr, filter.Close()); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(to, data, 0o666), os.WriteFile(to+".stash", log, 0o666))
}

func appendFile(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
