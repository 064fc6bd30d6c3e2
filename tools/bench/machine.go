package main

import (
	"cmp"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// head returns the Markdown text above the tables of a command: the command, as it is run in the
// root of the repository; when, on which machine and at which commit it ran; and the file system of
// dir, which has the files of the run.
func head(command, dir string) string {
	cpu, _ := procFile("cpuinfo")
	info, _ := procFile("meminfo")
	memory, _ := field(info, "MemTotal")
	release, _ := procFile("sys/kernel/osrelease")
	cores := "1 core"
	if n := runtime.NumCPU(); n != 1 {
		cores = fmt.Sprintf("%d cores", n)
	}
	return fmt.Sprintf("    %s\n\n%s, %s, %s; %.1f GiB of memory; Linux %s; %s; commit %s; files on %s\n", command,
		time.Now().Format(time.DateOnly), cmp.Or(textOf(cpu, "model name"), runtime.GOARCH), cores, float64(memory)/(1<<30),
		strings.TrimSpace(release), runtime.Version(), cmp.Or(commitOf("."), "not recorded"), cmp.Or(mountOf(dir).kind, "a file system that is not known"))
}

// commitOf names the commit of a work tree, and says whether files differ from the commit.
// Results that a run writes do not count as changes, nor do files that Git ignores.
func commitOf(dir string) string {
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	commit, err := git("rev-parse", "--short=12", "HEAD")
	if err != nil {
		return ""
	}
	changes, err := git("status", "--porcelain", "--", ":/",
		":(exclude,top)tools/bench/RESULTS.md", ":(exclude,top)tools/bench/PAPER.md", ":(exclude,top,glob)tools/bench/*.csv", ":(exclude,top,glob)tools/bench/*.svg")
	if err != nil || changes != "" {
		commit += " + changes"
	}
	return commit
}

// shellWords quotes arguments for a shell.
func shellWords(args []string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		if words[i] = arg; arg == "" || strings.ContainsAny(arg, " ()'\"$&;<>*?|\\`#~") {
			words[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}
