package main

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A serveRun measures "mmapfilter serve" beside redis-server, which keeps a set in memory.
type serveRun struct {
	*session
	requests, keys, filters int
	filterKeys              int64
	program                 string
}

// newServe returns the command that measures the server. It needs the programs of the Debian
// packages redis-server and redis-tools.
func newServe(s *session) command {
	v := &serveRun{session: s}
	s.rounds = 5
	s.flags.IntVar(&v.requests, "requests", 200_000, "how many requests a turn of redis-benchmark has with -P 16; other turns have fewer or more")
	s.flags.IntVar(&v.keys, "keys", 100_000_000, "how many keys are in the filter and in the set whose memory is measured")
	s.flags.IntVar(&v.filters, "filters", 10, "how many filters the server has when it is killed and started again")
	s.flags.Int64Var(&v.filterKeys, "filter-keys", 850_000_000, "capacity of each of these filters")
	return command{map[string]string{"rounds": "1", "requests": "400", "keys": "10000", "filters": "2", "filter-keys": "100000"}, v.run}
}

func (v *serveRun) run() error {
	for _, name := range []string{"redis-server", "redis-benchmark", "taskset"} {
		if _, err := exec.LookPath(name); err != nil {
			return err
		}
	}
	v.program = v.path("mmapfilter")
	build := exec.Command("go", "build", "-C", "../..", "-o", v.program, "./tools/mmapfilter")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	return errors.Join(v.rates(), v.memory(), v.restart())
}

// A server is a process that speaks the protocol of Redis, on a socket in its directory.
type server struct {
	cmd    *exec.Cmd
	socket string
	conn   net.Conn
	in     *bufio.Reader
	out    *bufio.Writer
}

// start starts a server and waits until it answers. The argument cores is a list for taskset.
func (v *serveRun) start(name, cores string) (s *server, err error) {
	dir := v.path(name)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	s = &server{socket: filepath.Join(dir, "socket")}
	args := []string{"-c", cores, v.program, "serve", "--dir", dir, "--listen", "none", "--unix", s.socket}
	if strings.HasPrefix(name, "redis") {
		args = []string{"-c", cores, "redis-server", "--dir", dir, "--port", "0", "--unixsocket", s.socket, "--save", "", "--appendonly", "no"}
	}
	s.cmd = exec.Command("taskset", args...)
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for begun := time.Now(); time.Since(begun) < 10*time.Second; time.Sleep(100 * time.Microsecond) {
		if s.conn, err = net.Dial("unix", s.socket); err == nil {
			s.in, s.out = bufio.NewReader(s.conn), bufio.NewWriterSize(s.conn, 1<<16)
			return s, nil
		}
	}
	return nil, errors.Join(err, s.end(os.Kill))
}

func (s *server) end(signal os.Signal) error {
	if s.conn != nil {
		s.conn.Close()
	}
	s.cmd.Process.Signal(signal)
	if err := s.cmd.Wait(); err != nil && signal != os.Kill {
		return err
	}
	return nil
}

// do sends a command and returns its reply.
func (s *server) do(words ...string) (string, error) {
	s.send(words...)
	return s.reply()
}

// send keeps a command, whose words have no spaces, until reply sends it.
func (s *server) send(words ...string) {
	fmt.Fprintf(s.out, "*%d\r\n", len(words))
	for _, w := range words {
		s.out.WriteString("$" + strconv.Itoa(len(w)) + "\r\n" + w + "\r\n")
	}
}

// reply returns the first line of a reply, and skips the rest of an array of numbers.
func (s *server) reply() (string, error) {
	if err := s.out.Flush(); err != nil {
		return "", err
	}
	reply, err := s.in.ReadString('\n')
	if err == nil && reply[0] == '-' {
		err = errors.New(reply)
	}
	if n, array := strings.CutPrefix(strings.TrimSpace(reply), "*"); array {
		count, _ := strconv.Atoi(n)
		for range count {
			if _, err := s.in.ReadSlice('\n'); err != nil {
				return "", err
			}
		}
	}
	return strings.TrimSpace(reply), err
}

// memory puts keys into a filter and into a set, both at once to save time, and prints what the servers
// use then.
func (v *serveRun) memory() error {
	v.note("%d keys", v.keys)
	names := map[string]string{"redis": "redis-server, SADD", "filters": "mmapfilter serve, CF.INSERT"}
	servers, filled := map[string]*server{}, make(chan error)
	var errs []error
	for name := range names {
		s, err := v.start(name, "0-1")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		servers[name] = s
		go func() { filled <- v.fill(s, name) }()
	}
	for range servers {
		errs = append(errs, <-filled)
	}
	t := NewTable(fmt.Sprintf("%s keys of 16 bytes", Grouped(int64(v.keys))), "private memory", "of files, which the kernel can drop", "files")
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		s := servers[name]
		anon, err := status(s.cmd.Process.Pid, "RssAnon")
		file, err2 := status(s.cmd.Process.Pid, "RssFile")
		errs = append(errs, err, err2, s.end(syscall.SIGTERM))
		t.Row(names[name], Mebibytes(anon), Mebibytes(file), Mebibytes(bytesOf(v.path(name+"/*.mmf*"))))
	}
	v.print(t)
	return errors.Join(errs...)
}

// fill adds keys, a thousand a command and ten commands at a time.
func (v *serveRun) fill(s *server, name string) error {
	command := []string{"SADD", "set"}
	if name == "filters" {
		command = []string{"CF.INSERT", "set", "ITEMS"}
		if _, err := s.do("CF.RESERVE", "set", strconv.Itoa(v.keys)); err != nil {
			return err
		}
	}
	waiting := 0
	for start := 0; start < v.keys; start += 1000 {
		words := command
		for i := range min(1000, v.keys-start) {
			words = append(words, fmt.Sprintf("key:%012d", start+i))
		}
		s.send(words...)
		for waiting++; waiting == 10 || waiting > 0 && start+1000 >= v.keys; waiting-- {
			if _, err := s.reply(); err != nil {
				return err
			}
		}
		if err := v.ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// restart kills a server that has filters open. It measures the time from the start of the next
// server until that has answered a lookup in one of the filters, and in each of them.
func (v *serveRun) restart() error {
	v.note("%d filters of %d keys", v.filters, v.filterKeys)
	s, err := v.start("many", "0-1")
	if err != nil {
		return err
	}
	for i := range v.filters {
		key := fmt.Sprint("k", i)
		_, err := s.do("CF.RESERVE", key, strconv.FormatInt(v.filterKeys, 10))
		if err == nil {
			_, err = s.do("CF.ADD", key, "item")
		}
		if err != nil {
			return errors.Join(err, s.end(os.Kill))
		}
	}
	var first, all []time.Duration
	for range v.rounds {
		if err := s.end(os.Kill); err != nil {
			return err
		}
		begun := time.Now()
		if s, err = v.start("many", "0-1"); err != nil {
			return err
		}
		for i := range v.filters {
			if reply, err := s.do("CF.EXISTS", fmt.Sprint("k", i), "item"); err != nil || reply != ":1" {
				return errors.Join(fmt.Errorf("an item is missing: %s, %v", reply, err), s.end(os.Kill))
			}
			if i == 0 {
				first = append(first, time.Since(begun))
			}
		}
		all = append(all, time.Since(begun))
	}
	t := NewTable(fmt.Sprintf("after kill -9, %d filters of %s in all", v.filters, Mebibytes(bytesOf(v.path("many/*.mmf*")))), "time")
	t.Row("until an answer about one", Brief(Median(first)))
	t.Row("until one about each", Brief(Median(all)))
	v.print(t)
	return s.end(syscall.SIGTERM)
}
