package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/mmapfilter/mmapfilter/tools/internal/server"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const serveHelp = `Serve the filters in DIR to clients of Redis. The CF.* and BF.* commands reply
as RedisBloom does; the other commands that clients send work too. Each key is a
filter in the file KEY.mmf in DIR, which other processes may read meanwhile.

Once the server has replied to a write, the write survives the death of the
server. It also survives a power loss at most a second later, or at once with
--appendfsync always or after WAITAOF. A signal or SHUTDOWN ends the server.

Each line of the --config FILE is a flag without the dashes, such as
"maxclients 100". Flags on the command line override it.`

// A serveCommand holds the flags of serve.
type serveCommand struct {
	server.Config
	listen, unix, passwordFile, appendfsync, config string
	open                                            bool
}

func newServeCommand() *cobra.Command {
	c := new(serveCommand)
	cmd := &cobra.Command{Use: "serve --dir DIR", Short: "serve filters to clients of Redis", Long: serveHelp, Args: noArgument, RunE: c.run,
		Example: "mmapfilter serve --dir /var/lib/mmapfilter"}
	flags := cmd.Flags()
	flags.StringVar(&c.Dir, "dir", "", "directory `DIR` of the filters; it must exist")
	flags.StringVar(&c.listen, "listen", "127.0.0.1:6379", "`ADDRESS` to listen on, or none")
	flags.StringVar(&c.unix, "unix", "", "also listen on the Unix socket `PATH`")
	flags.StringVar(&c.passwordFile, "requirepass-file", "", "ask clients for a password, the first line of `FILE`")
	flags.BoolVar(&c.open, "no-password", false, "let --listen name an address that other machines reach, without a password")
	flags.IntVar(&c.MaxClients, "maxclients", 0, "serve at most `N` clients at once (10000, or half of the descriptors)")
	flags.Float64Var(&c.Rate, "rate", 0.01, "share `P` of absent items that a new filter may answer \"maybe\" for, if the client gives none")
	flags.StringVar(&c.appendfsync, "appendfsync", "everysec", "`WHEN` to make writes durable: everysec, or always, which is before the reply")
	flags.StringVar(&c.config, "config", "", "read flags from `FILE`")
	return cmd
}

func (c *serveCommand) run(cmd *cobra.Command, _ []string) error {
	if err := readConfig(cmd.Flags(), c.config); err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	c.Version = version(debug.ReadBuildInfo())
	c.Logf = func(format string, args ...any) {
		fmt.Fprintf(cmd.ErrOrStderr(), "mmapfilter: "+format+"\n", args...)
	}
	listeners, err := c.listeners()
	if err != nil {
		return err
	}
	s, err := server.New(c.Config)
	if err != nil {
		for _, l := range listeners {
			l.Close()
		}
		return err
	}
	for _, l := range listeners {
		go s.Serve(l)
		fmt.Fprintln(cmd.OutOrStdout(), "listening on", l.Addr())
	}
	select {
	case <-s.Down():
	case <-cmd.Context().Done():
	}
	return s.Close()
}

// check checks the flags, and reads the password.
func (c *serveCommand) check() error {
	switch {
	case c.Dir == "":
		return errors.New("serve needs --dir, the directory of the filters")
	case !(c.Rate > 0 && c.Rate < 1):
		return errors.New("--rate must be a number between 0 and 1, such as 0.001")
	case c.MaxClients < 0:
		return errors.New("--maxclients must be at least 1")
	case c.appendfsync != "always" && c.appendfsync != "everysec":
		return errors.New("--appendfsync must be always or everysec")
	}
	c.Sync = c.appendfsync == "always"
	if c.passwordFile == "" {
		return nil
	}
	text, err := os.ReadFile(c.passwordFile)
	if err != nil {
		return err
	}
	c.Password, _, _ = strings.Cut(string(text), "\n")
	if c.Password = strings.TrimSuffix(c.Password, "\r"); c.Password == "" {
		return &fileError{c.passwordFile, errors.New("its first line, the password, is empty")}
	}
	return nil
}

// listeners listens on the addresses that the flags give.
func (c *serveCommand) listeners() (all []net.Listener, err error) {
	if c.listen != "none" {
		if !server.Loopback(c.listen) && c.Password == "" && !c.open {
			return nil, fmt.Errorf("other machines reach %s, but there is no password; give --requirepass-file, or --no-password if that is intended", c.listen)
		}
		l, err := net.Listen("tcp", c.listen)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	if c.unix != "" {
		l, err := listenUnix(c.unix)
		if err != nil {
			for _, l := range all {
				l.Close()
			}
			return nil, err
		}
		all = append(all, l)
	}
	if len(all) == 0 {
		return nil, errors.New("serve needs --listen or --unix")
	}
	return all, nil
}

// listenUnix listens on a Unix socket. It replaces a socket that a dead server has left.
func listenUnix(path string) (net.Listener, error) {
	l, err := net.Listen("unix", path)
	if !errors.Is(err, syscall.EADDRINUSE) {
		return l, err
	}
	if conn, dead := net.Dial("unix", path); !errors.Is(dead, syscall.ECONNREFUSED) {
		if dead == nil {
			conn.Close()
		}
		return nil, err
	}
	if err := os.Remove(path); err != nil {
		return nil, err
	}
	return net.Listen("unix", path)
}

// readConfig sets the flags that a file names and the command line does not.
func readConfig(flags *pflag.FlagSet, path string) error {
	if path == "" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for number := 1; lines.Scan(); number++ {
		name, value, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		if name == "" || name[0] == '#' {
			continue
		}
		flag := flags.Lookup(name)
		if flag == nil || name == "config" {
			return &fileError{path, fmt.Errorf("line %d: serve has no flag --%s", number, name)}
		}
		if value = strings.TrimSpace(value); value == "" {
			value = flag.NoOptDefVal
		}
		if flag.Changed {
			continue
		}
		if err := flag.Value.Set(value); err != nil {
			return &fileError{path, fmt.Errorf("line %d: --%s: %w", number, name, err)}
		}
	}
	return lines.Err()
}
