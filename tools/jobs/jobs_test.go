//go:build unix

package jobs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// program is the command mmapfilter, built once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "jobs")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "mmapfilter")
	out, err := exec.Command("go", "build", "-o", path, "../mmapfilter").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	status := m.Run()
	if path, err := program(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(status)
}

// must ends the test if err is not nil.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

const plan = "-n 10k -p 0.001"

// A world is a directory with three files of keys. Some keys are in two of the files.
type world struct {
	*testing.T
	here, dir, mmf string
}

func newWorld(t *testing.T, tools ...string) *world {
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("NOT TESTED: %v", err)
		}
	}
	here, err := os.Getwd()
	must(t, err)
	mmf, err := program()
	must(t, err)
	w := &world{t, here, t.TempDir(), mmf}
	w.keys("a", 0, 3000)
	w.keys("b", 2500, 6000)
	w.keys("c", 6000, 9000)
	return w
}

func (w *world) keys(name string, from, to int) {
	var text strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintln(&text, i)
	}
	must(w, os.WriteFile(filepath.Join(w.dir, name), []byte(text.String()), 0o666))
}

// try runs a command in the directory and returns its output, and whether it succeeded.
func (w *world) try(name string, args ...string) (string, bool) {
	cmd := exec.Command(name, args...)
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "MMF="+w.mmf, "MAKEFLAGS=", "JOBS=3")
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

func (w *world) run(name string, args ...string) string {
	w.Helper()
	out, ok := w.try(name, args...)
	if !ok {
		w.Fatalf("%s %v: %s", name, args, out)
	}
	return out
}

// same compares a set with the one that the command build builds from files of keys.
func (w *world) same(set string, shards int, files ...string) {
	w.Helper()
	ref := w.TempDir()
	args := append([]string{"build", "-q", "-n", "10k", "-p", "0.001", "--shards", fmt.Sprint(shards), "-o", filepath.Join(ref, filepath.Base(set))}, files...)
	w.run(w.mmf, args...)
	entries, err := os.ReadDir(ref)
	if err != nil || len(entries) != shards+1 {
		w.Fatal(entries, err)
	}
	for _, e := range entries {
		want, err := os.ReadFile(filepath.Join(ref, e.Name()))
		must(w, err)
		got, err := os.ReadFile(filepath.Join(w.dir, filepath.Dir(set), e.Name()))
		if err != nil || !bytes.Equal(got, want) {
			w.Errorf("%s has other bytes: %v", e.Name(), err)
		}
	}
}

// TestMake builds a set with make, and again after each change.
func TestMake(t *testing.T) {
	w := newWorld(t, "make", "seq", "cmp")
	makeSet := func(keys string, more ...string) string {
		w.Helper()
		return w.run("make", append([]string{"-f", filepath.Join(w.here, "Makefile"), "-j3", "SET=out/x.set", "SHARDS=5", "PLAN=" + plan, "KEYS=" + keys}, more...)...)
	}
	makeSet("a b c")
	w.same("out/x.set", 5, "a", "b", "c")
	if out := makeSet("a b c"); strings.Contains(out, "mmapfilter set") {
		t.Errorf("a task has run, although nothing has changed: %s", out)
	}
	w.keys("b", 2500, 6100)
	if out := makeSet("a b c"); strings.Contains(out, "--task a") || !strings.Contains(out, "--task b") {
		t.Errorf("b has changed: %s", out)
	}
	w.same("out/x.set", 5, "a", "b", "c")
	if err := os.Remove(filepath.Join(w.dir, "out/x.work/spool/c.task")); err != nil { // as if the task had been killed
		t.Fatal(err)
	}
	makeSet("a b")
	w.same("out/x.set", 5, "a", "b")
	makeSet("a b c")
	w.same("out/x.set", 5, "a", "b", "c")
	must(t, os.Remove(filepath.Join(w.dir, "out/x.work/spool/a.task")))
	makeSet("a b c")
	w.same("out/x.set", 5, "a", "b", "c")
	makeSet("a b c", "PLAN="+plan+" --seed 7")
	if out := w.run(w.mmf, "verify", "out/x.set"); !strings.Contains(out, "damage  none") {
		t.Error(out)
	}
	makeSet("a b c")
	w.same("out/x.set", 5, "a", "b", "c")
	if out, ok := w.try("make", "-f", filepath.Join(w.here, "Makefile"), "SET=out/x.set", "KEYS=a out/../a"); ok {
		t.Errorf("make accepts two key files with one name: %s", out)
	}
}

// TestXargs builds a set, after a first try in which a task fails.
func TestXargs(t *testing.T) {
	w := newWorld(t, "sh", "xargs", "seq", "getconf")
	script := filepath.Join(w.here, "xargs.sh")
	if out, ok := w.try(script, "out/x.set", "5", plan, "a", "b", "missing"); ok || !strings.Contains(out, "missing: no such file") {
		t.Fatal(out)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "out/x.set")); err == nil {
		t.Fatal("there is a manifest, although a task has failed")
	}
	for range 2 {
		w.run(script, "out/x.set", "5", plan, "a", "b", "c")
		w.same("out/x.set", 5, "a", "b", "c")
	}
	if out, ok := w.try(script, "out/x.set", "5", plan, "a", "b"); ok || !strings.Contains(out, "it has 3 tasks, not 2") {
		t.Errorf("the spool has a task too many: %s", out)
	}
}

// A pipe is the process that Spark starts for a partition. It reads the lines that spark.lines yields.
type pipe struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	errs  bytes.Buffer
}

// TestSparkPipe runs the command of spark.py and feeds it the lines of spark.py, as Spark does.
func TestSparkPipe(t *testing.T) {
	w := newWorld(t, "python3", "sh")
	w.run(w.mmf, "set", "plan", "-q", "-n", "10k", "-p", "0.001", "--shards", "5", "-o", "plan")
	driver := `
import sys, json, shlex
sys.path.insert(0, sys.argv[1])
import spark
print(json.dumps({
    "command": shlex.split(spark.command(sys.argv[2], sys.argv[3], sys.argv[4])), # as RDD.pipe splits it
    "lines": [list(spark.lines(i, open(name).read().splitlines())) for i, name in enumerate(sys.argv[5:])]}))`
	spool := filepath.Join(w.dir, "spool")
	out := w.run("python3", "-B", "-c", driver, w.here, filepath.Join(w.dir, "plan"), spool, w.mmf, "a", "b", "c")
	var contract struct {
		Command []string
		Lines   [][]string
	}
	if err := json.Unmarshal([]byte(out), &contract); err != nil || len(contract.Lines) != 3 {
		t.Fatal(err, out)
	}
	start := func() *pipe {
		p := &pipe{cmd: exec.Command(contract.Command[0], contract.Command[1:]...)}
		p.cmd.Env = []string{} // RDD.pipe of Python passes nothing but its env
		p.cmd.Stderr = &p.errs
		var err error
		if p.stdin, err = p.cmd.StdinPipe(); err == nil {
			err = p.cmd.Start()
		}
		must(t, err)
		return p
	}
	feed := func(p *pipe, lines []string) { io.WriteString(p.stdin, strings.Join(lines, "\n")+"\n") }
	end := func(p *pipe, want bool) {
		t.Helper()
		p.stdin.Close()
		if err := p.cmd.Wait(); (err == nil) != want {
			t.Errorf("%v, %s", err, &p.errs)
		}
	}
	for i, lines := range contract.Lines {
		// If an executor dies, or the input of the partition fails, the pipe is closed.
		for _, n := range [][]int{{0, 1}, {2, len(lines) / 2}, {len(lines) - 1}}[i] {
			p := start()
			feed(p, lines[:n])
			end(p, false)
		}
		if left, _ := filepath.Glob(filepath.Join(spool, fmt.Sprintf("spark-%05d*", i))); len(left) > 0 {
			t.Fatalf("closed pipes have left %v", left)
		}
		// Four processes run the same partition: one is killed first, and one ends. After that, another
		// is killed, and the last one ends, too.
		killed, slow, slower := start(), start(), start()
		feed(killed, lines[:len(lines)/2])
		killed.cmd.Process.Kill()
		end(killed, false)
		feed(slow, lines[:len(lines)/2])
		feed(slower, lines[:len(lines)/2])
		fast := start()
		feed(fast, lines)
		end(fast, true)
		slow.cmd.Process.Kill()
		end(slow, false)
		feed(slower, lines[len(lines)/2:])
		end(slower, true)
	}
	if whole, err := filepath.Glob(filepath.Join(spool, "spark-?????.*[lk]")); err != nil || len(whole) != 6 { // killed processes leave other files
		t.Errorf("%v, %v", whole, err)
	}
	w.run(w.mmf, "set", "build", "-q", "--plan", "plan", "--shard", "0-4", "--spool", "spool", "--out", "out")
	w.run(w.mmf, "set", "assemble", "--tasks", "3", "--plan", "plan", "--spool", "spool", "--out", "out", "-o", "out/x.set")
	w.same("out/x.set", 5, "a", "b", "c")
}

// TestKubernetes runs the commands of kubernetes.yaml with fewer keys, files and shards. It runs each
// index twice at the same time.
func TestKubernetes(t *testing.T) {
	w := newWorld(t, "kubectl")
	out, err := exec.Command("kubectl", "annotate", "--local", "-f", "kubernetes.yaml", "a=b", "-o", "json").Output()
	if err != nil {
		t.Skipf("NOT TESTED: kubectl does not read files here: %v", err)
	}
	must(t, os.Mkdir(filepath.Join(w.dir, "keys"), 0o777))
	fewer := map[int]int{200: 12, 64: 7}
	replaced := map[string]string{"/mmapfilter": w.mmf, "2B": "10k", "64": "7", "--tasks=200": "--tasks=12"}
	var stages, files []string
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var job struct {
			Kind     string
			Metadata struct{ Labels struct{ Stage string } }
			Spec     struct {
				CompletionMode string
				Completions    int
				Template       struct {
					Spec struct {
						Containers []struct{ Command []string }
					}
				}
			}
		}
		must(t, d.Decode(&job))
		stage := job.Metadata.Labels.Stage
		stages = append(stages, stage)
		n := 1
		if job.Spec.CompletionMode == "Indexed" {
			if n = fewer[job.Spec.Completions]; n == 0 {
				t.Fatalf("%s has %d completions", stage, job.Spec.Completions)
			}
		}
		if stage == "partition" {
			for i := range n {
				files = append(files, filepath.Join("keys", fmt.Sprintf("part-%d.gz", i)))
				w.keys(files[i], 40*i, 40*i+50)
			}
		}
		command := job.Spec.Template.Spec.Containers[0].Command
		for i := range n {
			args := slices.Clone(command)
			for k, arg := range args {
				arg = strings.ReplaceAll(arg, "$(JOB_COMPLETION_INDEX)", fmt.Sprint(i))
				if args[k] = replaced[arg]; args[k] == "" {
					args[k] = strings.ReplaceAll(arg, "/sets/", w.dir+"/")
				}
			}
			var twice sync.WaitGroup
			for range 2 {
				twice.Add(1)
				go func() {
					defer twice.Done()
					if out, ok := w.try(args[0], args[1:]...); !ok {
						t.Errorf("%v: %s", args, out)
					}
				}()
			}
			twice.Wait()
		}
	}
	if want := []string{"plan", "partition", "build", "assemble"}; !slices.Equal(stages, want) {
		t.Errorf("the stages are %v", stages)
	}
	w.same("out/users.set", 7, files...)
}

// TestSyntax checks the syntax of the scripts, since not all machines can run them all.
func TestSyntax(t *testing.T) {
	w := newWorld(t)
	for _, check := range [][]string{{"bash", "-n", "slurm.sh"}, {"sh", "-n", "xargs.sh"}, {"python3", "-c", "import ast; ast.parse(open('spark.py').read())"}} {
		if _, err := exec.LookPath(check[0]); err != nil {
			t.Logf("NOT TESTED: %v", err)
			continue
		}
		cmd := exec.Command(check[0], check[1:]...)
		cmd.Dir = w.here
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", check, out)
		}
	}
}
