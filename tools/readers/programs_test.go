package readers

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBuilds builds the shared object, and a program in C++ that looks up keys. There must be no
// warnings.
func TestBuilds(t *testing.T) {
	header := filepath.Join(scratch, "c", "mmapfilter.h")
	source := filepath.Join(scratch, "example.cc")
	if err := os.WriteFile(source, []byte(`#define MMF_IMPLEMENTATION
#include "c/mmapfilter.h"
#include <string_view>

int main(int argc, char **argv) {
	mmf_filter *f = nullptr;
	if (argc < 2 || mmf_open(argv[1], &f) < 0)
		return 2;
	constexpr std::string_view key = "key 388", other = "";
	int maybe = mmf_contains(f, key.data(), key.size()) + mmf_contains(f, other.data(), 0);
	maybe += mmf_shards(f, nullptr);
	mmf_close(f);
	return maybe == 2 ? 0 : 1;
}
`), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, v := range variants(t) {
		args := append(strings.Fields(warnings), Library(header)...)
		if err := run(v.compiler, append(args, "-o", filepath.Join(t.TempDir(), "lib.so"))...); err != nil {
			t.Error(err)
		}
		program := filepath.Join(scratch, "example")
		if run(v.compiler, "-x", "c++", "-std=c++17", "-fsyntax-only", "-include", "string_view", os.DevNull) != nil {
			shout("%s does not compile C++ here", v.compiler)
			continue
		}
		if err := run(v.compiler, append(strings.Fields(strings.Replace(warnings, "c11", "c++17", 1)), "-O2", source, "-o", program)...); err != nil {
			t.Error(err)
		} else if err := run(program, "../../testdata/compact-q41.mmf"); err != nil {
			t.Error(err)
		}
	}
}

// TestMacros builds programs whose feature macros ask for less of the system than the header needs. A
// program must work, or the compiler must say what to do.
func TestMacros(t *testing.T) {
	const include, other = "#define MMF_IMPLEMENTATION\n#include \"c/mmapfilter.h\"\n", "#include <stdio.h>\n"
	const body = "int main(int argc, char **argv) { mmf_filter *f; return argc < 2 || mmf_open(argv[1], &f) < 0; }\n"
	source, program := filepath.Join(scratch, "macros.c"), filepath.Join(scratch, "macros")
	for _, v := range variants(t) {
		for _, flags := range []string{"-std=c11", "-std=c11 -D_POSIX_C_SOURCE=200809L"} {
			for _, text := range []string{include + other + body, other + include + body} {
				must(t, os.WriteFile(source, []byte(text), 0o666))
				err := run(v.compiler, append(strings.Fields(flags), source, "-o", program)...)
				if err == nil {
					err = run(program, "../../testdata/compact-q41.mmf")
				} else if strings.HasPrefix(text, other) && strings.Contains(err.Error(), "before any other header") {
					continue
				}
				if err != nil {
					t.Errorf("%s: %v", flags, err)
				}
			}
		}
	}
}

// TestOtherMachines checks that the header does not compile for machines that cannot read the words of a
// file as they are, and that the compiler says why.
func TestOtherMachines(t *testing.T) {
	cc := compiler(t)
	args := append(Library(filepath.Join(scratch, "c", "mmapfilter.h")), "-fsyntax-only", "-w")
	must(t, run(cc, args...))
	for _, flags := range []string{"-U__SIZEOF_INT128__", "-U__SIZEOF_POINTER__ -D__SIZEOF_POINTER__=4", "-U__BYTE_ORDER__ -D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__"} {
		if err := run(cc, append(args, strings.Fields(flags)...)...); err == nil || !strings.Contains(err.Error(), "needs a 64-bit little-endian machine") {
			t.Errorf("%s: %.1000v", flags, err)
		}
	}
}

// TestMake runs the Makefile.
func TestMake(t *testing.T) {
	compiler(t)
	if _, err := exec.LookPath("make"); err != nil {
		notTested(t, "the Makefile: there is no make")
	}
	dir := t.TempDir()
	must(t, Unpack(dir))
	copyFile(t, "c/Makefile", filepath.Join(dir, "c", "Makefile"))
	must(t, run("make", "-C", filepath.Join(dir, "c")))
	for _, name := range []string{"libmmapfilter.so", "mmfcheck"} {
		if _, err := os.Stat(filepath.Join(dir, "c", name)); err != nil {
			t.Error(err)
		}
	}
}

// TestCheck compares mmfcheck with "mmapfilter check".
func TestCheck(t *testing.T) {
	v := variant{compiler(t), plain}
	dir := t.TempDir()
	command, mmfcheck := filepath.Join(dir, "mmapfilter"), program(t, "mmfcheck", v)
	must(t, run("go", "build", "-o", command, "../mmapfilter"))
	filter := filepath.Join(dir, "x.mmf")
	var keys strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&keys, "key %d\n", i)
	}
	keys.WriteString("k\n\x1f\x8bxx\n")
	build := exec.Command(command, "build", "-o", filter)
	build.Stdin = strings.NewReader(keys.String())
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	hexed := filepath.Join(dir, "hex.mmf")
	build = exec.Command(command, "build", "--hex", "-o", hexed)
	build.Stdin = strings.NewReader("00ff\n")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	dead := filepath.Join(dir, "dead.mmf")
	copyFile(t, "../../testdata/live/halves.mmf", dead)
	copyFile(t, "../../testdata/live/halves.mmf.stash", dead+".stash")

	asked := func(program string, args []string, in string) (out string, status int) {
		cmd := exec.Command(program, args...)
		cmd.Stdin = strings.NewReader(in)
		text, err := cmd.Output()
		if ended := new(exec.ExitError); err != nil && !errors.As(err, &ended) {
			t.Fatal(err)
		}
		return string(text), cmd.ProcessState.ExitCode()
	}
	long := strings.Repeat("x", 1<<18)
	statuses := map[int]int{}
	for _, in := range []string{"", "\n", "key 5", "key 5\n", "nothing\n", "nothing", "key 1\nnothing\nkey 2", "\n\nkey 7\r\nkey 7\n\n", keys.String() + "none\n" + long + "\nkey 9\n" + long} {
		for _, flags := range [][]string{nil, {"-v"}, {"-c"}, {"-q"}, {"-n"}, {"-v", "-c"}, {"-q", "-c"}, {"-n", "-v"}, {"-q", "-v"}} {
			for _, path := range []string{filter, filepath.Join(dir, "none"), "readers_test.go", dead} {
				want, status := asked(command, append(append([]string{"check"}, flags...), path), in)
				got, gotStatus := asked(mmfcheck, append(flags[:len(flags):len(flags)], path), in)
				statuses[status]++
				if got != want || gotStatus != status {
					t.Errorf("%q %s, input %.40q: status %d and %.80q, not %d and %.80q", flags, path, in, gotStatus, got, status, want)
				}
				if path == dead {
					break
				}
			}
			if in != "" {
				break
			}
		}
	}
	for _, flags := range [][]string{{"-v"}, {"-c"}, {"-q"}, {"-n"}, {"-v", "-c"}, {"-q", "-c"}, {"-n", "-v"}, {"-q", "-v"}} {
		in := "nothing\n" + keys.String() + "none\n" + long
		want, status := asked(command, append(append([]string{"check"}, flags...), filter), in)
		if got, gotStatus := asked(mmfcheck, append(flags, filter), in); got != want || gotStatus != status {
			t.Errorf("%q: status %d and %.80q, not %d and %.80q", flags, gotStatus, got, status, want)
		}
	}
	if statuses[0] == 0 || statuses[1] == 0 || statuses[2] == 0 {
		t.Errorf("statuses %v", statuses)
	}
	// mmfcheck refuses a filter with a key format that it does not know, because it would miss keys.
	if _, status := asked(mmfcheck, []string{hexed}, "00ff\n"); status != 2 {
		t.Errorf("keys in hex: status %d", status)
	}
	// Packed input is refused, and no other input.
	for _, in := range []string{"\x1f\x8b\x08\x00packed", "\x1f\x8b", "\x1f\x8b\nkey 1", "\x28\xb5\x2f\xfdx", "\x5a\x2a\x4d\x18\nkey 1\n", "\x28\xb5\x2f", "\x1f", "\x1fkey 1\nkey 1\n", "\x50\x2a\nkey 1\n"} {
		want, status := asked(command, []string{"check", "-n", filter}, in)
		if got, gotStatus := asked(mmfcheck, []string{"-n", filter}, in); got != want || gotStatus != status {
			t.Errorf("%q: status %d and %q, not %d and %q", in, gotStatus, got, status, want)
		}
	}
	// A closed standard input has no keys.
	if got, status := asked("sh", []string{"-c", `exec "$0" -v "$1" <&-`, mmfcheck, filter}, ""); got != "" || status != 1 {
		t.Errorf("standard input is closed: status %d and %.40q", status, got)
	}
	// An answer comes before the next line is typed.
	cmd := exec.Command(mmfcheck, filter)
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	for _, key := range []string{"k\n", "\x1f\x8bxx\n"} { // only the first line can mean that the input is packed
		fmt.Fprint(in, key)
		line := make([]byte, len(key))
		if n, err := out.Read(line); err != nil || string(line[:n]) != key {
			t.Errorf("%q, %v", line[:n], err)
		}
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// python returns the interpreter and a library for it.
func python(t *testing.T) (interpreter, library string) {
	t.Helper()
	cc := compiler(t)
	if interpreter = pythonHere(); interpreter == "" {
		notTested(t, "the reader in Python: there is no python3 with ctypes")
	}
	library = filepath.Join(scratch, "libmmapfilter.so")
	must(t, run(cc, append(Library(filepath.Join(scratch, "c", "mmapfilter.h")), "-o", library)...))
	return interpreter, library
}

// TestPython runs the tests of the module.
func TestPython(t *testing.T) {
	interpreter, library := python(t)
	cmd := exec.Command(interpreter, "-B", "-c", fmt.Sprintf("import mmapfilter, unittest; mmapfilter.load(%q); unittest.main(module='test_mmapfilter', verbosity=2)", library))
	cmd.Dir = "python"
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("\nOK")) {
		t.Errorf("%v: %s", err, out)
	}
	if bytes.Contains(out, []byte("NOT TESTED: numpy")) {
		shout("arrays of numpy in Python: there is no numpy")
	}
	t.Logf("%s", out)
}

// TestMissing checks that TestKill of tools/kill runs without a compiler or an interpreter that is
// installed but does not work.
func TestMissing(t *testing.T) {
	cc := compiler(t)
	dir, path := t.TempDir(), os.Getenv("PATH")
	broken := func(name string) {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\nexit 127\n"), 0o777))
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+path)
	broken("python3")
	if all, missing, err := Stress(t.TempDir()); err != nil || len(all) != 1 || len(missing) != 1 {
		t.Errorf("%s, and a broken python3: %v, %q, %v", cc, all, missing, err)
	}
	broken("cc")
	if all, missing, err := Stress(t.TempDir()); err != nil || len(all) != 0 || len(missing) != 1 {
		t.Errorf("a broken cc: %v, %q, %v", all, missing, err)
	}
}
