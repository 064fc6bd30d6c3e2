package readers

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// sources has the source of the readers: the tests here, and TestKill of tools/kill, build
// them from it.
//
//go:embed c/*.h c/*.c python/*.py js/*.mjs
var sources embed.FS

// Unpack writes the folders c, python and js below dir.
func Unpack(dir string) error { return os.CopyFS(dir, sources) }

// A Reader is a program of this package that joins TestKill.
type Reader struct {
	Language string
	Command  []string // which takes the commands o, s and x of the session of c/probe.c
}

// Stress builds the readers that join TestKill, in dir, which it creates. Where there is no C
// compiler or no Python, it returns fewer readers, and missing says what is not tested.
func Stress(dir string) (all []Reader, missing []string, err error) {
	if err := Unpack(dir); err != nil {
		return nil, nil, err
	}
	cc := compilerOf(dir)
	if cc == "" || runtime.GOOS == "windows" {
		return nil, []string{"readers in C and Python: there is no cc that builds programs"}, nil
	}
	program, library := filepath.Join(dir, "probe"), filepath.Join(dir, "python", "libmmapfilter.so")
	c := filepath.Join(dir, "c")
	if err := errors.Join(
		run(cc, "-std=c11", "-O2", filepath.Join(c, "probe.c"), "-o", program),
		run(cc, append(Library(filepath.Join(c, "mmapfilter.h")), "-o", library)...),
	); err != nil {
		return nil, nil, err
	}
	all = append(all, Reader{"C", []string{program, "session"}})
	python := pythonHere()
	if python == "" {
		return all, []string{"readers in Python: there is no python3 with ctypes"}, nil
	}
	return append(all, Reader{"Python", []string{python, "-B", filepath.Join(dir, "python", "probe.py")}}), nil, nil
}

// compilerOf returns cc, or "" if there is no cc or if it cannot build a program, since the headers
// of the system may be missing. It leaves an empty program in dir.
func compilerOf(dir string) string {
	cc, err := exec.LookPath("cc")
	source := filepath.Join(dir, "empty.c")
	if err != nil || os.WriteFile(source, []byte("#include <stdio.h>\nint main(void) { return 0; }\n"), 0o666) != nil ||
		run(cc, source, "-o", filepath.Join(dir, "empty")) != nil {
		return ""
	}
	return cc
}

// pythonHere returns python3, or "" if there is no python3 or if it lacks a standard module: a
// minimal Python may have no ctypes, and python3 may be a stub.
func pythonHere() string {
	python, err := exec.LookPath("python3")
	if err != nil || run(python, "-c", "import ctypes, mmap, unittest") != nil {
		return ""
	}
	return python
}

// Library returns the arguments with which the compiler makes the shared object of the header,
// without its name.
func Library(header string) []string {
	return []string{"-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-DMMF_IMPLEMENTATION", "-x", "c", header}
}

func run(program string, args ...string) error {
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %q: %w: %s", program, args, err, out)
	}
	return nil
}
