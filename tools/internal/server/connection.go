package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mmapfilter/mmapfilter/tools/internal/resp"
)

// The commands of Redis about connections and the server.

// likeRedis is the version of Redis that clients are told. It decides which commands they send.
const likeRedis = "7.4.0"

const errName = refusal("ERR Client names cannot contain spaces, newlines or special characters.")

func ping(c *client, args [][]byte) error {
	if len(args) == 2 {
		return echo(c, args)
	}
	c.out.Simple("PONG")
	return nil
}

func echo(c *client, args [][]byte) error {
	c.out.Bulk(string(args[1]))
	return nil
}

func quit(c *client, _ [][]byte) error {
	c.quits = true
	return c.ok()
}

func selectDB(c *client, args [][]byte) error {
	switch n, ok := resp.Number(args[1]); {
	case !ok:
		return errInteger
	case n != 0:
		return refusal("ERR DB index is out of range")
	}
	return c.ok()
}

func auth(c *client, args [][]byte) error {
	user := []byte("default")
	if len(args) == 3 {
		user = args[1]
	} else if c.s.Password == "" {
		return refusal("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
	}
	if err := c.authenticate(user, args[len(args)-1]); err != nil {
		return err
	}
	return c.ok()
}

// authenticate checks a password, in a time that does not depend on where the password differs.
func (c *client) authenticate(user, password []byte) error {
	given, want := sha256.Sum256(password), sha256.Sum256([]byte(c.s.Password))
	if string(user) != "default" || c.s.Password != "" && subtle.ConstantTimeCompare(given[:], want[:]) == 0 {
		return refusal("WRONGPASS invalid username-password pair or user is disabled.")
	}
	c.trusted, c.in.Limits = true, resp.Known
	return nil
}

// hello answers HELLO [version [AUTH user password] [SETNAME name]].
func hello(c *client, args [][]byte) error {
	version, name := int64(2), c.name
	if c.out.RESP3 {
		version = 3
	}
	rest := args[1:]
	if len(rest) > 0 {
		var ok bool
		if version, ok = resp.Number(rest[0]); !ok {
			return refusal("ERR Protocol version is not an integer or out of range")
		}
		if version != 2 && version != 3 {
			return refusal("NOPROTO unsupported protocol version")
		}
		rest = rest[1:]
	}
	for len(rest) > 0 {
		switch {
		case same(rest[0], "AUTH") && len(rest) >= 3:
			if err := c.authenticate(rest[1], rest[2]); err != nil {
				return err
			}
			rest = rest[3:]
		case same(rest[0], "SETNAME") && len(rest) >= 2:
			if name = string(rest[1]); !plain(name) {
				return errName
			}
			rest = rest[2:]
		default:
			return refusal("ERR Syntax error in HELLO option '" + clip(rest[0]) + "'")
		}
	}
	if !c.trusted {
		return refusal("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
	}
	c.name, c.out.RESP3 = name, version == 3
	c.out.Map(7)
	for _, v := range []any{"server", "mmapfilter", "version", likeRedis, "proto", version, "id", c.id, "mode", "standalone", "role", "master", "modules"} {
		c.value(v)
	}
	c.out.Array(0)
	return nil
}

// plain reports whether a name has only printable ASCII, and no spaces.
func plain(name string) bool {
	for i := range len(name) {
		if name[i] < '!' || name[i] > '~' {
			return false
		}
	}
	return true
}

func clientCommand(c *client, args [][]byte) error {
	switch word := args[1]; {
	case same(word, "ID") && len(args) == 2:
		return c.int(c.id)
	case same(word, "GETNAME") && len(args) == 2:
		if c.name == "" {
			c.out.Null()
		} else {
			c.out.Bulk(c.name)
		}
		return nil
	case same(word, "SETNAME") && len(args) == 3:
		if !plain(string(args[2])) {
			return errName
		}
		c.name = string(args[2])
		return c.ok()
	case same(word, "SETINFO") && len(args) == 4, (same(word, "NO-EVICT") || same(word, "NO-TOUCH")) && len(args) == 3:
		return c.ok()
	}
	return errPart
}

// info answers INFO with all sections, or with the sections that are asked for.
func info(c *client, args [][]byte) error {
	sections := [][2]string{
		{"Server", fmt.Sprintf("redis_version:%s\r\nredis_mode:standalone\r\nmmapfilter_version:%s\r\nprocess_id:%d\r\nuptime_in_seconds:%d\r\n",
			likeRedis, c.s.Version, os.Getpid(), int(time.Since(c.s.started).Seconds()))},
		{"Clients", fmt.Sprintf("connected_clients:%d\r\nmaxclients:%d\r\n", c.s.connected(), c.s.MaxClients)},
		{"Persistence", "loading:0\r\naof_enabled:1\r\n"},
		{"Stats", fmt.Sprintf("total_commands_processed:%d\r\nopen_filters:%d\r\n", c.s.total.Load(), len(c.d.opens()))},
		{"Replication", "role:master\r\nconnected_slaves:0\r\n"},
		{"Keyspace", fmt.Sprintf("db0:keys=%d\r\n", len(c.d.all()))},
	}
	var text strings.Builder
	for _, s := range sections {
		asked := len(args) == 1
		for _, a := range args[1:] {
			asked = asked || same(a, s[0]) || same(a, "all") || same(a, "everything") || same(a, "default")
		}
		if asked {
			fmt.Fprintf(&text, "# %s\r\n%s\r\n", s[0], s[1])
		}
	}
	c.out.Bulk(text.String())
	return nil
}

// config answers CONFIG GET. The configuration stays as it was when the server started.
func config(c *client, args [][]byte) error {
	if !same(args[1], "GET") || len(args) < 3 {
		return errPart
	}
	appendfsync := "everysec"
	if c.s.Sync {
		appendfsync = "always"
	}
	var found []any
	for _, pair := range [][2]string{
		{"appendfsync", appendfsync}, {"appendonly", "yes"}, {"databases", "1"}, {"dir", c.s.Dir},
		{"maxclients", fmt.Sprint(c.s.MaxClients)}, {"proto-max-bulk-len", fmt.Sprint(resp.Known.Bulk)}, {"save", ""},
	} {
		for _, pattern := range args[2:] {
			if glob(lower(string(pattern)), pair[0]) {
				found = append(found, pair[0], pair[1])
				break
			}
		}
	}
	return c.pairs(found...)
}

// whole checks that words are whole numbers, not below 0.
func whole(words [][]byte) error {
	for _, w := range words {
		if n, ok := resp.Number(w); !ok || n < 0 {
			return errInteger
		}
	}
	return nil
}

// wait answers at once: there are no replicas to wait for.
func wait(c *client, args [][]byte) error {
	if err := whole(args[1:]); err != nil {
		return err
	}
	return c.int(0)
}

// waitAOF makes every write durable that has been answered.
func waitAOF(c *client, args [][]byte) error {
	if err := whole(args[1:]); err != nil {
		return err
	}
	if n, _ := resp.Number(args[1]); n > 1 {
		return refusal("ERR value is out of range, value must between 0 and 1")
	}
	if err := c.d.syncAll(); err != nil {
		return err
	}
	c.out.Array(2)
	c.out.Int(1)
	return c.int(0)
}

// shutdown ends the server. The client gets no reply.
func shutdown(c *client, _ [][]byte) error {
	c.quits = true
	c.s.once.Do(func() { close(c.s.down) })
	return nil
}
